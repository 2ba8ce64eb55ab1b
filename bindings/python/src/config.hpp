#pragma once

#include <nanobind/nanobind.h>

namespace tutti::python {

/// Config, LogLevel and set_log_sink.
void bind_config(nanobind::module_& module);

}  // namespace tutti::python
