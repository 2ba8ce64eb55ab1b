#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include <tutti/error.hpp>
#include <tutti/stream.hpp>

#include "errors.hpp"
#include "gil.hpp"
#include "group.hpp"
#include "kept.hpp"
#include "waiting.hpp"
#include "work.hpp"

namespace tutti::python {

/// Runs one operation to its end, or throws. Returns the sender of a recv.
template <class Start>
int run_blocking(const Group& group, Memory memory, const Start& start) {
  Kept::release_done();
  Outcome outcome;
  int sender = -1;
  Work left;  // of a group that another thread has closed
  try {
    const WithoutGil unlocked;
    const StreamGuard stream(memory.stream());
    Work work = start(*group);
    try {
      if (!wait_interruptibly(*group, work)) [[unlikely]]
        left = std::move(work);
    } catch (...) {
      outcome = work.error();
      throw;
    }
    sender = work.source_rank();
  } catch (const Error& error) {
    if (outcome.tensors_in_use()) {
      memory.note_tensors();
      memory.finish(outcome);
    }
    memory.raise(error.status());
  } catch (...) {
    if (outcome.tensors_in_use()) memory.finish(outcome);
    throw;
  }
  if (left.valid()) [[unlikely]] {
    const nanobind::object problem = memory.exception_of(closed_during(memory.operation(), *group));
    // Without the group: with the last reference to it the operation ends.
    Kept::until_done(left, std::move(memory), nullptr);
    raise_exception(problem);
  }
  memory.finish(outcome);
  return sender;
}

/// Starts one operation: `start(group)` gives its Work, without the GIL. Returns Python's Work.
template <class Start>
nanobind::object run_asynchronous(const Group& group, Memory memory, const Start& start) {
  Kept::release_done();
  Work work;
  try {
    const WithoutGil unlocked;  // it copies small inputs at once
    const StreamGuard stream(memory.stream());
    work = start(*group);
  } catch (const Error& error) {
    memory.raise(error.status());
  }
  return nanobind::cast(new RunningWork(std::move(work), std::move(memory), group),
                        nanobind::rv_policy::take_ownership);
}

/// Runs one operation, whose Work `start(group)` gives. Blocking, it returns None when the
/// operation has ended well, or throws; else it returns Python's Work.
template <class Start>
nanobind::object run(const Group& group, Memory memory, bool asynchronous, const Start& start) {
  if (!asynchronous) {
    (void)run_blocking(group, std::move(memory), start);
    return nanobind::none();
  }
  return run_asynchronous(group, std::move(memory), start);
}

}  // namespace tutti::python
