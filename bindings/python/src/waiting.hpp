#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <nanobind/nanobind.h>

#include <tutti/process_group.hpp>

namespace tutti::python {

/// How long a wait goes on before Python is asked for signals: it runs its handlers in the main
/// thread, and only when it is asked to.
inline constexpr auto kSlice = std::chrono::milliseconds(50);

/// The exception that a signal handler threw, if one did. Without the GIL.
[[nodiscard]] std::optional<nanobind::python_error> raised_by_signal();

/// Waits until it is done, without the GIL, and throws what went wrong. Ctrl-C, or anything else
/// that a signal handler throws, breaks the group with the cause "interrupted", because a rank that
/// leaves an operation is out of step with the others, and is thrown on.
void wait_interruptibly(ProcessGroup& group, Work& work);

/// Breaks `group`, here and everywhere: this rank was interrupted.
void interrupt(ProcessGroup& group);

/// Runs something that blocks and has no handle to wait for, without the GIL; on the main thread by
/// way of another, so that Ctrl-C is heard. Then `on_interrupt` (without the GIL) makes `action`
/// end soon, if there is a way; if not it is left alone: it must own all that it uses. Throws what
/// `action` throws. Needs the GIL.
void run_interruptibly(std::function<void()> action, const std::function<bool()>& on_interrupt);

}  // namespace tutti::python
