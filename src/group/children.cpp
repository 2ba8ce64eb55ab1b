#include "group/children.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/received_errc.hpp"
#include "os/file_size_signal.hpp"
#include "os/handed_memory.hpp"
#include "os/pipe.hpp"
#include "os/system_error.hpp"

namespace tutti::group {
namespace {

// Read only when its writer has ended.
constexpr std::size_t kLongestReport = std::size_t{16} << 10;
constexpr char kForeign = '\xff';  // not the code of a tutti::Error

/// The memory file to which a child writes its error. A pipe would not do: a child must never wait
/// for us to read, and the size of a pipe depends on how many pipes the user has.
Result<os::Fd> make_report() {
  os::Fd file(memfd_create("tutti report", MFD_CLOEXEC));
  if (!file.valid()) return os::system_error("spawn: cannot make a file for a report", errno);
  return file;
}

void report(int fd, char code, std::string_view text) noexcept {
  std::array<char, kLongestReport> message{};
  message[0] = code;
  const std::size_t size = std::min(text.size(), message.size() - 1);
  std::memcpy(message.data() + 1, text.data(), size);
  const os::NoFileSizeSignal no_signal;
  [[maybe_unused]] const ssize_t written = pwrite(fd, message.data(), size + 1, 0);
}

void tell_environment(const ChildSettings& settings, Ports ports, int rank) {
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(settings.size));
  set("LOCAL_WORLD_SIZE", std::to_string(settings.size));
  set("GROUP_RANK", "0");
  set("GROUP_WORLD_SIZE", "1");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(ports.master));
  set("TUTTI_STORE_PORT", std::to_string(ports.store));
  set("TUTTI_AGENT_STORE", "1");
  set("TUTTI_JOB", settings.job);
  set("TUTTI_SECRET_FD", settings.secret);
  unsetenv("TUTTI_SECRET_FILE");
  unsetenv(os::kRecordVariable);  // it belongs to the rank that calls spawn
  // Inherited by a program that `fn` executes in place of itself.
  fcntl(settings.secret_fd, F_SETFD, 0);
}

int run_function(const std::function<void(int)>& fn, int rank, int report_fd) noexcept {
  try {
    fn(rank);
    return 0;
  } catch (const Error& error) {
    report(report_fd, static_cast<char>(error.code()), error.what());
  } catch (const std::exception& error) {
    report(report_fd, kForeign, error.what());
  } catch (...) {
    report(report_fd, kForeign, "something that is no std::exception");
  }
  return 1;
}

[[noreturn]] void run_child(const std::function<void(int)>& fn, const ChildSettings& settings,
                            int rank, pid_t parent, int go_fd, int report_fd,
                            ReturnMarks& returned) noexcept {
  int code = 1;
  Ports ports;
  ssize_t got = 0;
  if (os::set_parent_death_signal(SIGKILL, parent)) {
    while ((got = read(go_fd, &ports, sizeof ports)) < 0 && errno == EINTR) {
    }
  }
  // Otherwise the parent has ended or given up.
  if (got == static_cast<ssize_t>(sizeof ports)) {
    close(go_fd);
    tell_environment(settings, ports, rank);
    code = run_function(fn, rank, report_fd);
    returned.set(rank);
    std::fflush(nullptr);
  }
  _exit(code);  // the child ends here; the parent's exit handlers must not run
}

}  // namespace

std::string ChildFailure::describe() const {
  const std::string who = base::format("rank {} (process {})", rank, end.process);
  if (end.exception) return base::format("{} ended with an exception: {}", who, *end.exception);
  if (end.signal != 0) return base::format("{} was ended by {}", who, os::signal_name(end.signal));
  return base::format("{} ended with exit code {}{}", who, end.exit_code,
                      before_return ? " before its function had returned" : "");
}

Outcome ReturnMarks::make(int count) {
  const std::size_t size = sizeof(Mark) * base::as_size(count);
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return os::system_error("spawn: cannot share memory with the processes", errno);
  memory_ = memory;  // all zero, which is a valid Mark
  size_ = size;
  return {};
}

ReturnMarks::~ReturnMarks() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

ReturnMarks::Mark& ReturnMarks::mark(int rank) const noexcept {
  return static_cast<Mark*>(memory_)[base::as_size(rank)];
}

Outcome Children::fork(const std::function<void(int)>& fn, const ChildSettings& settings) {
  auto go = os::make_pipe("spawn: cannot make a pipe");
  if (!go) return go.status();
  if (Outcome status = returned_.make(settings.size); !status) return status;
  // Otherwise every child would print our buffered output again.
  std::fflush(nullptr);
  const pid_t parent = getpid();
  for (int rank = 0; rank < settings.size; ++rank) {
    auto words = make_report();
    if (!words) return words.status();
    const pid_t pid = ::fork();
    if (pid < 0) {
      return os::system_error(
          base::format("spawn: cannot start process {} of {}", rank + 1, settings.size), errno);
    }
    if (pid == 0) {
      // The pipe closes when the parent ends, so no other process may hold it.
      go->write.reset();
      run_child(fn, settings, rank, parent, go->read.get(), words->get(), returned_);
    }
    children_.push_back({rank, os::Process(pid), std::move(*words), false});
  }
  go_ = std::move(go->write);
  go_read_ = std::move(go->read);  // open, so that a write is no SIGPIPE if all children have died
  return {};
}

Outcome Children::go(Ports ports) {
  // Each child takes one copy; a pipe holds thousands.
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (write(go_.get(), &ports, sizeof ports) != sizeof ports)
      return os::system_error("spawn: cannot tell the processes where the store is", errno);
  }
  go_.reset();
  go_read_.reset();
  return {};
}

Outcome Children::wait_one(std::optional<Clock::time_point> deadline) {
  std::vector<pollfd> entries;
  std::vector<Child*> waiting;
  bool all_are_told = true;
  for (Child& child : children_) {
    if (child.ended) continue;
    const int watched = child.process.watch().fd();
    all_are_told &= watched >= 0;
    entries.push_back({watched, POLLIN, 0});
    waiting.push_back(&child);
  }
  int timeout = all_are_told ? -1 : static_cast<int>(os::DeathWatch::kAskAgain.count());
  if (deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    const auto most = all_are_told ? 1'000'000 : timeout;
    timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, most));
  }
  if (poll(entries.data(), entries.size(), timeout) < 0 && errno != EINTR)
    return os::system_error("spawn: cannot wait for the processes", errno);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents == 0 && entries[i].fd >= 0) continue;
    if (Outcome status = note_end(*waiting[i]); !status) return status;
  }
  return {};
}

Outcome Children::note_end(Child& child) {
  auto end = child.process.peek();
  if (!end) return end.status();
  if (!end->has_value()) return {};
  // If the child has called exec, this waits for that program.
  const bool before_return =
      (*end)->success() && !returned_.is_set(child.rank) && child.process.is_still_fork();
  if (!(*end)->success() || before_return) {
    ChildFailure failure;
    failure.rank = child.rank;
    failure.before_return = before_return;
    failure.end.process = child.process.pid();
    failure.end.exit_code = (*end)->code;
    failure.end.signal = (*end)->signal;
    std::array<char, kLongestReport> message{};
    const ssize_t got = pread(child.report.get(), message.data(), message.size(), 0);
    if (got > 0) {
      failure.end.exception.emplace(message.data() + 1, base::as_size(got) - 1);
      if (message[0] != kForeign) failure.code = base::received_errc(message[0]);
    }
    failures_.push_back(std::move(failure));
  }
  child.ended = true;
  child.report.reset();
  return child.process.collect();
}

std::vector<int> Children::running() const {
  std::vector<int> ranks;
  for (const Child& child : children_)
    if (!child.ended) ranks.push_back(child.rank);
  return ranks;
}

void Children::signal(int number) noexcept {
  for (const Child& child : children_) {
    if (child.ended) continue;
    static_cast<void>(child.process.kill(number));
  }
}

Children::~Children() {
  signal(SIGKILL);
  for (Child& child : children_) {
    if (child.ended) continue;
    // No process survives SIGKILL; the bound is for one that hangs in the kernel.
    auto gone = child.process.wait(Clock::now() + std::chrono::seconds(10));
    if (gone && gone->has_value()) static_cast<void>(child.process.collect());
  }
}

}  // namespace tutti::group
