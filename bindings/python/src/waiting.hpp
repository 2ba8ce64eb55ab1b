#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <nanobind/nanobind.h>

#include <tutti/process_group.hpp>

namespace tutti::python {

/// How long a wait goes on before it lets Python run signal handlers, which run only in the main
/// thread and only on request.
inline constexpr auto kSlice = std::chrono::milliseconds(50);

/// The exception of a signal handler, if one has raised. Called without the GIL.
[[nodiscard]] std::optional<nanobind::python_error> raised_by_signal();

/// Waits for the work without the GIL, and throws its error. Ctrl-C, or another exception of a
/// signal handler, is thrown on. It also breaks the group with the cause "interrupted", because a
/// rank that leaves an operation is out of step with the others.
void wait_interruptibly(ProcessGroup& group, Work& work);

/// Breaks `group`, here and everywhere: this rank was interrupted.
void interrupt(ProcessGroup& group);

/// Runs a blocking `action` without the GIL. From the main thread it runs on another thread, so
/// that Ctrl-C is handled. After Ctrl-C `on_interrupt`, without the GIL, makes `action` end soon;
/// if it cannot, `action` goes on alone, so it must own everything that it uses. Throws what
/// `action` throws. Needs the GIL.
void run_interruptibly(std::function<void()> action, const std::function<bool()>& on_interrupt);

}  // namespace tutti::python
