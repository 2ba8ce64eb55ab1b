#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tutti/launch.hpp>

#include "group/consequence.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace tutti::group {

/// The port of the store, and the port that the children may use for a store of their own.
struct Ports {
  std::uint16_t store = 0;
  std::uint16_t master = 0;
};

/// The settings of forked ranks. Only the rank differs between them.
struct ChildSettings {
  int size = 1;
  int secret_fd = -1;
  std::string secret;  ///< the name of its memory: TUTTI_SECRET_FD
  std::string job;
};

/// How a process failed, if it did.
struct ChildFailure {
  int rank = 0;
  SpawnError::End end;
  /// The code of the tutti::Error that left the function.
  std::optional<Errc> code;
  bool before_return = false;  ///< it ended with exit code 0, but its function had not returned

  /// True if the failure only follows from that of another process.
  [[nodiscard]] bool is_consequence() const noexcept {
    return code && group::is_consequence(*code);
  }
  [[nodiscard]] std::string describe() const;
};

/// A flag for each child in shared memory: its function has returned. The exit code 0 does not show
/// this, because code that the function calls may exit.
class ReturnMarks {
 public:
  ReturnMarks() = default;
  ~ReturnMarks();
  ReturnMarks(const ReturnMarks&) = delete;
  ReturnMarks& operator=(const ReturnMarks&) = delete;

  Outcome make(int count);
  void set(int rank) noexcept { mark(rank).store(1); }
  [[nodiscard]] bool is_set(int rank) const noexcept { return mark(rank).load() != 0; }

 private:
  using Mark = std::atomic<unsigned char>;
  static_assert(Mark::is_always_lock_free);
  [[nodiscard]] Mark& mark(int rank) const noexcept;

  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

/// The processes of one `spawn`. No process outlives this object.
class Children {
 public:
  using Clock = std::chrono::steady_clock;

  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Forks all of them; each waits for `go`.
  Outcome fork(const std::function<void(int)>& fn, const ChildSettings& settings);
  /// Sends the ports to all children, which then run.
  Outcome go(Ports ports);

  /// Waits until one more process has ended, or until the deadline. Failures are kept in
  /// `failures`.
  Outcome wait_one(std::optional<Clock::time_point> deadline);
  [[nodiscard]] const std::vector<ChildFailure>& failures() const noexcept { return failures_; }
  [[nodiscard]] std::vector<int> running() const;
  void signal(int number) noexcept;

 private:
  struct Child {
    int rank = 0;
    os::Process process;
    os::Fd report;  // its error, written before it ends
    bool ended = false;
  };
  Outcome note_end(Child& child);

  ReturnMarks returned_;
  std::vector<Child> children_;
  std::vector<ChildFailure> failures_;
  os::Fd go_;
  os::Fd go_read_;
};

}  // namespace tutti::group
