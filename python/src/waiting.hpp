#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <tutti/process_group.hpp>

namespace tutti::python {

/// Waits without the GIL, at most `limit`: true when done. Ctrl-C, or anything else that a signal
/// handler throws, breaks the group with the cause "interrupted", because a rank that leaves an
/// operation is out of step with the others (decision D7), and is thrown on.
[[nodiscard]] bool wait_interruptibly(ProcessGroup& group, Work& work,
                                      std::optional<std::chrono::nanoseconds> limit);

/// Starts `call` and waits until it is done, without the GIL. Throws what went wrong.
void run_blocking(ProcessGroup& group, Collective& call,
                  std::optional<std::chrono::nanoseconds> timeout);

/// Breaks `group`, here and everywhere: this rank was interrupted.
void interrupt(ProcessGroup& group);

/// Runs something that blocks and has no handle to wait for, on a thread of its own and without the
/// GIL. After Ctrl-C `on_interrupt` (without the GIL) makes `action` end soon, if there is a way;
/// if not it is left alone: it must own all that it uses. Throws what `action` throws.
void run_interruptibly(std::function<void()> action, const std::function<bool()>& on_interrupt);

}  // namespace tutti::python
