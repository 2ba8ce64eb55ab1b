#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include <tutti/process_group.hpp>

namespace tutti::python {

/// A handle that Python objects share. Its end may send what is queued and join the progress
/// thread, so the last one lets go of the GIL meanwhile.
using Group = std::shared_ptr<ProcessGroup>;

/// Any thread.
[[nodiscard]] Group share(ProcessGroup group);

/// The object behind Python's ProcessGroup.
struct GroupHandle {
  Group group;  ///< null: closed

  /// A reference of the caller's own, since another thread may close this one. Throws
  /// InvalidArgument if it is closed.
  [[nodiscard]] Group open() const;
};

void bind_group(nanobind::module_& module);
/// Adds the operations to the class.
void bind_collectives(nanobind::class_<GroupHandle>& group);
void bind_transfers(nanobind::class_<GroupHandle>& group);

}  // namespace tutti::python
