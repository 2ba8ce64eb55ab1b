#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include <tutti/process_group.hpp>

namespace tutti::python {

/// A handle that Python objects share. Its end may send what is queued and join the progress
/// thread, so the last one lets go of the GIL meanwhile.
using Group = std::shared_ptr<ProcessGroup>;

/// Needs the GIL.
[[nodiscard]] Group share(ProcessGroup group);

void bind_group(nanobind::module_& module);

}  // namespace tutti::python
