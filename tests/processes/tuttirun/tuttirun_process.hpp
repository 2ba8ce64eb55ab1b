#pragma once

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.hpp"
#include "os/process.hpp"
#include "os/socket.hpp"
#include "support/free_port.hpp"
#include "support/programs.hpp"
#include "unit/os/pipe.hpp"

using tutti::test::joined;
using tutti::test::lines_of;
using tutti::test::times_in;
using tutti::test::Words;

/// tuttirun as a child, with what it prints.
class Tuttirun {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Tuttirun(Words arguments, Words more_environment = {}) {
    tutti::test::Pipe out_pipe;
    tutti::test::Pipe err_pipe;
    tutti::os::SpawnOptions options;
    options.argv = std::move(arguments);
    // Some are given the launcher among their arguments.
    const std::string first = options.argv.empty() ? "" : options.argv.front();
    if (first != "unshare" && first != "python3" && first != "sh")
      options.argv.insert(options.argv.begin(), TUTTIRUN);
    // As on a developer's machine, wherever the tests run.
    more_environment.insert(more_environment.begin(), {"OMP_NUM_THREADS=1", "CI="});
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (!names_same(*entry, more_environment)) options.environment.emplace_back(*entry);
    for (auto entry = more_environment.begin(); entry != more_environment.end(); ++entry) {
      // "NAME=" takes a variable away; of two with one name the last counts.
      if (!entry->ends_with('=') && !names_same(*entry, {entry + 1, more_environment.end()}))
        options.environment.push_back(*entry);
    }
    options.fds = {{out_pipe.write.get(), 1}, {err_pipe.write.get(), 2}};
    out_ = std::move(out_pipe.read);
    err_ = std::move(err_pipe.read);
    auto process = tutti::os::spawn(options);
    EXPECT_TRUE(process) << process.status().message();
    if (process) process_ = std::move(*process);
  }
  ~Tuttirun() {
    if (process_.pid() == 0 || ended_) return;
    EXPECT_TRUE(process_.kill(SIGKILL));
    static_cast<void>(wait());
  }
  Tuttirun(const Tuttirun&) = delete;
  Tuttirun& operator=(const Tuttirun&) = delete;

  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  void signal(int number) const { EXPECT_TRUE(process_.kill(number)); }

  /// Reads until stdout holds `text` `times` times.
  void read_until(std::string_view text, int times) { read_until(out, text, times); }
  /// Reads until stderr holds `text`.
  void read_error_until(std::string_view text) { read_until(err, text, 1); }

  /// Reads to the end and returns the exit code, as a shell tells it.
  int wait() {
    const auto deadline = Clock::now() + std::chrono::seconds(90);
    while (read_some(deadline)) {
      if (Clock::now() >= deadline) {
        ADD_FAILURE() << "does not end; stdout: " << out << "\nstderr: " << err;
        tutti::test::print_stacks_of_children();
        EXPECT_TRUE(process_.kill(SIGKILL));
        break;
      }
    }
    auto end = process_.wait(deadline);
    EXPECT_TRUE(end && end->has_value());
    EXPECT_TRUE(process_.collect());
    ended_ = true;
    return end && end->has_value() ? (*end)->shell_code() : -1;
  }

  /// The signal ends it.
  void expect_ended_by(int number) {
    signal(number);
    EXPECT_EQ(wait(), 128 + number) << out << err;
  }

  std::string out;
  std::string err;

 private:
  static bool names_same(std::string_view entry, const Words& others) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::ranges::any_of(others, [&](const auto& one) { return one.starts_with(name); });
  }
  void read_until(const std::string& stream, std::string_view text, int times) {
    const auto deadline = Clock::now() + std::chrono::seconds(90);
    while (times_in(stream, text) < times) {
      if (Clock::now() >= deadline) tutti::test::print_stacks_of_children();
      ASSERT_LT(Clock::now(), deadline) << "stdout so far: " << out << "\nstderr: " << err;
      ASSERT_TRUE(read_some(deadline)) << "ended early; stdout: " << out << "\nstderr: " << err;
    }
  }
  // False when both streams have ended.
  bool read_some(Clock::time_point deadline) {
    std::array<pollfd, 2> entries{pollfd{out_.get(), POLLIN, 0}, pollfd{err_.get(), POLLIN, 0}};
    if (!out_.valid() && !err_.valid()) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    poll(entries.data(), entries.size(), std::max(0, static_cast<int>(left.count())));
    take(entries[0], out_, out);
    take(entries[1], err_, err);
    return true;
  }
  static void take(const pollfd& entry, tutti::os::Fd& fd, std::string& text) {
    if (!fd.valid() || entry.revents == 0) return;
    std::array<char, 65536> buffer;
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got > 0)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    else
      fd.reset();
  }

  tutti::os::Process process_;
  tutti::os::Fd out_;
  tutti::os::Fd err_;
  bool ended_ = false;
};

/// A tuttirun that has ended with this exit code.
class Ended : public Tuttirun {
 public:
  Ended(int code, Words arguments, Words environment = {},
        std::source_location where = std::source_location::current())
      : Tuttirun(std::move(arguments), std::move(environment)) {
    const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "started");
    EXPECT_EQ(wait(), code) << err;
  }
};

/// A tuttirun ends well, and its workers have printed that.
inline void expect_printed(const testing::Matcher<std::string>& out, const Words& arguments,
                           const Words& environment = {},
                           std::source_location where = std::source_location::current()) {
  const Ended run(0, arguments, environment, where);
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "started");
  EXPECT_THAT(run.out, out);
}

/// ... or it ends with this code, and tells that.
inline void expect_told(int code, const testing::Matcher<std::string>& err, const Words& arguments,
                        const Words& environment = {},
                        std::source_location where = std::source_location::current()) {
  const Ended run(code, arguments, environment, where);
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "started");
  EXPECT_THAT(run.err, err);
}

/// Whether a process has ended and waits to be collected.
inline bool has_ended(pid_t pid) {
  const std::string stat = tutti::test::text_of("/proc/" + std::to_string(pid) + "/stat");
  return stat.find(") Z ") != std::string::npos;
}

/// Options that start a script of bash as the workers.
inline Words shell(const std::string& workers, const std::string& script,
                   const Words& options = {}) {
  return joined({{"--nproc-per-node", workers}, options, {"bash", "-c", script}});
}

/// Options of node `rank` of two, with two workers on each.
inline Words node(int rank, const std::string& port, const Words& rest) {
  return joined({{"--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"},
                 {"--master-port", port, "--node-rank", std::to_string(rank)},
                 rest});
}

/// Tests with two nodes.
class TwoNodes : public testing::Test {
 protected:
  /// Begins both at once with these options behind those of `node`.
  void start(const Words& of_first, const Words& of_second) {
    begin(node(0, port, of_first), node(1, port, of_second));
  }
  void start(const Words& of_both) { start(of_both, of_both); }
  void begin(const Words& arguments, const Words& others) {
    first_ = std::make_unique<Tuttirun>(arguments);
    second_ = std::make_unique<Tuttirun>(others);
  }
  void expect_ends(int of_first, int of_second) {
    EXPECT_EQ(first().wait(), of_first) << first().err;
    EXPECT_EQ(second().wait(), of_second) << second().err;
  }
  void expect_ends(int code) { expect_ends(code, code); }
  /// The workers of both have said it.
  void read_until(std::string_view text, int times = 2) {
    first().read_until(text, times);
    second().read_until(text, times);
  }
  Tuttirun& first() { return *first_; }
  Tuttirun& second() { return *second_; }
  [[nodiscard]] std::string out() const { return first_->out + second_->out; }

  const std::string port = std::to_string(free_port());
  std::unique_ptr<Tuttirun> first_;
  std::unique_ptr<Tuttirun> second_;
};

/// While it lives, orphans of our descendants become our children: they can be counted and awaited.
class Subreaper {
 public:
  Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  /// Nothing outlives a tuttirun that is killed when `workers` of it are ready.
  static void expect_gone_after_death(const Words& arguments, int workers) {
    const Subreaper subreaper;
    Tuttirun run(arguments);
    run.read_until("ready", workers);
    run.expect_ended_by(SIGKILL);
    EXPECT_TRUE(all_gone(Tuttirun::Clock::now() + std::chrono::seconds(20)));
  }
  /// Whether all descendants have ended by the deadline. Ends what is left.
  static bool all_gone(std::chrono::steady_clock::time_point deadline) {
    bool in_time = true;
    while (true) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) return in_time;  // no children at all
      if (info.si_pid != 0) continue;
      const std::vector<pid_t> children = tutti::test::children_of(getpid());
      if (children.empty()) continue;
      auto pidfd = tutti::os::open_pidfd(children.front());
      auto ended =
          pidfd ? tutti::os::wait_ready(pidfd->get(), POLLIN, deadline) : tutti::Result<bool>(true);
      if (ended && *ended) continue;
      in_time = false;
      for (const pid_t child : children) {
        std::string line = tutti::test::text_of("/proc/" + std::to_string(child) + "/cmdline");
        std::ranges::replace(line, '\0', ' ');
        ADD_FAILURE() << "still there: process " << child << ": " << line;
        kill(child, SIGKILL);
      }
      deadline += std::chrono::seconds(5);
    }
  }
};
