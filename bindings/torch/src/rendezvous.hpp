#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <tutti/process_group.hpp>

namespace tutti::torch_plugin {

/// Makes the group of the ranks that share this part of torch's store, on that backend of tutti's.
/// The store is used during the call only. Blocks until all have come, at most for the timeout.
/// Throws torch's exceptions.
[[nodiscard]] ProcessGroup meet(const c10d::DistributedBackendOptions& options,
                                const std::string& backend);

}  // namespace tutti::torch_plugin
