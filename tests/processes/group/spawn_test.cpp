#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <new>
#include <thread>

#include <tutti/tutti.hpp>

#include "support/programs.hpp"
#include "support/refused_calls.hpp"
#include "support/variable.hpp"
#include "unit/child.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using tutti::test::end_of;
using tutti::test::start_child;

namespace {

using Clock = std::chrono::steady_clock;

/// Numbers that the forks share with us.
class Shared {
 public:
  Shared() {
    void* memory =
        mmap(nullptr, sizeof(Numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    numbers_ = new (memory) Numbers{};
  }
  ~Shared() { munmap(numbers_, sizeof(Numbers)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  std::atomic<int>& operator[](std::size_t index) { return (*numbers_)[index]; }

 private:
  using Numbers = std::array<std::atomic<int>, 64>;
  Numbers* numbers_ = nullptr;
};

bool no_children_left() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 && errno == ECHILD;
}

/// The SpawnError of a spawn that must fail.
tutti::SpawnError failure_of(const std::function<void(int)>& fn, int nprocs,
                             const tutti::SpawnOptions& options = {}) {
  try {
    tutti::spawn(fn, nprocs, options);
  } catch (const tutti::SpawnError& error) {
    EXPECT_TRUE(no_children_left());
    return error;
  }
  throw std::logic_error("spawn did not fail");
}

TEST(Spawn, ProcessesAreAWorld) {
  Shared sums;
  for (const int size : {1, 2, 5}) {
    tutti::spawn(
        [&](int rank) {
          tutti::ProcessGroup world = tutti::init_process_group();
          std::array<float, 3> values{1, 2, static_cast<float>(world.rank())};
          world.all_reduce(values).wait();
          if (world.rank() != rank) throw std::logic_error("wrong rank");
          sums[static_cast<std::size_t>(rank)] = static_cast<int>(values[1] + 100 * values[2]);
        },
        size);
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(sums[static_cast<std::size_t>(rank)], 2 * size + 100 * (size * (size - 1) / 2));
  }
  EXPECT_TRUE(no_children_left());
  EXPECT_EQ(std::getenv("RANK"), nullptr) << "only the processes are told";
}

TEST(Spawn, TheirSecretIsTheirOwn) {
  Shared found;
  tutti::spawn(
      [&](int rank) {
        const int fd = std::atoi(std::getenv("TUTTI_SECRET_FD"));
        std::array<char, 64> secret{};
        found[static_cast<std::size_t>(rank)] =
            static_cast<int>(pread(fd, secret.data(), secret.size(), 0));
        // Whoever does not know it is refused.
        unsetenv("TUTTI_SECRET_FD");
        try {
          const tutti::ProcessGroup world = tutti::init_process_group({.timeout = 5s});
        } catch (const tutti::Error&) {
          found[static_cast<std::size_t>(rank) + 8] = 1;
        }
      },
      2);
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_EQ(found[rank], 32);
    EXPECT_EQ(found[rank + 8], 1);
  }
}

/// Ranks meet, and a failure is noticed, in a fork that `prepare` has changed.
void expect_spawns_after(const std::function<bool()>& prepare) {
  const pid_t child = start_child([&] {
    if (!prepare()) _exit(2);
    const auto meets = [](int) {
      std::array<int, 1> one{1};
      tutti::init_process_group().all_reduce(one).wait();
      if (one[0] != 2) throw std::logic_error("wrong sum");
    };
    tutti::spawn(meets, 2);
    const auto error = failure_of([](int rank) { rank == 1 ? _exit(7) : void(pause()); }, 2);
    if (error.end().exit_code != 7) _exit(4);
  });
  EXPECT_EQ(end_of(child), 0);
}

TEST(Spawn, WorksWithoutStandardStreams) {
  expect_spawns_after([] { return close(0) == 0 && close(1) == 0 && close(2) == 0; });
}

TEST(Spawn, WorksWithoutPidfds) {
  for (const int error : {EPERM, ENOSYS}) {
    expect_spawns_after([&] {
      return tutti::test::refuse_calls({{SYS_pidfd_open}, {SYS_pidfd_send_signal}}, error);
    });
  }
}

TEST(Spawn, AnExceptionsTextComesBack) {
  const auto error = failure_of(
      [](int rank) {
        if (rank == 1) throw std::runtime_error("the cat sat on the keyboard");
        pause();
      },
      3);
  EXPECT_EQ(error.culprit(), 1);
  EXPECT_EQ(error.end().exception, "the cat sat on the keyboard");
  EXPECT_EQ(error.end().exit_code, 1);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 (process "),
                                  HasSubstr("exception: the cat sat on the keyboard"),
                                  HasSubstr("the other ranks were ended")));
}

TEST(Spawn, AnErrorOfOursKeepsItsCode) {
  const auto error = failure_of(
      [](int) {
        tutti::ProcessGroup world = tutti::init_process_group();
        std::array<float, 1> value{};
        world.broadcast(value, {.root = 9}).wait();
      },
      1);
  EXPECT_EQ(error.code(), tutti::Errc::invalid_argument);
  EXPECT_THAT(error.what(), Not(HasSubstr("other ranks")));
}

TEST(Spawn, TheCauseIsToldAndNotItsConsequences) {
  // The others' groups break, and they may be faster with their errors.
  const auto error = failure_of(
      [](int rank) {
        tutti::ProcessGroup world = tutti::init_process_group();
        world.barrier().wait();
        if (rank == 2) {
          world = tutti::ProcessGroup(world);
          throw std::runtime_error("the cause");
        }
        world.barrier().wait();
      },
      4);
  EXPECT_EQ(error.culprit(), 2) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("the cause"));
}

TEST(Spawn, ASignalIsNamed) {
  const auto error = failure_of(
      [](int rank) {
        tutti::ProcessGroup world = tutti::init_process_group();
        if (rank == 0) raise(SIGKILL);
        world.barrier().wait();
      },
      2);
  EXPECT_EQ(error.culprit(), 0) << error.what();
  EXPECT_EQ(error.end().signal, SIGKILL);
  EXPECT_EQ(error.code(), tutti::Errc::peer_lost);
  EXPECT_THAT(error.what(), HasSubstr("was ended by SIGKILL"));
}

TEST(Spawn, AnExitCodeIsTold) {
  const auto error = failure_of([](int) { _exit(7); }, 1);
  EXPECT_EQ(error.end().exit_code, 7);
  EXPECT_FALSE(error.end().exception);
  EXPECT_THAT(error.what(), HasSubstr("ended with exit code 7"));
}

TEST(Spawn, AnExitBeforeTheFunctionHasReturnedIsAFailure) {
  const std::array<void (*)(int), 2> ends{&_exit, &std::quick_exit};
  for (const auto end : ends) {
    const auto error = failure_of(
        [&](int rank) {
          if (rank == 1) end(0);
        },
        2);
    EXPECT_EQ(error.culprit(), 1);
    EXPECT_EQ(error.end().exit_code, 0);
    EXPECT_THAT(error.what(), HasSubstr("ended with exit code 0 before its function had returned"));
  }
}

// They end by themselves, and no other kind of end is a success.
TEST(Spawn, EveryOtherEndIsTold) {
  const auto text_of = [](void (*end)()) {
    return std::string(failure_of([&](int) { end(); }, 1).what());
  };
  EXPECT_THAT(text_of([] { raise(SIGINT); }), HasSubstr("was ended by SIGINT"));
  EXPECT_THAT(text_of([] { raise(SIGTERM); }), HasSubstr("was ended by SIGTERM"));
  EXPECT_THAT(text_of([] { std::abort(); }), HasSubstr("was ended by SIGABRT"));
  EXPECT_THAT(text_of([] { std::terminate(); }), HasSubstr("was ended by SIGABRT"));
  EXPECT_THAT(text_of([] { throw 7; }),
              HasSubstr("exception: something that is no std::exception"));
}

TEST(Spawn, AProgramThatAProcessBecomesEndsInItsPlace) {
  const auto become = [](int, const char* program) {
    execl("/bin/sh", "sh", "-c", program, nullptr);
    throw std::runtime_error("no shell");
  };
  tutti::spawn([&](int rank) { become(rank, "exit 0"); }, 2);
  const auto error = failure_of([&](int rank) { become(rank, "exit 3"); }, 1);
  EXPECT_THAT(error.what(), HasSubstr("ended with exit code 3"));
}

TEST(Spawn, WhoIgnoresSigtermIsKilled) {
  Shared ready;
  const auto start = Clock::now();
  const auto error = failure_of(
      [&](int rank) {
        if (rank == 0) {
          std::signal(SIGTERM, SIG_IGN);
          ready[0] = 1;
          while (true) pause();
        }
        while (ready[0] == 0) usleep(1000);
        throw std::runtime_error("enough");
      },
      2, {.grace = 100ms});
  EXPECT_EQ(error.culprit(), 1);
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(Spawn, TheTimeoutNamesWhoStillRuns) {
  const auto one_pauses = [](int rank) {
    while (rank == 1) pause();
  };
  EXPECT_THAT([&] { tutti::spawn(one_pauses, 3, {.timeout = 300ms}); },
              ThrowsMessage<tutti::TimeoutError>(HasSubstr("rank 1 still ran")));
  EXPECT_TRUE(no_children_left());
}

TEST(Spawn, AVeryLongTextIsCut) {
  const auto error =
      failure_of([](int) { throw std::runtime_error(std::string(1'000'000, 'x')); }, 1);
  EXPECT_GT(error.end().exception->size(), 1000U);
  EXPECT_LT(error.end().exception->size(), 100'000U);
}

TEST(Spawn, NonsenseIsRefused) {
  EXPECT_THROW(tutti::spawn({}, 2), tutti::InvalidArgument);
  EXPECT_THROW(tutti::spawn([](int) {}, 0), tutti::InvalidArgument);
  EXPECT_THROW(tutti::spawn([](int) {}, -3), tutti::InvalidArgument);
  EXPECT_THROW(tutti::spawn([](int) {}, 1'000'000), tutti::InvalidArgument);
}

TEST(Spawn, IsRefusedBesideAWorld) {
  tutti::run_threads(1, [](tutti::ProcessGroup&) {
    EXPECT_THAT([] { tutti::spawn([](int) {}, 2); },
                ThrowsMessage<tutti::InvalidArgument>(
                    AllOf(HasSubstr("before init_process_group"), HasSubstr("tuttirun"))));
  });
  // Afterwards it works again.
  tutti::spawn([](int) { tutti::init_process_group().barrier().wait(); }, 2);
}

TEST(Spawn, TheProcessesDieWithUs) {
  Shared pids;
  const auto tell_pid = [&](int rank) {
    pids[static_cast<std::size_t>(rank)] = getpid();
    while (true) pause();
  };
  const pid_t middle = start_child([&] { tutti::spawn(tell_pid, 2); });
  const auto deadline = Clock::now() + 20s;
  while ((pids[0] == 0 || pids[1] == 0) && Clock::now() < deadline) usleep(1000);
  ASSERT_TRUE(pids[0] != 0 && pids[1] != 0);
  ASSERT_EQ(kill(middle, SIGKILL), 0);
  EXPECT_EQ(end_of(middle), -SIGKILL);
  for (const std::size_t rank : {0U, 1U}) {
    // Gone, or a zombie that whoever adopts orphans has not collected yet.
    const std::string path = "/proc/" + std::to_string(pids[rank]) + "/cmdline";
    while (!tutti::test::text_of(path).empty()) ASSERT_LT(Clock::now(), deadline) << rank;
  }
}

// The end of the last handle destroys a group: on each rank when it likes, in any order.
TEST(Spawn, RanksMayMakeAndDropMoreGroupsThanThereArePlaces) {
  Shared sums;
  tutti::spawn(
      [&](int rank) {
        tutti::ProcessGroup world = tutti::init_process_group();
        const std::vector<int> every{0, 1, 2};
        tutti::ProcessGroup kept = world.new_group(every);
        std::array<int, 1> sum{};
        std::vector<tutti::ProcessGroup> recent;  // each rank drops another one of them
        for (int turn = 0; turn < 4200; ++turn) {
          recent.push_back(world.new_group(every));
          if (recent.size() > 5) recent.erase(recent.begin() + (turn * (rank + 1)) % 5);
          if (turn % 100 != 0) continue;
          sum[0] = 1;
          kept.all_reduce(sum).wait();
          recent.back().all_reduce(sum).wait();
        }
        sums[static_cast<std::size_t>(rank)] = sum[0];
      },
      3, {.timeout = 120s});
  for (const std::size_t rank : {0U, 1U, 2U}) EXPECT_EQ(sums[rank], 9);
}

// With many ranks for the CPUs most of them look rarely. Those that look often wake them, though
// they are no members of the group that breaks.
TEST(Spawn, TheDeathOfOneOfManyIsToldInTime) {
  constexpr int kMany = 48;
  constexpr int kVictim = kMany - 1;
  constexpr int kFirst = kMany - 8;  // of its group
  constexpr auto kWaits = 1250ms;    // soon after most of them have looked: they sleep for 600 ms
  const tutti::test::Variable one_cpu("TUTTI_CPUS", "1");
  Shared told;  // ms of a clock: the death by the victim, the error by each other one
  const auto now = [] {
    return static_cast<int>(Clock::now().time_since_epoch() / 1ms % 1'000'000'000);
  };
  tutti::spawn(
      [&](int rank) {
        tutti::ProcessGroup world = tutti::init_process_group();
        tutti::ProcessGroup group = world.split(rank < kFirst ? 0 : 1);
        world.barrier().wait();
        world = {};  // else all would hear of it by the world
        if (rank == kVictim) {
          std::this_thread::sleep_for(kWaits);
          told[kVictim] = now();
          execl("/bin/sleep", "sleep", "1", nullptr);  // to its group it has died
          throw std::runtime_error("no sleep");
        }
        if (rank == kFirst - 1) std::this_thread::sleep_for(2s);  // the others wait meanwhile
        try {
          group.barrier().wait();
        } catch (const tutti::Error& error) {
          told[static_cast<std::size_t>(rank)] =
              error.code() == tutti::Errc::peer_lost ? now() : -1;
        }
      },
      kMany);
  int in_time = 0;
  for (int rank = 0; rank < kVictim; ++rank) {
    const int at = told[static_cast<std::size_t>(rank)];
    EXPECT_EQ(at > 0, rank >= kFirst) << "rank " << rank;
    in_time += rank >= kFirst && at - told[kVictim] <= 250 ? 1 : 0;
  }
  EXPECT_GE(in_time, 6) << "of 7, within 250 ms";
}

// As rank 0 of torch.distributed does.
TEST(Spawn, LeavesMasterPortToWhatTheProgramServes) {
  Shared met;
  tutti::spawn(
      [&](int rank) {
        auto world = tutti::init_process_group();
        const auto port = static_cast<std::uint16_t>(std::stoi(std::getenv("MASTER_PORT")));
        const auto store =
            tutti::make_tcp_store({.port = port, .serve = rank == 0, .users = 2, .timeout = 20s});
        met[static_cast<std::size_t>(rank)] = static_cast<int>(store->add("ranks", 1));
        store->wait({"ranks"});
        world.barrier().wait();
      },
      2, {.timeout = 60s});
  EXPECT_EQ(met[0] + met[1], 3);
}

// The kernel gives users who have many pipes pipes of one page only (pipe-user-pages-soft).
TEST(Spawn, BringsLongWordsBackThoughPipesAreSmall) {
  const pid_t child = start_child([] {
    const rlimit many{4096, 4096};
    if (setrlimit(RLIMIT_NOFILE, &many) != 0) _exit(77);
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
      _exit(77);  // root has no limit
    int ends[2] = {-1, -1};
    int holds = 65536;
    while (holds > 8192) {  // two pages; one with older kernels
      if (pipe2(ends, O_CLOEXEC) != 0) _exit(77);
      holds = fcntl(ends[1], F_GETPIPE_SZ);
    }
    const std::string words(12'000, 'w');
    const auto tell = [&](int) { throw std::runtime_error(words); };
    if (failure_of(tell, 1, {.timeout = 20s}).end().exception != words) _exit(2);
  });
  const int status = end_of(child);
  if (status == 77) GTEST_SKIP() << "this machine gives no small pipes here";
  EXPECT_EQ(status, 0);
}

}  // namespace
