#pragma once

#include <utility>

#include <tutti/error.hpp>

#include "group.hpp"
#include "memory.hpp"

namespace tutti::python {

/// Keeps all that an operation needs which Python has dropped: its memory, and its group, because a
/// group that ends calls nobody back.
///
/// The progress thread, which never takes the GIL, puts it into a queue when the operation is done;
/// whoever calls into the module next with the GIL drops it.
class Kept {
 public:
  /// Hands over to `work`'s end: afterwards `work` is detached. Needs the GIL.
  static void until_done(Work& work, Memory memory, Group group);
  /// Drops what has become free. Needs the GIL.
  static void release_done() noexcept;

 private:
  Kept(Memory memory, Group group) : memory_(std::move(memory)), group_(std::move(group)) {}
  static void done(void* context, const Outcome& status) noexcept;

  Memory memory_;
  Group group_;
  Kept* next_ = nullptr;
  Outcome outcome_;
};

/// The exception that is being handled cannot be raised: Python prints it. Needs the GIL.
void report_unraisable(nanobind::python_error& problem, const char* where) noexcept;

}  // namespace tutti::python
