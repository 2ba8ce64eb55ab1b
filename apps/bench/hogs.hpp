#pragma once

#include <sys/types.h>

#include <vector>

namespace tutti::bench {

/// Processes that do nothing but use a core each, until the object goes: ranks share their cores.
class Hogs {
 public:
  /// `bound`: the k-th is bound to the k-th usable CPU. Throws std::runtime_error.
  Hogs(int count, bool bound);
  Hogs(const Hogs&) = delete;
  Hogs& operator=(const Hogs&) = delete;
  ~Hogs();

  [[nodiscard]] const std::vector<pid_t>& processes() const { return processes_; }

 private:
  std::vector<pid_t> processes_;
};

}  // namespace tutti::bench
