#include <gtest/gtest.h>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <tutti/launch.hpp>

#include "backend/native/context.hpp"
#include "support/called_back.hpp"
#include "support/sanitized.hpp"
#include "support/sleeper.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"
#include "unit/child.hpp"

// Freezes what docs/design/threads.md promises (the table "Promises"), as far as one process can
// show it. Whoever changes a line here changes the page, and what users have built on it.
namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 20s;

/// Threads of this process that have this name.
int threads_named(const std::string& wanted) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == wanted) ++count;
  }
  return count;
}

/// The same, once it is so many: a thread names itself, and is listed a moment longer than it runs.
int settled(const std::string& wanted, int count) {
  test::wait_for([&] { return threads_named(wanted) == count; });
  return threads_named(wanted);
}

std::string name_of_this_thread() {
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return name;
}

Config over(Config::TransportChoice transport) {
  Config config;
  config.transport = transport;
  return config;
}

template <class Body>
void run_with(const Config& config, int ranks, const Body& body) {
  run_threads(ranks, body, config);
}

/// Begins a thread, and returns once that sleeps in `body`.
template <class Body>
std::thread start_asleep(Body body) {
  std::promise<pid_t> number;
  std::future<pid_t> told = number.get_future();
  std::thread thread([number = std::move(number), body]() mutable {
    number.set_value(::gettid());
    body();
  });
  const std::string path = "/proc/self/task/" + std::to_string(told.get()) + "/stat";
  std::this_thread::sleep_for(200us);
  test::wait_for([&] {
    std::ifstream file(path);
    std::string line;
    return std::getline(file, line) && line[line.rfind(')') + 2] == 'S';
  });
  return thread;
}

/// How many rounds were late: of the first of a few tries in which fewer than `bound` were, as a
/// machine may have other things to do; else of the last.
template <class Try>
int late_rounds(int bound, const Try& late_of) {
  int late = bound;
  for (int tries = 0; tries < 4 && late >= bound; ++tries) late = late_of();
  return late;
}

template <class Body>
void on_done(Work& work, Body& body) {
  work.on_done({[](void* context, const Outcome& status) noexcept {
                  (*static_cast<Body*>(context))(status);
                },
                &body});
}

TEST(Promises, NoThreadUntilItIsNeededThenOneThatEndsWithTheLastGroup) {
  ASSERT_EQ(settled("tutti-progress", 0), 0);
  run_with(over(Config::TransportChoice::shm), 1, [](ProcessGroup& world) {
    std::vector<int> few(4, 1);
    for (int i = 0; i < 20; ++i) world.all_reduce(few).wait();
    EXPECT_EQ(threads_named("tutti-progress"), 0) << "each ended in its call";
  });
  run_with(over(Config::TransportChoice::shm), 3, [](ProcessGroup& world) {
    std::vector<int> few(4, 1);
    Work work = world.irecv(few, test::before(world));
    EXPECT_EQ(settled("tutti-progress", 1), 1) << "one for all ranks of a process";
    world.barrier().wait();
    world.send(few, test::after(world));
    work.wait();
  });
  EXPECT_EQ(settled("tutti-progress", 0), 0);
}

/// How often this thread of this process has slept; 0: there is none of this name.
long sleeps_of(const std::string& wanted) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(entry.path() / "comm");
    std::string name;
    if (!std::getline(comm, name) || name != wanted) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string word; status >> word;) {
      long count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) return count;
    }
  }
  return 0;
}

TEST(Promises, WhatNobodyWaitsForGoesOn) {
  std::binary_semaphore ended{0};
  run_with(over(Config::TransportChoice::shm), 2, [&](ProcessGroup& world) {
    std::vector<int> data(400'000, 1);  // of many steps, in which each rank waits for the other
    if (world.rank() == 0) {
      Work work = world.all_reduce(data);
      EXPECT_TRUE(ended.try_acquire_for(kPatience)) << "nobody has moved it on";
      work.wait();
    } else {
      world.all_reduce(data).wait();
      ended.release();
    }
    EXPECT_EQ(data, std::vector<int>(data.size(), 2));
  });
}

TEST(Promises, TheTimeoutOfWhatNobodyWaitsForRuns) {
  const test::Sleeper beside;
  for (int round = 0; round < 8; ++round) {
    const bool message = round % 2 != 0;
    std::binary_semaphore ended{0};
    run_with(over(Config::TransportChoice::shm), 2, [&](ProcessGroup& world) {
      std::vector<int> data(4, 1);
      std::vector<int> told(1);
      if (world.rank() == 1) {
        std::this_thread::sleep_for(5ms);
        world.send(told, 0, {.tag = 1});
        const long long start = test::Sleeper::now_ns();
        test::wait_until_broken(world);
        const long long end = test::Sleeper::now_ns();
        const double took = static_cast<double>(end - start) / 1e6;
        EXPECT_LE(took, beside.bound_ms(150, start, end)) << round;
        return ended.release();
      }
      const Work posted = world.irecv(data, 1);
      world.recv(told, 1, {.tag = 1});  // a wait that sleeps, and leaves `posted` behind
      Work work = message ? world.irecv(told, 1, {.tag = 2, .timeout = 50ms})
                          : world.all_reduce(told, {.timeout = 50ms});
      EXPECT_TRUE(ended.try_acquire_for(kPatience)) << "nobody has looked at its time";
      EXPECT_THROW(work.wait(), TimeoutError);
    });
  }
}

TEST(Promises, ACallbackComesWhileTheCallerSleepsInAnotherWait) {
  const test::Sleeper beside;
  run_with(over(Config::TransportChoice::shm), 2, [&](ProcessGroup& world) {
    std::vector<int> one(1);
    std::vector<int> last(1);
    for (int round = 0; round < 4; ++round) {
      if (world.rank() == 0) {
        std::binary_semaphore called{0};
        Work work = world.irecv(one, 1);
        long long came = 0;
        work.on_done([&](const Outcome&) {
          came = test::Sleeper::now_ns();
          called.release();
        });
        world.recv(last, 1, {.tag = 1});
        const long long end = test::Sleeper::now_ns();
        EXPECT_TRUE(called.try_acquire_for(kPatience));
        EXPECT_LT(came, end) << "it came only when the other wait had ended";
        work.wait();
      } else {
        std::this_thread::sleep_for(5ms);
        world.send(one, 0);
        long long begin = 0;  // of a while in which the machine lets threads run
        do {
          begin = test::Sleeper::now_ns();
          std::this_thread::sleep_for(250ms);
        } while (beside.bound_ms(20, begin, test::Sleeper::now_ns()) > 200);
        world.send(last, 0, {.tag = 1});
      }
    }
  });
}

TEST(Promises, SmallOperationsWakeNobodyAndAQuietThreadSleeps) {
  constexpr int kSteps = 1'000;
  run_with(over(Config::TransportChoice::shm), 2, [&](ProcessGroup& world) {
    std::vector<double> from(64);
    std::vector<double> to(64);
    std::vector<double> last(64);
    const Work always = world.irecv(last, test::before(world), {.tag = 1});
    world.barrier().wait();
    const long before = sleeps_of("tutti-progress");
    const long long start = test::Sleeper::now_ns();
    for (int i = 0; i < kSteps; ++i) {
      Work sent = world.isend(from, test::after(world));
      world.recv(to, test::before(world));
      sent.wait();
    }
    const long looks = sleeps_of("tutti-progress") - before;
    // It looks every 20 ms; it may help a rank that the scheduler keeps waiting.
    const long long every_20_ms = (test::Sleeper::now_ns() - start) / 20'000'000;
    EXPECT_LE(looks, every_20_ms + kSteps / 4) << "of " << kSteps << " steps";
    world.send(from, test::after(world), {.tag = 1});
    world.barrier().wait();
  });
  run_with(over(Config::TransportChoice::shm), 1, [](ProcessGroup& world) {
    std::vector<int> one(1);
    Work work = world.irecv(one, 0);
    world.send(one, 0);
    work.wait();
    const auto sleeps_again = [&] {
      const long before = sleeps_of("tutti-progress");
      std::this_thread::sleep_for(100ms);
      return sleeps_of("tutti-progress") == before;
    };
    EXPECT_EQ(settled("tutti-progress", 1), 1);
    test::wait_for(sleeps_again);
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(sleeps_again()) << "it wakes though nothing is under way";
  });
}

TEST(Promises, AWaitThatHasLastedASecondSleepsNearlyAllTheTime) {
  run_with(over(Config::TransportChoice::shm), 2, [](ProcessGroup& world) {
    std::vector<int> one(1);
    if (world.rank() == 0) {
      ::pthread_setname_np(::pthread_self(), "waits-long");
      world.recv(one, 1);
      return;
    }
    std::this_thread::sleep_for(1'200ms);
    const auto sleeps = [] { return sleeps_of("waits-long") + sleeps_of("tutti-progress"); };
    const long before = sleeps();
    EXPECT_GT(before, 0);
    const long long start = test::Sleeper::now_ns();
    std::this_thread::sleep_for(500ms);
    const long long every_100_ms = (test::Sleeper::now_ns() - start) / 100'000'000;
    EXPECT_LE(sleeps() - before, every_100_ms + 4);
    world.send(one, 0);
  });
}

TEST(Promises, AThreadFromTheBeginningWhereTcpPeersArePossible) {
  run_with(over(Config::TransportChoice::tcp), 2, [](ProcessGroup& world) {
    EXPECT_EQ(settled("tutti-progress", 1), 1);
    world.barrier().wait();
  });
  EXPECT_EQ(settled("tutti-progress", 0), 0);
}

TEST(Promises, CallbacksComeOnceOnTheProgressThreadAndMayStartAndWaitForOthers) {
  run_threads(2, [](ProcessGroup& world) {
    std::vector<int> first(8, 1);
    std::vector<int> second(8, 1);
    std::atomic<int> times{0};
    std::string where;
    std::binary_semaphore called{0};
    auto body = [&](const Outcome& status) {
      EXPECT_TRUE(status.ok()) << status.message();
      where = name_of_this_thread();
      // Each rank waits in its callback for the other's.
      for (int i = 0; i < 3; ++i) world.all_reduce(second).wait();
      ++times;
      called.release();
    };
    Work work = world.all_reduce(first);
    on_done(work, body);
    work.wait();
    ASSERT_TRUE(called.try_acquire_for(kPatience));
    EXPECT_EQ(where, "tutti-progress");
    EXPECT_EQ(second, std::vector<int>(8, 8));
    world.barrier().wait();
    EXPECT_EQ(times, 1);
  });
  EXPECT_EQ(settled("tutti-progress", 0), 0);
}

TEST(Promises, AnotherThreadServesTheSocketsWhileACallbackWaits) {
  run_with(over(Config::TransportChoice::tcp), 2, [](ProcessGroup& world) {
    std::vector<int> first(8, 1);
    std::vector<int> second(8, 1);
    if (world.rank() == 1) {
      world.all_reduce(first).wait();
      // Waits in its callback until this rank calls, too. It has parked by then.
      EXPECT_EQ(settled("tutti-progress", 2), 2) << "nobody but the callback serves the sockets";
      world.all_reduce(second).wait();
    } else {
      std::binary_semaphore called{0};
      auto body = [&](const Outcome&) {
        world.all_reduce(second).wait();
        called.release();
      };
      Work work = world.all_reduce(first);
      on_done(work, body);
      ASSERT_TRUE(called.try_acquire_for(kPatience));
      EXPECT_EQ(second, std::vector<int>(8, 2));
    }
    world.barrier().wait();
  });
  EXPECT_EQ(settled("tutti-progress", 0), 0);
}

TEST(Promises, ACallNeverBlocksHoweverManyAreUnderWay) {
  run_threads(2, [](ProcessGroup& world) {
    std::vector<std::vector<int>> data(30, std::vector<int>(100, world.rank() + 1));
    std::vector<Work> works;
    std::vector<int> told{1};
    std::atomic<int> called{0};
    if (world.rank() == 1) world.recv(told, 0);
    for (auto& one : data) works.push_back(world.all_reduce(one));
    if (world.rank() == 0) {
      EXPECT_FALSE(works.front().done()) << "nobody else has come yet";
      for (Work& work : works) work.on_done(test::counts_in(called));
      world.send(told, 1);
    }
    for (Work& work : works) work.wait();
    for (const auto& one : data) EXPECT_EQ(one, std::vector<int>(100, 3));
    if (world.rank() == 0) test::wait_for([&] { return called == 30; });
  });
}

TEST(Promises, GivingUpWaitingCancelsNothing) {
  run_threads(2, [](ProcessGroup& world) {
    std::vector<int> data(100, 1);
    std::vector<int> told(1);
    if (world.rank() == 0) {
      Work work = world.all_reduce(data);
      EXPECT_FALSE(work.wait_for(20ms));
      EXPECT_FALSE(work.wait_for(0ms));
      world.send(told, 1);
      work.wait();
    } else {
      world.recv(told, 0);
      world.all_reduce(data).wait();
    }
    EXPECT_EQ(data, std::vector<int>(100, 2));
  });
}

TEST(Promises, OnDoneTakesAnythingThatCanBeCalled) {
  run_threads(2, [](ProcessGroup& world) {
    std::binary_semaphore called{0};
    const auto kept = std::make_shared<int>(7);
    Work work = world.barrier();
    work.on_done([&called, kept](const Outcome& outcome) {
      if (outcome.ok() && *kept == 7) called.release();
    });
    EXPECT_TRUE(called.try_acquire_for(kPatience));
    work.wait();
    test::wait_for([&] { return kept.use_count() == 1; });
    EXPECT_THROW(work.on_done([](const Outcome&) {}), InvalidArgument);
    wait_all(world.batch_isend_irecv({}));
  });
}

TEST(Promises, AFailedOperationTouchesItsBuffersNoMore) {
  run_threads(3, [](ProcessGroup& world) {
    std::vector<int> data(200'000, 7);
    if (world.rank() == 2) {
      test::wait_until_broken(world);
    } else {
      EXPECT_THROW(world.all_reduce(data, {.timeout = 100ms}).wait(), TimeoutError);
    }
    const std::vector<int> before = data;
    EXPECT_THROW(world.all_reduce(data).wait(), TimeoutError) << "the first cause, at once";
    std::this_thread::sleep_for(5ms);
    EXPECT_EQ(data, before);
  });
}

TEST(Promises, AChildCannotUseItsParentsGroupsAndTheParentGoesOn) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers do not like forks of programs with threads";
  run_threads(1, [](ProcessGroup& world) {
    const pid_t child = test::start_child([&] {
      const auto told = test::told<Error>([&] { world.barrier().wait(); });
      ::_exit(told.code == Errc::unsupported ? 0 : 2);
    });
    EXPECT_EQ(test::end_of(child), 0);
    world.barrier().wait();
  });
}

TEST(Promises, ACallerThatSleepsIsWokenByTheOneThatBringsWhatItWaitsFor) {
  // Messages between hosts ring nobody's page: whoever drives takes them in, for all callers of the
  // rank. One that drives and then sleeps itself did not say so, and the other slept on, 20 ms.
  if (test::kSanitized) GTEST_SKIP() << "waits of 10 ms are nothing there";
  constexpr int kRounds = 80;
  const test::Sleeper beside;
  Config config = over(Config::TransportChoice::tcp);
  config.cpus = 8;  // so that who waits spins at first, for 750 us
  const auto late_of = [&] {
    int late = 0;
    std::atomic<int> step = 0;
    std::atomic<long long> sent = 0;
    run_with(config, 2, [&](ProcessGroup& world) {
      std::vector<int> one(1);
      std::vector<int> other(1);
      for (int round = 0; round < kRounds; ++round) {
        if (world.rank() == 0) {
          long long got = 0;
          std::thread sleeper = start_asleep([&] {
            world.recv(one, 1, {.tag = 1});
            got = test::Sleeper::now_ns();
          });
          std::atomic<bool> drives{false};
          std::thread driver([&] {
            drives = true;
            world.recv(other, 1, {.tag = 2});
          });
          while (!drives) std::this_thread::yield();
          std::this_thread::sleep_for(200us);  // by now it spins, mostly
          step = 2 * round + 1;
          sleeper.join();
          if (static_cast<double>(got - sent) / 1e6 > beside.bound_ms(10, sent, got)) ++late;
          step = 2 * round + 2;
          driver.join();
          continue;
        }
        while (step < 2 * round + 1) std::this_thread::sleep_for(20us);
        sent = test::Sleeper::now_ns();
        world.send(one, 0, {.tag = 1});
        while (step < 2 * round + 2) std::this_thread::sleep_for(20us);
        world.send(other, 0, {.tag = 2});
      }
    });
    return late;
  };
  // It was a quarter and more.
  EXPECT_LT(late_rounds(kRounds / 8, late_of), kRounds / 8) << "of " << kRounds;
}

TEST(Promises, ASendToOneselfThatSleepsIsWokenByItsRecv) {
  if (test::kSanitized) GTEST_SKIP() << "waits of 10 ms are nothing there";
  constexpr int kRounds = 16;
  const test::Sleeper beside;
  int judged = 0;
  int late = 0;
  run_threads(1, [&](ProcessGroup& world) {
    std::vector<int> from(100'000, 7);  // too many to be sent before the recv is called
    std::vector<int> to(from.size());
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (judged < kRounds && std::chrono::steady_clock::now() < deadline) {
      long long sent = 0;
      std::thread sender = start_asleep([&] {
        world.send(from, 0);
        sent = test::Sleeper::now_ns();
      });
      const long long called = test::Sleeper::now_ns();
      Work recv = world.irecv(to, 0);
      sender.join();
      recv.wait();
      if (beside.worst_ms(called, sent) >= 1) continue;  // a machine that is late itself
      ++judged;
      if (static_cast<double>(sent - called) / 1e6 > 8) ++late;
    }
  });
  if (judged == 0) GTEST_SKIP() << "the machine was late itself in every round";
  EXPECT_LT(4 * late, judged + 4) << late << " of " << judged << " were late";
}

}  // namespace
}  // namespace tutti
