#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/launch.hpp>

#include "backend/native/context.hpp"
#include "support/logged_lines.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"
#include "unit/group/error_text.hpp"

// Promises of docs/design/threads.md about a rank that leaves its calls: by an exception, or with
// a Work that was not waited for.
namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(Promises, DroppingAWorkWaitsForIt) {
  run_threads(2, [](ProcessGroup& world) {
    for (int i = 0; i < 10; ++i) {
      std::vector<int> data(50'000, 1);
      { const Work work = world.all_reduce(data); }
      EXPECT_EQ(data, std::vector<int>(50'000, 2));
    }
  });
  // A destructor that waits for a second says what for; once.
  run_threads(1, [](ProcessGroup& world) {
    test::LoggedLines log;
    std::vector<int> never(1);
    { const Work work = world.irecv(never, any_source, {.tag = 99, .timeout = 1200ms}); }
    const std::vector<std::string> lines = log.lines();
    EXPECT_EQ(lines.size(), 2u);  // the second one tells the timeout
    if (lines.empty()) return;
    EXPECT_EQ(
        lines.front(),
        "the destructor of a Work has waited for 1 s and goes on, at most until the timeout: "
        "group 'world' of 1 rank, recv(from anybody, tag 99, int32 x 1). Wait for a Work where "
        "it should end; Work::cancel ends a recv that no message has matched");
  });
}

TEST(Promises, WhoLeavesByAnExceptionIsNamed) {
  run_threads(2, [](ProcessGroup& world) {
    std::vector<int> data(4, 1);
    if (world.rank() == 0) {
      const auto skip = [&] {
        const Work work = world.all_reduce(data);
        throw std::runtime_error("something else");
      };
      EXPECT_THROW(skip(), std::runtime_error);
    } else {
      EXPECT_THROW(world.recv(data, 0), BackendError) << "one that waits, too";
    }
    const std::string text = "rank 0 on " + GroupAccess::backend(world).location(0) +
                             " left its calls by an exception. Look at that rank's output for "
                             "the cause; the group is broken";
    EXPECT_EQ(test::text_of<BackendError>([&] { world.barrier().wait(); }), text);
    const Outcome why = world.health();
    EXPECT_EQ(why.code(), Errc::aborted);
    EXPECT_EQ(why.culprit(), 0);
    EXPECT_EQ(std::string(why.message()), text);
  });
}

TEST(Promises, AnExceptionThatPassesAnOperationThatHasEndedBreaksTheGroup) {
  run_threads(2, [](ProcessGroup& world) {
    const auto skip = [&] {
      const Work work = world.barrier();
      test::wait_for([&] { return work.done(); });
      throw std::runtime_error("disk full");
    };
    if (world.rank() == 1) {
      EXPECT_THROW(skip(), std::runtime_error);
    } else {
      const Work work = world.barrier();
      test::wait_until_broken(world);
      (void)work.error();
    }
    EXPECT_EQ(world.health().culprit(), 1);
  });
}

TEST(Promises, AGuardBreaksTheGroupIfAnExceptionPassesIt) {
  std::latch unharmed(2);
  run_threads(2, [&](ProcessGroup& world) {
    const auto guarded = [&](bool fails) {
      const auto guard = world.guard();
      if (fails) throw std::runtime_error("disk full");
      world.barrier().wait();
    };
    guarded(false);
    try {
      throw std::runtime_error("another one, outside");
    } catch (const std::runtime_error&) {
      guarded(false);
    }
    unharmed.arrive_and_wait();
    if (world.rank() == 1) {
      EXPECT_THROW(guarded(true), std::runtime_error);
    } else {
      EXPECT_THROW(guarded(false), BackendError);
    }
    EXPECT_EQ(world.health().culprit(), 1);
  });
  EXPECT_THROW((void)ProcessGroup().guard(), InvalidArgument);
}

TEST(RunThreads, ThrowsWhatARankEndedWithAndNotWhatFollowedFromIt) {
  // An exception aborts groups on its way out of the body; the other rank may end over that first.
  struct AfterTheOther {
    ~AfterTheOther() {
      test::wait_for([] { return native::Context::alive() == 1; });
    }
  };
  const auto body = [](ProcessGroup& world) {
    std::vector<int> data(4);
    world.barrier().wait();  // both have begun
    if (world.rank() == 0) {
      const AfterTheOther last;
      const Work work = world.irecv(data, 1);
      throw std::out_of_range("the cause");
    }
    world.barrier().wait();
  };
  EXPECT_THROW(run_threads(2, body), std::out_of_range);
}

TEST(RunThreads, TakesTheLongestTimeThereIsForNoEnd) {
  Config config;
  config.timeout = std::chrono::nanoseconds::max();
  std::atomic<int> sum{0};
  run_threads(
      2,
      [&](ProcessGroup& world) {
        std::vector<int> one{1};
        world.all_reduce(one).wait();
        sum += one[0];
      },
      config);
  EXPECT_EQ(sum, 4);
}

TEST(RunThreads, TellsTheOthersOfAnExceptionOfAnyType) {
  const auto body = [](ProcessGroup& world) {
    if (world.rank() == 0) throw 42;
    EXPECT_EQ(test::told<Error>([&] { world.barrier().wait(); }).code, Errc::aborted);
  };
  EXPECT_THROW(run_threads(2, body), int);
}

}  // namespace
}  // namespace tutti
