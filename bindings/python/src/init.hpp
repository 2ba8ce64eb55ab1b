#pragma once

#include <nanobind/nanobind.h>

namespace tutti::python {

/// init_process_group, is_initialized, job_secret.
void bind_init(nanobind::module_& module);

}  // namespace tutti::python
