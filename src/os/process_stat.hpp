#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::os {

/// A process as the kernel describes it (/proc/PID/stat, proc(5)).
struct ProcessStat {
  std::string name;
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  unsigned flags = 0;  ///< PF_... of the kernel; a zombie still has them
  std::uint64_t user_ticks = 0;
  std::uint64_t system_ticks = 0;
  std::string began;

  /// True if it has ended, and its parent has not collected it.
  [[nodiscard]] bool ended() const noexcept { return state == 'Z' || state == 'X'; }
};

/// Absent if there is no such process, or it cannot be seen. `proc`: the folder /proc, in tests.
[[nodiscard]] std::optional<ProcessStat> process_stat(pid_t process,
                                                      const std::string& proc = "/proc");

}  // namespace tutti::os
