#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "os/death_watch.hpp"
#include "os/socket.hpp"

namespace tutti::os {

struct SpawnOptions {
  /// The program, searched in PATH where it has no slash, and its arguments.
  std::vector<std::string> argv;
  /// "NAME=value", the whole environment of the child.
  std::vector<std::string> environment;
  /// (ours, the child's): descriptors the child gets beside 0, 1 and 2, or in place of them.
  /// Everything else must be close-on-exec.
  std::vector<std::pair<int, int>> fds;
  /// Makes the child the leader of a process group of its own.
  bool new_process_group = true;
  /// The child makes its new group the foreground group of this terminal, if it controls us. After
  /// an error the caller takes it back. -1: the child stays in the background.
  int terminal = -1;
  /// Sent to the child when the thread that spawned it ends.
  std::optional<int> parent_death_signal;
  /// The child writes its process id (sizeof(pid_t) bytes) here before the program starts, so that
  /// the reader knows of it even if we die at once. -1: nowhere.
  int announce_fd = -1;
  /// How many descriptors the child may open, if not as many as we (a program that uses select
  /// cannot have more than 1024).
  std::optional<rlimit> descriptors;
};

/// "SIGTERM"; "signal 34" of one without a name.
[[nodiscard]] std::string signal_name(int signal);

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< exit code, if no signal ended it
  int signal = 0;  ///< the signal that ended it, or 0
  [[nodiscard]] bool success() const noexcept { return code == 0 && signal == 0; }
  /// As a shell tells it: the code, or 128 + signal.
  [[nodiscard]] int shell_code() const noexcept { return signal != 0 ? 128 + signal : code; }
};

/// A child process, which nobody else collects: so its number stays its own until `collect`.
/// Dropping the object neither ends nor collects the child.
class Process {
 public:
  Process() noexcept = default;
  explicit Process(pid_t pid) noexcept : pid_(pid), watch_(DeathWatch::of(pid)) {}

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const DeathWatch& watch() const noexcept { return watch_; }

  /// How it ended, or nothing while it runs. The process stays a zombie, so that its number (and
  /// that of its group) is not given to others before `collect`.
  Result<std::optional<ExitStatus>> peek() const;
  /// Waits for its end until the deadline; then as `peek`.
  Result<std::optional<ExitStatus>> wait(Deadline deadline) const;
  /// The kernel takes it apart: it runs nothing any more, its descriptors may be closed already,
  /// and `wait` gets its end soon. False where the kernel does not tell.
  [[nodiscard]] bool is_exiting() const;
  /// It is a fork that has not called exec, so it runs, or has run to its end, the program of its
  /// parent. False where the kernel does not tell.
  [[nodiscard]] bool is_still_fork() const;
  /// The signal that has stopped it since this was asked last, or 0.
  [[nodiscard]] int take_stop() const noexcept;
  /// Takes the ended process out of the kernel's table.
  Outcome collect();

  /// Sends a signal to the process; ok if it has ended.
  Outcome kill(int signal) const;
  /// Sends a signal to its process group; ok if nobody is left in it.
  Outcome kill_group(int signal) const;

 private:
  pid_t pid_ = 0;
  bool collected_ = false;  ///< its number may be another's
  DeathWatch watch_;
};

/// Starts a program. A program that cannot be started is an error here, not an exit code 127.
/// Signal dispositions and the signal mask of the child are the defaults.
Result<Process> spawn(const SpawnOptions& options);

/// Asks the kernel to send `signal` to us when the thread that forked us ends. `expected_parent`
/// is our parent as known before the fork: false if it has ended already.
[[nodiscard]] bool set_parent_death_signal(int signal, pid_t expected_parent) noexcept;

}  // namespace tutti::os
