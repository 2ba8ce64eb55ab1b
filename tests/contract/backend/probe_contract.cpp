#include <random>

#include <tutti/backend/group_access.hpp>

#include "backend_contract.hpp"

// Promises about probes of every backend that has them; the others refuse them at the call.
namespace tutti::test {
namespace {

using Values = std::vector<std::int32_t>;

/// The elements tell who sent them, and as which message.
Values values_of(int from, int number, std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), from * 100'000'000 + number * 1'000'000);
  return values;
}

/// False: the backend has no probes, and has said so.
bool probes(ProcessGroup& world) {
  if (GroupAccess::backend(world).capabilities().probe) return true;
  EXPECT_THROW((void)world.probe(before(world)), InvalidArgument);
  EXPECT_THROW((void)world.try_probe(any_source), InvalidArgument);
  return false;
}

}  // namespace

TEST_P(BackendContract, AProbeTellsTheSizeOfItsMessage) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    const std::size_t large = kSanitized ? 50'000 : 900'000;
    int tag = 0;  // another one each time: a rank that is ahead sends already
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3000}, large}) {
      ++tag;
      const Values mine = values_of(world.rank(), 1, count);
      const Values theirs = values_of(before(world), 1, count);
      Work send = world.isend(mine, after(world), {.tag = tag});
      Message found = world.probe(before(world), {.tag = tag});
      EXPECT_EQ(found.source(), before(world));
      EXPECT_EQ(found.tag(), tag);
      EXPECT_EQ(found.bytes(), 4 * count);
      EXPECT_FALSE(world.try_probe(any_source, {.tag = tag})) << "it belongs to the first probe";
      Values other(count + 1);
      EXPECT_THROW(found.recv(other), InvalidArgument);
      EXPECT_TRUE(found.valid());
      EXPECT_EQ(found.recv<std::int32_t>(), theirs);
      EXPECT_FALSE(found.valid());
      EXPECT_THROW((void)found.recv<std::int32_t>(), InvalidArgument);
      send.wait();
    }
    expect_usable(world);
  });
}

TEST_P(BackendContract, ProbesAndRecvsGetTheMessagesInTheirOrder) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    constexpr int kMessages = 60;
    constexpr int kTags = 2;
    const int from = before(world);
    const auto count_of = [](int number) -> std::size_t {
      return number % 7 == 0 ? 20'000 : static_cast<std::size_t>(number);
    };
    std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()));
    std::vector<Values> sent;
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) sent.push_back(values_of(world.rank(), i, count_of(i)));
    for (int i = 0; i < kMessages; ++i)
      works.push_back(
          world.isend(sent[static_cast<std::size_t>(i)], after(world), {.tag = i % kTags}));
    int next[kTags] = {0, 1};
    while (next[0] < kMessages || next[1] < kMessages) {
      int tag = static_cast<int>(random() % kTags);
      if (next[tag] >= kMessages) tag = 1 - tag;
      const int number = std::exchange(next[tag], next[tag] + kTags);
      const int source = random() % 2 == 0 ? from : any_source;
      const Values expected = values_of(from, number, count_of(number));
      Values got(expected.size());
      switch (random() % 4) {
        case 0: EXPECT_EQ(world.recv(got, source, {.tag = tag}), from); break;
        case 1: {
          Message found = world.probe(source, {.tag = tag});
          Work work = found.irecv(got);
          work.wait();
          EXPECT_EQ(work.source_rank(), from);
          break;
        }
        case 2: {
          std::optional<Message> found;
          const auto until = std::chrono::steady_clock::now() + kForever;
          while (!(found = world.try_probe(source, {.tag = tag}))) {
            ASSERT_LT(std::chrono::steady_clock::now(), until);
            std::this_thread::yield();
          }
          got = found->recv<std::int32_t>();
          break;
        }
        default: {
          {
            const Message dropped = world.probe(source, {.tag = tag});
          }
          got = world.probe(source, {.tag = tag}).recv<std::int32_t>();
        }
      }
      ASSERT_EQ(got, expected) << number;
    }
    wait_all(works);
    EXPECT_FALSE(world.try_probe(any_source));
    expect_usable(world);
  });
}

TEST_P(BackendContract, AMessageThatIsPutBackGoesToTheRecvThatWaits) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}}) {
      const Values mine = values_of(world.rank(), 1, count);
      const Values second = values_of(world.rank(), 2, count);
      Work send = world.isend(mine, after(world));
      std::optional<Message> found = world.probe(before(world));
      Values got(count);
      Work receives = world.irecv(got, any_source);
      found.reset();
      receives.wait();
      EXPECT_EQ(receives.source_rank(), before(world));
      EXPECT_EQ(got, values_of(before(world), 1, count));
      send.wait();
      // A recv gets the message behind one that a probe has, which then is received.
      Work first = world.isend(mine, after(world));
      Work another = world.isend(second, after(world));
      found = world.probe(any_source);
      EXPECT_EQ(world.recv(got, before(world)), before(world));
      EXPECT_EQ(got, values_of(before(world), 2, count));
      EXPECT_EQ(found->recv<std::int32_t>(), values_of(before(world), 1, count));
      first.wait();
      another.wait();
    }
    expect_usable(world);
  });
}

TEST_P(BackendContractOfSeveral, AProbeOfAMessageThatIsNotSentNamesItsSender) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    if (world.rank() == 1) {
      ASSERT_TRUE(breaks_soon(world));
      EXPECT_THROW((void)world.try_probe(0), TimeoutError);
      return;
    }
    if (world.rank() > 1) {
      ASSERT_TRUE(breaks_soon(world));
      return;
    }
    const Outcome error = error_of<TimeoutError>(
        [&] { (void)world.probe(1, {.tag = 77, .timeout = std::chrono::milliseconds(100)}); });
    EXPECT_EQ(error.culprit(), 1) << error.message();
    EXPECT_THAT(error.message(), testing::HasSubstr("probe(from 1, tag 77)"));
    EXPECT_THAT(error.message(), testing::HasSubstr("has not sent it"));
  });
}

TEST_P(BackendContractOfSeveral, AnAbortOrASenderThatLeavesEndsAProbe) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    ProcessGroup left = world.new_subgroups(world.size());
    ProcessGroup aborted = world.new_subgroups(world.size());
    const Values values = values_of(0, 1, 1000);
    if (world.rank() == 0) {
      left.send(values, 1);
      left = {};
      world.barrier().wait();
      aborted.abort("enough");
    } else if (world.rank() == 1) {
      EXPECT_EQ(left.probe(0).recv<std::int32_t>(), values) << "what it had sent arrives";
      world.barrier().wait();
      const Outcome error = error_of<NetworkError>([&] { (void)left.probe(0); });
      EXPECT_EQ(error.code(), Errc::peer_left) << error.message();
      EXPECT_EQ(error.culprit(), 0) << error.message();
      EXPECT_THROW((void)aborted.probe(0), BackendError);
      EXPECT_THROW((void)aborted.try_probe(0), BackendError);
    } else {
      world.barrier().wait();
    }
    expect_usable(world);
  });
}

TEST_P(BackendContractOfSeveral, AProbedMessageThatIsNotReceivedReachesNoOtherGroup) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    for (int i = 0; i < 3; ++i) {
      ProcessGroup group = world.new_subgroups(world.size());
      const Values values{i};
      if (group.rank() == 0) group.isend(values, 1).wait();
      if (group.rank() == 1 && i < 2) {
        EXPECT_EQ(group.probe(0).bytes(), 4U);
      } else if (group.rank() == 1) {
        EXPECT_EQ(group.probe(any_source).recv<std::int32_t>(), values);
      }
      group.barrier().wait();
    }
    expect_usable(world);
  });
}

TEST_P(BackendContractOfSeveral, AGroupThatBreaksTakesItsProbedMessagesWithIt) {
  run([](ProcessGroup& world) {
    if (!probes(world)) return;
    ProcessGroup group = world.new_subgroups(world.size());
    const Values values = values_of(0, 1, 10);
    Values got(10);
    // Its Work ends well, or with the abort, which may be quicker.
    Work sent = world.rank() == 0 ? group.isend(values, 1) : Work();
    if (world.rank() == 1) {
      Message found = group.probe(0);
      group.abort("enough");
      EXPECT_THROW(found.recv(got), BackendError);
    }
    ASSERT_TRUE(breaks_soon(group));
    if (sent.valid()) {
      EXPECT_TRUE(sent.wait_for(kForever));
      EXPECT_TRUE(sent.error().ok() || sent.error().code() == Errc::aborted)
          << sent.error().message();
    }
    expect_usable(world);
  });
}

}  // namespace tutti::test
