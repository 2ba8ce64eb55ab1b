#include "waiting.hpp"

#include <unistd.h>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>

#include "gil.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

// Only the main thread runs signal handlers.
bool on_main_thread() noexcept { return getpid() == gettid(); }

}  // namespace

std::optional<nb::python_error> raised_by_signal() {
  if (!on_main_thread()) return std::nullopt;
  const WithGil locked;
  std::optional<nb::python_error> raised;
  if (PyErr_CheckSignals() != 0) raised.emplace();
  return raised;
}

void interrupt(ProcessGroup& group) {
  const int rank = group.rank();
  Outcome cause(
      Errc::interrupted,
      "group '" + std::string(group.name()) + "': interrupted on rank " + std::to_string(rank) +
          " (" + GroupAccess::backend(group).location(rank) +
          "): Ctrl-C, or a signal handler that raised, in a blocking call; the group is broken, "
          "make a new one");
  GroupAccess::backend(group).abort(cause.with_culprit(rank));
}

Outcome closed_during(const char* operation, const SharedGroup& group) {
  return Outcome(Errc::aborted, std::string(operation) + " in group '" + std::string(group.name()) +
                                    "': another thread of this process destroyed the group during "
                                    "the wait; end the threads that use a group first")
      .with_culprit(group.rank());
}

bool wait_interruptibly(SharedGroup& group, Work& work) {
  const bool was_closed = group.closed();  // as that of a message that outlives its group
  while (!work.wait_for(kSlice)) {
    if (!was_closed && group.closed()) return false;
    if (std::optional<nb::python_error> raised = raised_by_signal()) {
      interrupt(group);
      (void)work.error();  // told by the exception that follows
      throw std::move(*raised);
    }
  }
  work.wait();
  return true;
}

void run_apart(std::function<void()> action, const std::function<bool()>& on_interrupt) {
  const WithoutGil unlocked;
  if (!on_main_thread()) return action();
  std::packaged_task<void()> task(std::move(action));
  std::future<void> result = task.get_future();
  std::thread thread(std::move(task));
  while (result.wait_for(kSlice) != std::future_status::ready) {
    if (std::optional<nb::python_error> raised = raised_by_signal()) {
      if (on_interrupt())
        thread.join();
      else
        thread.detach();
      throw std::move(*raised);
    }
  }
  thread.join();
  result.get();
}

}  // namespace tutti::python
