#include <gmock/gmock.h>

#include <barrier>
#include <latch>

#include "mock_mpi_ranks.hpp"
#include "support/rotation.hpp"

// What the backend on MPI does when a call of MPI fails: it is told with MPI's text, and nobody
// waits for longer than the timeout.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// Some of every kind. The tensors outlive the world: MPI may work on them after a failure.
struct MpiProgram {
  std::vector<float> a = std::vector<float>(64, 1);
  std::vector<float> b = std::vector<float>(64 * 8, 0);
  std::vector<float> c = std::vector<float>(64 * 8, 2);
  std::vector<std::uint8_t> bits = std::vector<std::uint8_t>(16, 1);

  std::vector<std::uint8_t> got = std::vector<std::uint8_t>(16);

  void run(ProcessGroup& world) {
    const auto ranks = static_cast<std::size_t>(world.size());
    const auto all = std::span(b).first(64 * ranks);
    world.all_reduce(a, {.op = ReduceOp::max}).wait();
    world.broadcast(a).wait();
    world.all_gather(all, a).wait();
    world.reduce_scatter(a, all).wait();
    world.all_to_all(all, std::span(c).first(64 * ranks)).wait();
    world.gather(all, a).wait();
    world.scatter(a, all).wait();
    Work sent = world.isend(bits, after(world));
    world.irecv(got, before(world)).wait();
    sent.wait();
    sent = world.isend(bits, after(world));
    world.probe(before(world)).recv(got);
    sent.wait();
    // No new group: MPI_Comm_split blocks, and has no form that does not
    // (docs/reference/backends.md).
  }
};

constexpr int kAll = 3;

/// Calls that fail: all of the first ones, or one in `step` of them by rotation.
std::vector<int> chosen_calls(int first, int step) {
  if (long_tests() || rotates_nothing()) step = 1;
  std::vector<int> calls;
  for (int call = static_cast<int>(rotation() % static_cast<std::uint64_t>(step)); call < first;
       call += step)
    calls.push_back(call);
  return calls;
}

void expect_names_the_fault(const Outcome& told, int culprit) {
  EXPECT_THAT(told.message(), testing::HasSubstr("MPI_ERR_OTHER: a planted fault"));
  EXPECT_EQ(told.culprit(), culprit) << told.message();
}

TEST(MockMpiFaults, AFailureOfAnyCallIsToldOnAllRanksAtOnce) {
  // So many calls a rank makes at least. Looks at what is not done yet are calls, too.
  for (const int call : chosen_calls(30, 3)) {
    SCOPED_TRACE(call);
    MockMpi mpi(kAll);
    const int culprit = call % kAll;
    std::vector<MpiProgram> programs(kAll);
    std::barrier together(kAll);  // no rank is in its init any more
    const auto begun = std::chrono::steady_clock::now();
    run_mock_mpi(mpi, [&](ProcessGroup& world) {
      together.arrive_and_wait();
      if (world.rank() == culprit) mpi.rank(culprit).fail_at(call);
      const Outcome told =
          error_of<Error>([&] { programs[static_cast<std::size_t>(world.rank())].run(world); });
      expect_names_the_fault(told, culprit);
    });
    EXPECT_TRUE(mpi.rank(culprit).failed());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kForever / 2) << "by a timeout";
  }
}

TEST(MockMpiFaults, AFailureOfInitIsToldAndTheOthersWaitNoLongerThanTheirTimeout) {
  int failed = 0;
  for (const int call : chosen_calls(12, 4)) {
    SCOPED_TRACE(call);
    MockMpi mpi(kAll);
    const auto culprit = static_cast<std::size_t>(call % kAll);
    mpi.rank(call % kAll).fail_at(call);
    const auto errors = errors_of_mock_mpi(
        mpi, patient(), [](ProcessGroup&) {}, 1s);
    if (!mpi.rank(call % kAll).failed()) continue;  // its init was over, by its timeout or well
    ++failed;
    for (std::size_t r = 0; r < errors.size(); ++r) {
      ASSERT_TRUE(errors[r]) << r;
      const Outcome told = error_of<Error>([&] { std::rethrow_exception(errors[r]); });
      if (r == culprit) {
        EXPECT_THAT(told.message(), testing::HasSubstr("MPI_ERR_OTHER: a planted fault"));
      } else {
        EXPECT_NE(told.message(), "");
      }
    }
  }
  EXPECT_GT(failed, 0);
}

TEST(MockMpiFaults, ItsTextAndTheOperationAreTold) {
  MockMpi mpi(2);
  std::vector<float> data(4, 1);
  std::vector<float> other(4, 1);
  std::barrier together(2);  // or the failure would end the barrier of a slower rank
  run_mock_mpi(mpi, [&](ProcessGroup& world) {
    world.barrier().wait();
    together.arrive_and_wait();
    if (world.rank() == 0) mpi.rank(0).fail_at(0);
    const Outcome error =
        error_of<BackendError>([&] { world.all_reduce(world.rank() == 0 ? data : other).wait(); });
    expect_names_the_fault(error, 0);
    EXPECT_THAT(error.message(), testing::HasSubstr("all_reduce(SUM, float32 x 4)"));
  });
}

TEST(MockMpiFaults, CommunicatorsAreFreedWhenAllHaveLeft) {
  MockMpi mpi(3);
  run_mock_mpi(mpi, [&](ProcessGroup& world) {
    for (int i = 0; i < 50; ++i) {
      ProcessGroup group = world.new_subgroups(3);
      std::vector<int> one{1};
      group.all_reduce(one).wait();
      EXPECT_EQ(one[0], 3);
    }
    for (int i = 0; i < 200 && mpi.communicators() > 12; ++i) {
      world.barrier().wait();
      (void)world.health();
    }
    // Those of the world, of the notes, and of the last groups.
    EXPECT_LE(mpi.communicators(), 12U);
  });
}

TEST(MockMpiFaults, WhatNobodyReceivedKeepsItsCommunicator) {
  run_mock_mpi(MockMpi(2), [&](ProcessGroup& world) {
    std::vector<int> value{7};
    {
      ProcessGroup group = world.new_subgroups(2);
      if (world.rank() == 0) group.isend(value, 1).wait();
      group.barrier().wait();
    }
    std::vector<int> got{0};
    ProcessGroup next = world.new_subgroups(2);
    std::vector<int> other{8};
    if (next.rank() == 0)
      next.isend(other, 1).wait();
    else
      next.irecv(got, 0).wait();
    if (next.rank() == 1) {
      EXPECT_EQ(got[0], 8);
    }
  });
}

TEST(MockMpiFaults, ATagBeyondTheLargestIsToldToTheCallerAlone) {
  run_mock_mpi(MockMpi(2), [&](ProcessGroup& world) {
    std::vector<int> one{1};
    Work work = world.rank() == 0 ? world.isend(one, 1, {.tag = 40000})
                                  : world.irecv(one, 0, {.tag = 40000});
    const Outcome error = error_of<BackendError>([&] { work.wait(); });
    // The mock has 32767; its upper half is for our own messages.
    EXPECT_THAT(error.message(), testing::HasSubstr("tag 40000"));
    EXPECT_THAT(error.message(), testing::HasSubstr("(16382)"));
    EXPECT_TRUE(world.health().ok());
    if (world.rank() == 0)
      world.isend(one, 1, {.tag = 16382}).wait();
    else
      EXPECT_EQ(world.recv(one, 0, {.tag = 16382}), 0);
  });
}

TEST(MockMpiFaults, AMessageOfAnotherLengthIsADisagreement) {
  std::vector<float> sent(3, 1);
  std::vector<float> got(4, 0);
  try {
    run_mock_mpi(MockMpi(2), [&](ProcessGroup& world) {
      if (world.rank() == 0) {
        world.isend(sent, 1).wait();
        return;  // its next call hears of it, or not yet
      }
      const Outcome error = error_of<DisagreementError>([&] { world.irecv(got, 0).wait(); });
      EXPECT_THAT(error.message(), testing::HasSubstr("12 bytes"));
    });
  } catch (const DisagreementError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("12 bytes"));
  }
}

TEST(MockMpiFaults, SplitsOfStructsThatDifferAreToldInStructs) {
  struct Pair {
    double values[2];
  };
  MockMpi mpi(2);
  run_mock_mpi(mpi, [](ProcessGroup& world) {
    const std::vector<std::size_t> two{2, 2};
    const std::vector<std::size_t> sends{2, world.rank() == 0 ? std::size_t{3} : 2};
    std::vector<Pair> given(2 + sends[1]);
    std::vector<Pair> got(4);
    const Outcome error = error_of<DisagreementError>([&] {
      world.all_to_all(got, given, {.output_splits = two, .input_splits = sends}).wait();
      world.barrier().wait();
    });
    EXPECT_THAT(error.message(), testing::HasSubstr(" sends 3 elements to "));
    EXPECT_THAT(error.message(), testing::HasSubstr("which expects 2."));
  });
}

TEST(MockMpiFaults, AMessageThatIsTooLongEndsItsReceive) {
  MockMpi mpi(2);
  std::vector<float> sent(5, 1);
  std::vector<float> got(4, 0);
  const Outcome error = error_of<BackendError>([&] {
    run_mock_mpi(mpi, [&](ProcessGroup& world) {
      if (world.rank() == 0)
        world.isend(sent, 1).wait();
      else
        world.recv(got, 0);
    });
  });
  EXPECT_THAT(error.message(), testing::HasSubstr("MPI_ERR_OTHER"));
  EXPECT_THAT(error.message(), testing::Not(testing::HasSubstr("keep them")));
  EXPECT_EQ(mpi.rank(1).misuse(), "");
}

TEST(MockMpiFaults, AReceiveThatMpiCannotCancelKeepsItsTensor) {
  for (const bool cancels : {true, false}) {
    MockMpi mpi(2);
    mpi.rank(1).set_cancels(cancels);
    std::vector<float> got(4, 0);
    run_mock_mpi(mpi, [&](ProcessGroup& world) {
      if (world.rank() == 0) {
        EXPECT_TRUE(breaks_soon(world));
        return;
      }
      const Outcome error = error_of<TimeoutError>([&] { world.recv(got, 0, {.timeout = 10ms}); });
      const bool keeps = std::string_view(error.message()).find("keep them") != std::string::npos;
      EXPECT_NE(keeps, cancels) << error.message();
      EXPECT_EQ(error.tensors_in_use(), keeps);
    });
  }
}

TEST(MockMpiFaults, AWorkLeavesItsResultWhereMpiMayStillWriteIt) {
  struct Tensor {
    std::vector<float> values = std::vector<float>(4);
    std::shared_ptr<int> lives = std::make_shared<int>();
  };
  for (const bool cancels : {true, false}) {
    for (const bool waits : {true, false}) {
      MockMpi mpi(2);
      mpi.rank(1).set_cancels(cancels);
      std::weak_ptr<int> lives;
      run_mock_mpi(mpi, [&](ProcessGroup& world) {
        if (world.rank() == 0) {
          EXPECT_TRUE(breaks_soon(world));
          return;
        }
        Tensor tensor;
        lives = tensor.lives;
        Work receives = world.irecv(tensor.values, 0, {.timeout = 10ms});
        OwningWork<Tensor> work(std::move(tensor), std::move(receives));
        if (waits) {
          EXPECT_THROW((void)work.wait(), TimeoutError);
        }
      });
      EXPECT_EQ(lives.expired(), cancels);
    }
  }
}

TEST(MockMpiFaults, EveryCallWithTensorsInMpiSaysSo) {
  MockMpi mpi(2);
  std::vector<float> first(4, 1);
  std::vector<float> second(4, 1);
  run_mock_mpi(mpi, [&](ProcessGroup& world) {
    if (world.rank() == 0) {
      EXPECT_TRUE(breaks_soon(world));
      return;
    }
    mpi.rank(1).set_cancels(false);
    Work receives = world.irecv(first, 0, {.timeout = 10ms});
    // Its tensor stays in MPI, though it is another call that is late.
    Work other = world.irecv(second, 0, {.tag = 1});
    EXPECT_THROW(receives.wait(), TimeoutError);
    EXPECT_THROW(other.wait(), TimeoutError);
    EXPECT_THAT(std::string(other.error().message()), testing::HasSubstr("keep them"));
    EXPECT_THAT(std::string(world.health().message()),
                testing::Not(testing::HasSubstr("keep them")));
  });
}

TEST(MockMpiFaults, MoreCallsThanTagsOfComparisonsAreUnderWay) {
  MockMpi mpi(5);
  std::latch first_has_called(1);
  run_mock_mpi(mpi, [&](ProcessGroup& world) {
    constexpr int kCalls = 3000;
    std::vector<int> values(kCalls, 1);
    std::vector<Work> works;
    world.barrier().wait();
    if (world.rank() != 0) first_has_called.wait();
    for (int i = 0; i < kCalls; ++i)
      works.push_back(world.all_reduce(std::span(values).subspan(static_cast<std::size_t>(i), 1)));
    if (world.rank() == 0) {
      // A message and two requests each, and what other ranks have. More would share tags.
      EXPECT_LT(mpi.left_over(), 3 * 1024U + 100);
      first_has_called.count_down();
    }
    wait_all(works);
    EXPECT_EQ(values, std::vector<int>(kCalls, 5));
  });
}

TEST(MockMpiFaults, WithoutComparingResultsAreRight) {
  Config config = patient();
  config.agree = Config::Agree::off;
  std::vector<MpiProgram> programs(4);
  run_mock_mpi(MockMpi(4), config, [&](ProcessGroup& world) {
    programs[static_cast<std::size_t>(world.rank())].run(world);
    std::vector<int> values(100, world.rank());
    world.all_reduce(values).wait();
    EXPECT_EQ(values, std::vector<int>(100, 6));
  });
}

}  // namespace
}  // namespace tutti::test
