#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "gil.hpp"
#include "group.hpp"
#include "kept.hpp"
#include "waiting.hpp"
#include "work.hpp"

namespace tutti::python {

/// Runs one operation: `start(group)` gives its Work, without the GIL. Blocking, it returns None
/// when the operation has ended well, or throws; else it returns Python's Work.
template <class Start>
nanobind::object run(const Group& group, Memory memory, bool asynchronous, const Start& start) {
  Kept::release_done();
  if (!asynchronous) {
    {
      const WithoutGil unlocked;
      Work work = start(*group);
      wait_interruptibly(*group, work);
    }
    memory.finish(true);
    return nanobind::none();
  }
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
