#pragma once

#include <string>
#include <string_view>

#include "plan/topology.hpp"

namespace tutti::plan {

/// What `select` takes on ranks that lie so, for people: "all_reduce one_shot, slice_owner from 8
/// KiB; ...". Bytes of the whole operation, sums of float32, even blocks. Not all kinds, but those
/// that programs use most.
[[nodiscard]] std::string selection_text(const Topology& topology, int cpus,
                                         std::string_view override_text);

}  // namespace tutti::plan
