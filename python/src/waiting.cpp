#include "waiting.hpp"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include <tutti/backend.hpp>

namespace nb = nanobind;

namespace tutti::python {
namespace {

using Clock = std::chrono::steady_clock;

// Python runs its signal handlers in the main thread, and only when it is asked to.
constexpr auto kSlice = std::chrono::milliseconds(50);

// Asks Python for signals, with the GIL: what a handler threw, if one did.
std::optional<nb::python_error> raised_by_signal() {
  const nb::gil_scoped_acquire locked;
  std::optional<nb::python_error> raised;
  if (PyErr_CheckSignals() != 0) raised.emplace();
  return raised;
}

// Without the GIL.
bool wait_unlocked(ProcessGroup& group, Work& work, std::optional<std::chrono::nanoseconds> limit) {
  std::optional<Clock::time_point> end;
  if (limit) end = Clock::now() + *limit;
  while (true) {
    std::chrono::nanoseconds slice = kSlice;
    if (end) slice = std::clamp<std::chrono::nanoseconds>(*end - Clock::now(), slice.zero(), slice);
    if (work.wait_for(slice)) return true;
    if (std::optional<nb::python_error> raised = raised_by_signal()) {
      interrupt(group);
      (void)work.error();  // told by the exception that follows
      throw std::move(*raised);
    }
    if (end && Clock::now() >= *end) return false;
  }
}

}  // namespace

void interrupt(ProcessGroup& group) {
  const int rank = group.rank();
  Status cause(
      Errc::interrupted,
      "group '" + std::string(group.name()) + "': interrupted on rank " + std::to_string(rank) +
          " (" + group.impl().whereabouts(rank) +
          "): Ctrl-C, or a signal handler that raised, in a blocking call; the group is broken, "
          "make a new one");
  group.impl().abort(cause.with_culprit(rank));
}

bool wait_interruptibly(ProcessGroup& group, Work& work,
                        std::optional<std::chrono::nanoseconds> limit) {
  const nb::gil_scoped_release unlocked;
  return wait_unlocked(group, work, limit);
}

void run_blocking(ProcessGroup& group, Collective& call,
                  std::optional<std::chrono::nanoseconds> timeout) {
  const nb::gil_scoped_release unlocked;
  Work work = group.submit(call, timeout, false);
  (void)wait_unlocked(group, work, std::nullopt);
  work.wait();
}

void run_interruptibly(std::function<void()> action, const std::function<bool()>& on_interrupt) {
  const nb::gil_scoped_release unlocked;
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
