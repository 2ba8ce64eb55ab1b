#include "os/death_pipe.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <span>
#include <utility>

#include "os/socket.hpp"
#include "support/refused_calls.hpp"
#include "unit/child.hpp"

namespace tutti::os {
namespace {

/// What poll says of the descriptor within `ms`.
bool tells(const Fd& fd, int ms) {
  pollfd one{fd.get(), POLLIN, 0};
  return ::poll(&one, 1, ms) == 1 && one.revents != 0;
}

/// A process that hands out its death pipe, forks a child that outlives it, and waits for its end.
class Watched {
 public:
  explicit Watched(bool pidfds) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Fd ours(ends[0]);
    Fd theirs(ends[1]);
    pid_ = test::start_child([&] { live(theirs, pidfds); });
    theirs.reset();
    const auto bytes = std::as_writable_bytes(std::span(&child_, 1));
    auto got = receive_fds(ours.get(), bytes, in_ten_seconds());
    EXPECT_TRUE(got && got->fds.size() == 2 && got->bytes == sizeof(child_));
    if (got && got->fds.size() == 2) line = {std::move(got->fds[0]), std::move(got->fds[1])};
  }
  ~Watched() {
    end();
    if (child_ > 0) ::kill(child_, SIGKILL);
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)test::end_of(std::exchange(pid_, 0));
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  DeathPipe line;

 private:
  static Deadline in_ten_seconds() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(10);
  }
  [[noreturn]] static void live(const Fd& socket, bool pidfds) {
    if (!pidfds && !test::refuse_pidfds()) ::_exit(1);
    auto first = open_death_pipe();  // before the fork: what the child inherits must not count
    const pid_t child = first ? test::start_child(sleep_for_long) : -1;
    auto line = open_death_pipe();
    if (child < 0 || !line) ::_exit(1);
    const std::array fds{line->process.get(), line->pipe.get()};
    (void)send_fds(socket.get(), fds, std::as_bytes(std::span(&child, 1)), in_ten_seconds());
    sleep_for_long();
  }
  [[noreturn]] static void sleep_for_long() {
    ::alarm(60);
    while (true) ::pause();
  }

  pid_t pid_ = 0;
  pid_t child_ = 0;
};

class DeathPipe : public ::testing::TestWithParam<bool> {};

TEST_P(DeathPipe, TellsOfTheEndAndNotBefore) {
  Watched process(GetParam());
  ASSERT_TRUE(process.line.process.valid() && process.line.pipe.valid());
  EXPECT_FALSE(tells(process.line.process, 50));
  EXPECT_FALSE(tells(process.line.pipe, 0));
  process.end();
  EXPECT_TRUE(tells(process.line.process, 10'000)) << "though a child that it forked is alive";
  EXPECT_TRUE(tells(process.line.pipe, 10'000)) << "though a child that it forked is alive";
}

TEST_P(DeathPipe, AForkedChildHasItsOwn) {
  EXPECT_EQ(test::end_of(test::start_child([] {
              if (!GetParam() && !test::refuse_pidfds()) ::_exit(1);
              auto before = open_death_pipe();
              const int end = test::end_of(test::start_child([&] {
                auto own = open_death_pipe();
                if (!own || tells(own->pipe, 20) || tells(own->process, 0)) ::_exit(2);
                if (tells(before->process, 0)) ::_exit(3);
              }));
              if (!before || tells(before->pipe, 0)) ::_exit(4);
              ::_exit(end);
            })),
            0);
}

std::vector<int> ended_in(const DeathSet& set) {
  std::vector<int> ended;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ended.empty() && std::chrono::steady_clock::now() < deadline) set.add_ended(ended);
  const auto again = std::ranges::unique(ended);
  ended.erase(again.begin(), again.end());
  return ended;
}

/// Also where all others have closed the pipes, and for each that has the set.
TEST_P(DeathPipe, OfManyIsSeenInASet) {
  Watched first(GetParam());
  Watched second(GetParam());
  Fd ends;
  Fd kept;
  {
    const std::array<const os::DeathPipe*, 2> pipes{&first.line, &second.line};
    Result<DeathSet> made =
        DeathSet::of(pipes, std::chrono::steady_clock::now() + std::chrono::seconds(10));
    ASSERT_TRUE(made) << made.status().message();
    ends = Fd(::dup(made->ends.get()));
    kept = Fd(::dup(made->kept.get()));
  }
  const DeathSet set{std::move(ends), std::move(kept)};
  first.line = {};
  second.line = {};
  std::vector<int> none;
  set.add_ended(none);
  EXPECT_TRUE(none.empty());
  second.end();
  EXPECT_EQ(ended_in(set), std::vector<int>{1});
  EXPECT_EQ(ended_in(set), std::vector<int>{1}) << "for another rank that looks";
}

INSTANTIATE_TEST_SUITE_P(Each, DeathPipe, ::testing::Values(true, false),
                         [](const auto& p) { return p.param ? "pidfd" : "pipe"; });

}  // namespace
}  // namespace tutti::os
