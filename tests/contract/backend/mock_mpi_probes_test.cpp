#include <gmock/gmock.h>

#include <tutti/backend/group_access.hpp>

#include "mock_mpi_ranks.hpp"

// Probes on MPI: which message a probe or recv gets where MPI alone would give another one, and
// what becomes of messages that are not received.
namespace tutti::test {
namespace {

using Values = std::vector<std::int32_t>;

/// As ProcessGroup does it, without waiting.
class Asked {
 public:
  Asked(ProcessGroup& group, int source, int tag) : backend_(&GroupAccess::backend(group)) {
    Collective call;
    call.kind = Kind::probe;
    call.root = source;
    call.tag = tag;
    call.timeout = kForever;
    probe_ = backend_->submit(call, false);
  }
  [[nodiscard]] bool done() { return probe_.poll().has_value(); }
  /// Bytes of the message; -1: there is none.
  [[nodiscard]] int bytes() {
    const auto found = probe_.probed();
    return found ? static_cast<int>(found->count) : -1;
  }
  [[nodiscard]] Pending receive(Values& into) {
    Details details;
    details.probed = probe_.ticket;
    Collective call;
    call.kind = Kind::recv;
    call.timeout = kForever;
    call.output = TensorView(into);
    call.details = &details;
    return backend_->submit(call, false);
  }
  void drop() { EXPECT_EQ(probe_.release().source, -1); }

 private:
  Backend* backend_;
  Pending probe_;
};

TEST(MockMpiProbes, WaitForTheirTurnAmongRecvs) {
  MockMpi mpi(1);
  run_mock_mpi(mpi, [](ProcessGroup& world) {
    Values first(1), third(1), other(1);
    const Values sent{1, 2, 3, 4};
    const auto send = [&](std::size_t i, int tag) {
      world.isend(std::span(sent).subspan(i, 1), 0, {.tag = tag}).wait();
    };
    Work before = world.irecv(first, 0);
    Asked probe(world, any_source, 0);
    Work after = world.irecv(third, 0);
    Work tagged = world.irecv(other, 0, {.tag = 1});
    send(3, 1);
    tagged.wait();
    EXPECT_EQ(other, Values{4}) << "a recv with another tag does not wait for the probe";
    send(0, 0);
    before.wait();
    EXPECT_EQ(first, Values{1});
    EXPECT_FALSE(probe.done());
    send(1, 0);
    EXPECT_TRUE(probe.done());
    EXPECT_EQ(probe.bytes(), 4);
    EXPECT_FALSE(after.done());
    send(2, 0);
    after.wait();
    EXPECT_EQ(third, Values{3});
    Values second(1);
    (void)probe.receive(second).release();
    EXPECT_EQ(second, Values{2});
    EXPECT_EQ(probe.bytes(), -1);
    probe.drop();
  });
  EXPECT_EQ(mpi.rank(0).misuse(), "");
}

TEST(MockMpiProbes, AnyTagTakesEachMessageOfACallerInTheirOrderAndNoneOfTheLibrary) {
  run_mock_mpi(MockMpi(1), [](ProcessGroup& world) {
    constexpr int kTags[] = {3, kLibraryTag, 5, kFirstPackageTag, 4, 5};
    Values sent{0, 1, 2, 3, 4, 5};
    Values got(1);
    const auto submit = [&](Kind kind, int tag, std::span<std::int32_t> values) {
      Collective call;
      call.kind = kind;
      call.tag = tag;
      call.timeout = kForever;
      (kind == Kind::send ? call.input : call.output) = TensorView(values);
      return GroupAccess::backend(world).submit(call, false);
    };
    const auto send = [&](std::size_t i) {
      (void)submit(Kind::send, kTags[i], std::span(sent).subspan(i, 1)).release();
    };
    for (const bool posted : {false, true}) {
      Values first(1, -1), second(1, -1);
      Work any, behind;
      const auto receive = [&] {
        any = world.irecv(first, any_source, {.tag = any_tag});
        behind = world.irecv(second, 0, {.tag = 5});
      };
      if (posted) receive();
      for (std::size_t i = 0; i < std::size(kTags); ++i) send(i);
      if (!posted) receive();
      any.wait();
      behind.wait();
      EXPECT_EQ(first, Values{0});
      EXPECT_EQ(any.tag(), 3);
      EXPECT_EQ(second, Values{2});
      Message probed = world.probe(0, {.tag = any_tag});
      EXPECT_EQ(probed.tag(), 4);
      EXPECT_EQ(world.recv(got, any_source, {.tag = any_tag}), 0);
      EXPECT_EQ(got, Values{5});
      probed.recv(got);
      EXPECT_EQ(got, Values{4});
      EXPECT_FALSE(world.try_probe(any_source, {.tag = any_tag}));
      for (const std::size_t i : {std::size_t{3}, std::size_t{1}}) {
        (void)submit(Kind::recv, kTags[i], got).release();
        EXPECT_EQ(got, Values{static_cast<int>(i)});
      }
      Work cancelled = world.irecv(got, any_source, {.tag = any_tag});
      EXPECT_TRUE(cancelled.cancel());
    }
  });
}

TEST(MockMpiProbes, MessagesArePutBackInTheOrderOfTheirSending) {
  run_mock_mpi(MockMpi(1), [](ProcessGroup& world) {
    const Values sent{1, 2, 3, 4, 5};
    for (std::size_t i = 0; i < 4; ++i) world.isend(std::span(sent).subspan(i, 1), 0).wait();
    Asked one(world, 0, 0), two(world, any_source, 0), three(world, 0, 0);
    Values got(1);
    EXPECT_EQ(world.recv(got, 0), 0);
    EXPECT_EQ(got, Values{4}) << "those before it belong to probes";
    world.isend(std::span(sent).subspan(4, 1), 0).wait();
    two.drop();
    one.drop();
    three.drop();
    for (const int wanted : {1, 2, 3, 5}) {
      world.recv(got, any_source);
      EXPECT_EQ(got, Values{wanted});
    }
    EXPECT_FALSE(world.try_probe(any_source));
  });
}

TEST(MockMpiProbes, OneThatWaitsAndIsGivenUpLetsTheRecvsBehindItGoOn) {
  run_mock_mpi(MockMpi(1), [](ProcessGroup& world) {
    const Values sent{7};
    Values got(1);
    Asked given_up(world, 0, 0);
    Work receives = world.irecv(got, 0);
    given_up.drop();
    world.isend(sent, 0).wait();
    receives.wait();
    EXPECT_EQ(got, sent);
  });
}

TEST(MockMpiProbes, AMessageOfAnotherLengthIsADisagreementOfTheRecvBehindOne) {
  run_mock_mpi(MockMpi(1), [](ProcessGroup& world) {
    const Values sent{7, 8};
    Values got(1, 5);
    world.isend(sent, 0).wait();
    world.isend(sent, 0).wait();
    Asked probe(world, 0, 0);
    EXPECT_EQ(probe.bytes(), 8);
    const Outcome error = error_of<DisagreementError>([&] { (void)world.recv(got, 0); });
    EXPECT_THAT(error.message(), testing::HasSubstr("has sent 8 bytes"));
    EXPECT_EQ(got, Values{5});
    probe.drop();
  });
}

TEST(MockMpiProbes, ATicketWithoutAMessageIsRefused) {
  run_mock_mpi(MockMpi(1), [](ProcessGroup& world) {
    Values got(1);
    Asked probe(world, 0, 0);
    const Pending pending = probe.receive(got);
    const std::optional<Outcome> outcome = pending.poll();
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->code(), Errc::internal);
    (void)pending.release();
    probe.drop();
    EXPECT_TRUE(world.health().ok());
  });
}

/// The error of a probe and of the recv of what it found, where MPI fails as planted.
std::string error_of_a_probe(const std::function<void(MockRank&)>& plant) {
  MockMpi mpi(1);
  std::string told;
  try {
    run_mock_mpi(mpi, [&](ProcessGroup& world) {
      const Values sent{7};
      world.isend(sent, 0).wait();
      plant(mpi.rank(0));
      Values got(1);
      if (std::optional<Message> found = world.try_probe(0)) found->recv(got);
      EXPECT_EQ(got, sent);
    });
  } catch (const BackendError& error) {
    told = error.what();
    EXPECT_THAT(told, testing::HasSubstr("a planted fault"));
  }
  EXPECT_EQ(mpi.rank(0).misuse(), "");
  return told;
}

TEST(MockMpiProbes, AFailureOfMpiIsTold) {
  using Function = MockRank::Function;
  EXPECT_THAT(
      error_of_a_probe([](MockRank& rank) { rank.fail_next(Function::improbe); }),
      testing::HasSubstr("probe(from 0, tag 0) in group 'world' (looking for its message)"));
  EXPECT_THAT(error_of_a_probe([](MockRank& rank) { rank.fail_next(Function::receive_found); }),
              testing::HasSubstr("recv(from 0, tag 0, int32 x 1) in group 'world' (beginning it)"));
}

TEST(MockMpiProbes, AFailureOfAnyCallLeavesNoMisuse) {
  // Which calls fail depends on the moment: a thread makes progress, too.
  for (int call = 0; call < 6; ++call)
    (void)error_of_a_probe([&](MockRank& rank) { rank.fail_at(call); });
}

TEST(MockMpiProbes, ATagBeyondTheLargestIsTold) {
  run_mock_mpi(MockMpi(1), [](ProcessGroup& world) {
    EXPECT_THROW((void)world.probe(0, {.tag = 40000}), BackendError);
    EXPECT_THROW((void)world.try_probe(0, {.tag = 40000}), BackendError);
    EXPECT_TRUE(world.health().ok());
  });
}

}  // namespace
}  // namespace tutti::test
