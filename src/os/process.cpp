#include "os/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string_view>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/split.hpp"
#include "os/pipe.hpp"
#include "os/process_stat.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
namespace {

// PF_EXITING and PF_FORKNOEXEC of the kernel.
constexpr unsigned kExiting = 0x4;
constexpr unsigned kForkedNoExec = 0x40;

/// 0 where the kernel does not tell.
unsigned kernel_flags(pid_t pid) {
  const auto stat = process_stat(pid);
  return stat ? stat->flags : 0;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything the child needs is made before it starts: it may only call what is safe in a signal
// handler, since other threads of ours may hold any lock.
struct ChildPlan {
  const SpawnOptions* options = nullptr;
  std::vector<std::string> candidates;  // paths to try
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<std::pair<int, int>> fds;  // scratch copy
  pid_t parent = 0;
  int report_fd = -1;  // errno goes here when the program cannot be started
};

std::vector<std::string> paths_to_try(const SpawnOptions& options) {
  const std::string& program = options.argv.front();
  if (program.find('/') != std::string::npos) return {program};
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : options.environment) {
    if (entry.starts_with("PATH=")) path = entry.substr(5);
  }
  std::vector<std::string> result;
  for (const std::string_view folder : base::split(path, ':'))
    result.push_back(base::format("{}/{}", folder.empty() ? "." : folder, program));
  return result;
}

void restore_signals() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) std::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Moves descriptors in place. Sources that stand where another one has to go are moved out of the
// way first.
int place_fds(std::vector<std::pair<int, int>>& fds, int& report_fd) noexcept {
  int above = 3;
  for (const auto& [ours, theirs] : fds) above = std::max(above, theirs + 1);
  const int moved_report = fcntl(report_fd, F_DUPFD_CLOEXEC, above);
  if (moved_report < 0) return errno;
  report_fd = moved_report;
  for (auto& [ours, theirs] : fds) {
    const int moved = fcntl(ours, F_DUPFD_CLOEXEC, above);
    if (moved < 0) return errno;
    ours = moved;
  }
  for (const auto& [ours, theirs] : fds) {
    if (dup2(ours, theirs) < 0) return errno;
  }
  return 0;
}

[[noreturn]] void run_child(ChildPlan& plan) noexcept {
  const SpawnOptions& options = *plan.options;
  int error = 0;
  if (options.new_process_group && setpgid(0, 0) != 0) error = errno;
  // SIGTTOU is still blocked. Without the terminal the child is in the background, and runs.
  if (options.terminal >= 0) (void)tcsetpgrp(options.terminal, getpid());
  if (options.announce_fd >= 0) {
    const pid_t self = getpid();
    if (write(options.announce_fd, &self, sizeof self) != sizeof self) {
      error = EPIPE;
      std::signal(SIGPIPE, SIG_IGN);  // takes back the one that waits, or we die before we tell
    }
  }
  if (error == 0) error = place_fds(plan.fds, plan.report_fd);
  restore_signals();
  if (options.descriptors && setrlimit(RLIMIT_NOFILE, &*options.descriptors) != 0 && error == 0)
    error = errno;
  if (options.parent_death_signal &&
      !set_parent_death_signal(*options.parent_death_signal, plan.parent))
    _exit(127);  // the child ends here: its parent has gone
  if (error == 0) {
    // As execvp: remember that a file was there but could not be run.
    error = ENOENT;
    for (const std::string& path : plan.candidates) {
      execve(path.c_str(), plan.argv.data(), plan.environment.data());
      if (errno == EACCES || errno == ENOEXEC)
        error = errno;
      else if (errno != ENOENT && errno != ENOTDIR) {
        error = errno;
        break;
      }
    }
  }
  [[maybe_unused]] const ssize_t told = write(plan.report_fd, &error, sizeof error);
  _exit(127);  // the child ends here
}

/// The child runs in our memory until it calls exec, and this thread waits: to copy the memory of a
/// launcher for each of many workers takes longer than all else. In a function of its own, because
/// the child must not return from it.
[[gnu::noinline]] pid_t start_child(ChildPlan& plan) noexcept {
  const pid_t pid = vfork();
  if (pid == 0) run_child(plan);
  return pid;
}

ExitStatus to_exit_status(const siginfo_t& info) noexcept {
  ExitStatus status;
  if (info.si_code == CLD_EXITED)
    status.code = info.si_status;
  else
    status.signal = info.si_status;
  return status;
}

}  // namespace

Result<Process> spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return Outcome(Errc::invalid_argument, "no program to start");
  const std::string what = base::format("cannot start {}", options.argv.front());
  Result<Pipe> report = make_pipe(what);
  if (!report) return report.status();

  ChildPlan plan;
  plan.options = &options;
  plan.candidates = paths_to_try(options);
  plan.argv = pointers_to(options.argv);
  plan.environment = pointers_to(options.environment);
  plan.fds = options.fds;
  plan.parent = getpid();
  plan.report_fd = report->write.get();

  // No handler of ours may run in the child before it has set its own dispositions.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = start_child(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return system_error(what, fork_error);

  report->write.reset();
  int child_error = 0;
  ssize_t got = 0;
  // Ends at the exec, at the report or with the child: nothing unbounded runs before these.
  while ((got = read(report->read.get(), &child_error, sizeof child_error)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof child_error)) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return system_error(what, child_error);
  }
  return Process(pid);
}

std::string signal_name(int signal) {
  // Not glibc's `sigabbrev_np`, which is newer than the systems that our wheels serve.
  static constexpr std::array<std::string_view, 32> kNames = {
      "",     "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
      "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
      "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};
  static_assert(SIGBUS == 7 && SIGUSR1 == 10 && SIGCHLD == 17 && SIGSYS == 31);
  const bool known = signal > 0 && base::as_size(signal) < kNames.size();
  return known ? base::format("SIG{}", base::at(kNames, signal))
               : base::format("signal {}", signal);
}

bool set_parent_death_signal(int signal, pid_t expected_parent) noexcept {
  if (prctl(PR_SET_PDEATHSIG, signal) != 0) return false;
  // The parent may have ended before the kernel knew of our wish.
  return getppid() == expected_parent;
}

Result<std::optional<ExitStatus>> Process::peek() const {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return system_error(base::format("cannot ask for the end of process {}", pid_), errno);
  if (info.si_pid == 0) return std::optional<ExitStatus>();
  return std::optional<ExitStatus>(to_exit_status(info));
}

Result<std::optional<ExitStatus>> Process::wait(Deadline deadline) const {
  auto ended = watch_.wait(deadline);
  if (!ended) return ended.status();
  return peek();
}

bool Process::is_exiting() const { return (kernel_flags(pid_) & kExiting) != 0; }

bool Process::is_still_fork() const { return (kernel_flags(pid_) & kForkedNoExec) != 0; }

int Process::take_stop() const noexcept {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG) != 0) return 0;
  return info.si_pid == 0 ? 0 : info.si_status;
}

Outcome Process::collect() {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) != 0)
    return system_error(base::format("cannot collect process {}", pid_), errno);
  if (info.si_pid == 0)
    return Outcome(Errc::invalid_argument, base::format("process {} has not ended", pid_));
  collected_ = true;
  return {};
}

Outcome Process::kill(int signal) const {
  if (pid_ > 0 && !collected_ && ::kill(pid_, signal) != 0 && errno != ESRCH)
    return system_error(base::format("cannot send signal {} to process {}", signal, pid_), errno);
  return {};
}

Outcome Process::kill_group(int signal) const {
  if (pid_ > 1 && !collected_ && ::kill(-pid_, signal) != 0 && errno != ESRCH)
    return system_error(base::format("cannot send signal {} to process group {}", signal, pid_),
                        errno);
  return {};
}

}  // namespace tutti::os
