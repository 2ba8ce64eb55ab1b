#pragma once

#include <chrono>

#include <tutti/process_group.hpp>

namespace tutti::jax {

/// Python's answers about this process when jaxlib begins.
struct Place {
  int rank = 0;
  int size = 1;
  double split_seconds = 30;
  [[nodiscard]] std::chrono::duration<double> split_timeout() const {
    return std::chrono::duration<double>(split_seconds);
  }
};

/// Makes the world of all processes of the JAX job, which find each other by JAX's coordination
/// service: functions of Python ask it. `limit` is for all of that.
///
/// Errors: those of init_process_group; InvalidArgument with Python's text where Python refuses.
[[nodiscard]] ProcessGroup make_world(std::chrono::nanoseconds limit, Place& place);

}  // namespace tutti::jax
