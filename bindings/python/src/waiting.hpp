#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <nanobind/nanobind.h>

#include <tutti/process_group.hpp>

#include "group.hpp"

namespace tutti::python {

/// How long a wait goes on before it lets Python run signal handlers, which run only in the main
/// thread and only on request.
inline constexpr auto kSlice = std::chrono::milliseconds(100);

/// The exception of a signal handler, if one has raised. Called without the GIL.
[[nodiscard]] std::optional<nanobind::python_error> raised_by_signal();

/// Waits for the work without the GIL, and throws its error. Ctrl-C, or another exception of a
/// signal handler, is thrown on. It also breaks the group with the cause "interrupted", because a
/// rank that leaves an operation is out of step with the others. False: another thread has closed
/// the group during the wait, and the operation goes on.
[[nodiscard]] bool wait_interruptibly(SharedGroup& group, Work& work);

/// The error of such a wait.
[[nodiscard]] Outcome closed_during(const char* operation, const SharedGroup& group);

/// Breaks `group`, here and everywhere: this rank was interrupted.
void interrupt(ProcessGroup& group);

/// What `run_interruptibly` does for an action of any type.
void run_apart(std::function<void()> action, const std::function<bool()>& on_interrupt);

/// Runs a blocking `action` without the GIL, and returns what it returns. From the main thread it
/// runs on another thread, so that Ctrl-C is handled. After Ctrl-C `on_interrupt`, without the GIL,
/// makes `action` end soon; if it cannot, `action` goes on alone, so it must own everything that it
/// uses. Throws what `action` throws. Needs the GIL.
template <class Action>
auto run_interruptibly(
    Action action, const std::function<bool()>& on_interrupt = [] { return false; }) {
  using Result = std::invoke_result_t<Action&>;
  if constexpr (std::is_void_v<Result>) {
    run_apart(std::move(action), on_interrupt);
  } else {
    const auto result = std::make_shared<std::optional<Result>>();
    run_apart([result, action = std::move(action)]() mutable { result->emplace(action()); },
              on_interrupt);
    return std::move(**result);
  }
}

/// The same for `action(group)`. Ctrl-C breaks the group, so that it fails at once.
template <class Action>
auto run_interruptibly(const Group& group, Action action) {
  return run_interruptibly([group, action = std::move(action)]() mutable { return action(*group); },
                           [&group] {
                             interrupt(*group);
                             return true;
                           });
}

}  // namespace tutti::python
