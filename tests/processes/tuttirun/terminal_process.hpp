#pragma once

#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.hpp"
#include "os/process.hpp"
#include "support/stacks.hpp"

/// A program at a terminal of its own, as a person would start it: it leads a session, and its
/// process group is in the foreground.
class AtTerminal {
 public:
  using Clock = std::chrono::steady_clock;

  explicit AtTerminal(std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    for (std::string& one : arguments) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    int master = -1;
    pid_ = forkpty(&master, nullptr, nullptr, &size);
    if (pid_ == 0) {
      ::setenv("OMP_NUM_THREADS", "1", 1);
      ::unsetenv("CI");
      execvp(pointers.front(), pointers.data());
      _exit(127);
    }
    EXPECT_GT(pid_, 0);
    master_ = tutti::os::Fd(master);
  }
  ~AtTerminal() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  void type(std::string_view text) const {
    EXPECT_EQ(write(master_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// Reads until the screen has got `text` `times` times since the last call.
  void read_until(std::string_view text, int times = 1) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    for (std::size_t at = seen_; times > 0; --times) {
      while ((at = screen.find(text, seen_)) == std::string::npos) {
        if (Clock::now() >= deadline) tutti::test::print_stacks_of_children();
        ASSERT_TRUE(Clock::now() < deadline && read_some())
            << "no \"" << text << "\" on the screen:\n"
            << screen;
      }
      seen_ = at + text.size();
    }
  }

  /// Types this when it has read that.
  void answer(std::string_view text, std::string_view typed, int times = 1) {
    read_until(text, times);
    type(typed);
  }
  /// It ends with this code, and the screen shows that.
  void expect_end(int code, const testing::Matcher<const std::string&>& shown = testing::_) {
    EXPECT_EQ(wait(), code) << screen;
    EXPECT_THAT(screen, shown);
  }

  /// Reads to the end and returns the exit code, as a shell tells it.
  int wait() {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (Clock::now() < deadline && read_some()) {
    }
    auto pidfd = tutti::os::open_pidfd(pid_);
    auto ended =
        pidfd ? tutti::os::wait_ready(pidfd->get(), POLLIN, deadline) : tutti::Result<bool>(false);
    if (!ended || !*ended) {
      ADD_FAILURE() << "does not end; the screen:\n" << screen;
      tutti::test::print_stacks_of_children();
      kill(pid_, SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// All that was written to it, with what was typed.
  std::string screen;

 private:
  // False at the end: nobody has the terminal open any more.
  bool read_some() {
    pollfd entry{master_.get(), POLLIN, 0};
    if (poll(&entry, 1, 1000) <= 0) return true;
    std::array<char, 65536> buffer;
    const ssize_t got = read(master_.get(), buffer.data(), buffer.size());
    if (got <= 0) return false;
    screen.append(buffer.data(), static_cast<std::size_t>(got));
    return true;
  }

  pid_t pid_ = 0;
  tutti::os::Fd master_;
  std::size_t seen_ = 0;
};
