#pragma once

#include <nanobind/nanobind.h>

#include "buffer.hpp"
#include "group.hpp"

namespace tutti::python {

/// An operation under way, with what it needs: dropping it waits for nothing.
class RunningWork {
 public:
  RunningWork(Work work, Buffer buffer, Group group);
  RunningWork(RunningWork&&) = default;
  RunningWork(const RunningWork&) = delete;
  RunningWork& operator=(const RunningWork&) = delete;
  ~RunningWork();

  bool wait(nanobind::handle timeout);
  [[nodiscard]] bool is_completed();
  [[nodiscard]] nanobind::object exception();

 private:
  Group group_;  ///< empty when moved from
  Buffer buffer_;
  Work work_;  ///< the first to go
};

void bind_work(nanobind::module_& module);

}  // namespace tutti::python
