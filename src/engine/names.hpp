#pragma once

#include <string>

#include "engine/group.hpp"
#include "engine/world.hpp"

// The names of ranks and operations in error texts.
namespace tutti::engine {

/// "rank 1 (global rank 5) on node-7, pid 123".
[[nodiscard]] std::string name_of(const World& world, const Group& group, int rank);
/// "group 'world', operation 3 barrier()".
[[nodiscard]] std::string op_text(const Op& op);

}  // namespace tutti::engine
