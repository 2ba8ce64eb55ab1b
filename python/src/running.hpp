#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "gil.hpp"
#include "group.hpp"
#include "kept.hpp"
#include "waiting.hpp"
#include "work.hpp"

namespace tutti::python {

/// Runs one operation until it has ended well, or throws; of a recv, the rank that sent.
template <class Start>
int run_blocking(const Group& group, Memory memory, const Start& start) {
  Kept::release_done();
  Status outcome;
  int sender = -1;
  try {
    const WithoutGil unlocked;
    Work work = start(*group);
    try {
      wait_interruptibly(*group, work);
    } catch (...) {
      outcome = work.error();
      throw;
    }
    sender = work.source_rank();
  } catch (...) {
    if (outcome.tensors_in_use()) memory.finish(outcome);
    throw;
  }
  memory.finish(outcome);
  return sender;
}

/// Runs one operation: `start(group)` gives its Work, without the GIL. Blocking, it returns None
/// when the operation has ended well, or throws; else it returns Python's Work.
template <class Start>
nanobind::object run(const Group& group, Memory memory, bool asynchronous, const Start& start) {
  if (!asynchronous) {
    (void)run_blocking(group, std::move(memory), start);
    return nanobind::none();
  }
  Kept::release_done();
  Work work;
  {
    const WithoutGil unlocked;  // it copies small inputs at once
    work = start(*group);
    (void)work.done();  // nobody may wait for it: whoever looks wakes the progress thread
  }
  return nanobind::cast(new RunningWork(std::move(work), std::move(memory), group),
                        nanobind::rv_policy::take_ownership);
}

}  // namespace tutti::python
