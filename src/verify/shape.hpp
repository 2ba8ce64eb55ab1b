#pragma once

#include <vector>

#include "verify/prover.hpp"

namespace tutti::verify::proof {

/// Are the steps those of the shape that the schedule declares?
[[nodiscard]] std::vector<Finding> check_shape(const Schedule& schedule);

}  // namespace tutti::verify::proof
