#pragma once

#include <memory>

#include <tutti/user_op.hpp>
#include <tutti/work.hpp>

#include "group/user_reduction.hpp"

namespace tutti {

class Backend;

/// Where the function of an op runs: see UserOpOptions.
struct CombiningThreads {
  Executor executor;
  Executor unattended;
};

/// Starts a reduction: the backend moves the inputs, and when they are there the reduction combines
/// them, once: in the executor, else on the thread that waits for the Work or looks at it, else
/// where the backend calls back. An exception of the op becomes the Status of the Work.
[[nodiscard]] Work submit_combining(Backend& backend, std::unique_ptr<UserReduction> reduction,
                                    CombiningThreads threads);

}  // namespace tutti
