#pragma once

#include <utility>

#include <tutti/error.hpp>

#include "group.hpp"
#include "memory.hpp"

namespace tutti::python {

/// Keeps what an operation needs after Python has dropped its Work: its memory, and its group,
/// because a destroyed group makes no callbacks.
///
/// When the operation is done, the progress thread, which never takes the GIL, puts this object
/// into a queue. The next call into the module with the GIL drops it.
class Kept {
 public:
  /// Hands over to `work`'s end: afterwards `work` is detached. `group` may be null: then the
  /// operation may end with its group. Needs the GIL.
  static void until_done(Work& work, Memory memory, Group group);
  /// Drops the objects of done operations. Needs the GIL.
  static void release_done() noexcept;

 private:
  Kept(Memory memory, Group group) : memory_(std::move(memory)), group_(std::move(group)) {}
  static void done(void* context, const Outcome& status) noexcept;

  Memory memory_;
  Group group_;
  Kept* next_ = nullptr;
  Outcome outcome_;
};

/// Prints the current exception, which cannot be raised. Needs the GIL.
void report_unraisable(nanobind::python_error& problem, const char* where) noexcept;

}  // namespace tutti::python
