#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "arrangement.hpp"
#include "mock_mpi_ranks.hpp"
#include "support/rotation.hpp"

// What the backend on MPI does when a call of MPI fails: it is told with MPI's text, and nobody
// waits for longer than the timeout.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

Config impatient() {
  Config config;
  config.timeout = 400ms;
  return config;
}

/// Until another rank has broken the group.
void until_broken(ProcessGroup& world) {
  const auto until = std::chrono::steady_clock::now() + kForever;
  while (world.health().ok() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
}

/// Some of every kind. The tensors outlive the world: MPI may work on them after a failure.
struct Program {
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
    Work sent = world.isend(bits, (world.rank() + 1) % world.size());
    world.irecv(got, (world.rank() + world.size() - 1) % world.size()).wait();
    sent.wait();
    sent = world.isend(bits, (world.rank() + 1) % world.size());
    world.probe((world.rank() + world.size() - 1) % world.size()).recv(got);
    sent.wait();
    // No new group: MPI_Comm_split blocks, and has no form that does not (docs/backends.md).
  }
};

/// Which calls of rank 0 take part: those of init, the operations, and the end.
int calls_of_a_whole_run(int size) {
  MockMpi mpi(size);
  std::vector<Program> programs(static_cast<std::size_t>(size));
  run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
    programs[static_cast<std::size_t>(world.rank())].run(world);
  });
  return mpi.rank(0).calls();
}

TEST(MockMpiFaults, AFailureOfAnyCallIsToldAndNobodyHangs) {
  constexpr int kRanks = 3;
  // Looks at what is not done yet are calls, too: their number depends on the moment.
  const int calls = std::min(calls_of_a_whole_run(kRanks), 300);
  ASSERT_GT(calls, 40);
  std::atomic<int> told{0};
  const int step = long_tests() || rotates_nothing() ? 1 : 5;
  const int first = static_cast<int>(rotation() % static_cast<std::uint64_t>(step));
  for (int call = first; call < calls; call += step) {
    MockMpi mpi(kRanks);
    const int culprit = call % kRanks;
    mpi.rank(culprit).fail_at(call);
    std::vector<Program> programs(kRanks);
    const auto begun = std::chrono::steady_clock::now();
    try {
      run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
        programs[static_cast<std::size_t>(world.rank())].run(world);
      });
    } catch (const Error& error) {
      const std::string text = error.what();
      ++told;
      EXPECT_FALSE(text.empty());
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 8s) << "call " << call;
  }
  EXPECT_GT(told, 5) << "faults were planted in vain";
}

TEST(MockMpiFaults, ItsTextAndTheOperationAreTold) {
  MockMpi mpi(2);
  std::vector<float> data(4, 1);
  std::vector<float> other(4, 1);
  std::atomic<int> named{0};
  std::barrier together(2);  // or the failure would end the barrier of a slower rank
  try {
    run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
      world.barrier().wait();
      together.arrive_and_wait();
      if (world.rank() == 0) mpi.rank(0).fail_at(0);
      try {
        world.all_reduce(world.rank() == 0 ? data : other).wait();
      } catch (const BackendError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("a planted fault"));
        EXPECT_THAT(error.what(), testing::HasSubstr("all_reduce(SUM, float32 x 4)"));
        EXPECT_EQ(error.culprit(), 0);
        ++named;
      }
    });
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  EXPECT_EQ(named, 2) << "on both ranks";
}

TEST(MockMpiFaults, CommunicatorsAreFreedWhenAllHaveLeft) {
  MockMpi mpi(3);
  run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
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
  MockMpi mpi(2);
  run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
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
  MockMpi mpi(2);
  run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
    std::vector<int> one{1};
    Work work = world.rank() == 0 ? world.isend(one, 1, {.tag = 40000})
                                  : world.irecv(one, 0, {.tag = 40000});
    try {
      work.wait();
      ADD_FAILURE() << "no error";
    } catch (const BackendError& error) {
      // The mock has 32767; its upper half is for our own messages.
      EXPECT_THAT(error.what(), testing::HasSubstr("tag 40000"));
      EXPECT_THAT(error.what(), testing::HasSubstr("(16382)"));
    }
    EXPECT_TRUE(world.health().ok());
    if (world.rank() == 0)
      world.isend(one, 1, {.tag = 16382}).wait();
    else
      EXPECT_EQ(world.recv(one, 0, {.tag = 16382}), 0);
  });
}

TEST(MockMpiFaults, AMessageOfAnotherLengthIsADisagreement) {
  MockMpi mpi(2);
  std::vector<float> sent(3, 1);
  std::vector<float> got(4, 0);
  const auto tell = [](const DisagreementError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("12 bytes"));
  };
  try {
    run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
      if (world.rank() == 0) {
        world.isend(sent, 1).wait();
        return;  // its next call hears of it, or not yet
      }
      try {
        world.irecv(got, 0).wait();
        ADD_FAILURE() << "no error";
      } catch (const DisagreementError& error) {
        tell(error);
      }
    });
  } catch (const DisagreementError& error) {
    tell(error);
  }
}

TEST(MockMpiFaults, AMessageThatIsTooLongEndsItsReceive) {
  MockMpi mpi(2);
  std::vector<float> sent(5, 1);
  std::vector<float> got(4, 0);
  try {
    run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
      if (world.rank() == 0)
        world.isend(sent, 1).wait();
      else
        world.recv(got, 0);
    });
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("MPI_ERR_OTHER"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("keep them")));
  }
  EXPECT_EQ(mpi.rank(1).misuse(), "");
}

TEST(MockMpiFaults, AReceiveThatMpiCannotCancelKeepsItsTensor) {
  for (const bool cancels : {true, false}) {
    MockMpi mpi(2);
    mpi.rank(1).set_cancels(cancels);
    std::vector<float> got(4, 0);
    run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
      if (world.rank() == 0) return until_broken(world);
      try {
        world.recv(got, 0, {.timeout = 10ms});
        ADD_FAILURE() << "no error";
      } catch (const TimeoutError& error) {
        const bool keeps = std::string_view(error.what()).find("keep them") != std::string::npos;
        EXPECT_NE(keeps, cancels) << error.what();
        EXPECT_EQ(error.status().tensors_in_use(), keeps);
      }
    });
  }
}

TEST(MockMpiFaults, EveryCallWithTensorsInMpiSaysSo) {
  MockMpi mpi(2);
  std::vector<float> first(4, 1);
  std::vector<float> second(4, 1);
  run_mock_mpi(mpi, impatient(), [&](ProcessGroup& world) {
    if (world.rank() == 0) return until_broken(world);
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
  Config config = impatient();
  config.timeout = kForever;
  std::latch first_has_called(1);
  run_mock_mpi(mpi, config, [&](ProcessGroup& world) {
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
  MockMpi mpi(4);
  Config config = impatient();
  config.agree = Config::Agree::off;
  std::vector<Program> programs(4);
  run_mock_mpi(mpi, config, [&](ProcessGroup& world) {
    programs[static_cast<std::size_t>(world.rank())].run(world);
    std::vector<int> values(100, world.rank());
    world.all_reduce(values).wait();
    EXPECT_EQ(values, std::vector<int>(100, 6));
  });
}

}  // namespace
}  // namespace tutti::test
