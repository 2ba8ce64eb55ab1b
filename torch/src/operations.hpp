#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <tutti/kinds.hpp>

// The table of c10d's operations. All else that the plug-in has to know of one, such as whether
// its elements are combined or only moved, stands in the row of its kind.
namespace tutti::torch_plugin {

using c10d::OpType;

/// An operation, as c10d is told of it when it starts.
struct Operation {
  OpType type = OpType::UNKNOWN;
  const char* title = nullptr;  ///< for the profiler
  std::vector<at::Tensor> inputs = {};
  std::vector<at::Tensor> outputs = {};  ///< the result, and the value of the future
};

/// An operation of torch.distributed and the kind of operation that runs it.
struct TorchOperation {
  Kind kind;
  OpType type;
  const char* name;   ///< torch's, for errors
  const char* title;  ///< for the profiler

  /// Elements are combined, so their dtype must have arithmetic.
  [[nodiscard]] constexpr bool reduces() const noexcept { return traits_of(kind).reduces; }
  /// A call of it with these tensors.
  [[nodiscard]] Operation on(std::vector<at::Tensor> inputs = {},
                             std::vector<at::Tensor> outputs = {}) const {
    return {type, title, std::move(inputs), std::move(outputs)};
  }
};

inline constexpr TorchOperation kTorchOperations[] = {
    {Kind::barrier, OpType::BARRIER, "barrier", "tutti:barrier"},
    {Kind::broadcast, OpType::BROADCAST, "broadcast", "tutti:broadcast"},
    {Kind::all_reduce, OpType::ALLREDUCE, "all_reduce", "tutti:all_reduce"},
    {Kind::all_reduce, OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", "tutti:all_reduce"},
    {Kind::reduce, OpType::REDUCE, "reduce", "tutti:reduce"},
    {Kind::all_gather, OpType::ALLGATHER, "all_gather", "tutti:all_gather"},
    {Kind::all_gather, OpType::_ALLGATHER_BASE, "all_gather_into_tensor", "tutti:_all_gather_base"},
    {Kind::all_gather, OpType::ALLGATHER_COALESCED, "all_gather_coalesced", "tutti:all_gather"},
    {Kind::all_gather, OpType::ALLGATHER_COALESCED, "all_gather_into_tensor_coalesced",
     "tutti:all_gather"},
    {Kind::gather, OpType::GATHER, "gather", "tutti:gather"},
    {Kind::gather, OpType::GATHER, "gather_single", "tutti:gather_single"},
    {Kind::scatter, OpType::SCATTER, "scatter", "tutti:scatter"},
    {Kind::reduce_scatter, OpType::REDUCE_SCATTER, "reduce_scatter", "tutti:reduce_scatter"},
    {Kind::reduce_scatter, OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor",
     "tutti:_reduce_scatter_base"},
    {Kind::reduce_scatter, OpType::REDUCE_SCATTER_TENSOR_COALESCED,
     "reduce_scatter_tensor_coalesced", "tutti:reduce_scatter"},
    {Kind::all_to_all, OpType::ALLTOALL, "all_to_all", "tutti:all_to_all"},
    {Kind::all_to_all, OpType::ALLTOALL_BASE, "all_to_all_single", "tutti:all_to_all"},
    {Kind::send, OpType::SEND, "send", "tutti:send"},
    {Kind::recv, OpType::RECV, "recv", "tutti:recv"},
    {Kind::recv, OpType::RECVANYSOURCE, "recv from any source", "tutti:recvAnySource"},
};

/// An all_reduce of sparse tensors moves their values and indices by all_gathers.
inline constexpr TorchOperation kSparseAllReduce = {Kind::all_gather, OpType::_ALLREDUCE_SPARSE,
                                                    "all_reduce", "tutti:all_reduce"};

/// Kinds that c10d::Backend has no operation for; ProcessGroupTutti::split makes new groups.
inline constexpr Kind kNotInTorch[] = {Kind::new_group, Kind::scan, Kind::exclusive_scan};

/// The row with torch's name for it. Any other name does not compile.
consteval TorchOperation torch_operation(std::string_view name) {
  return *std::ranges::find(kTorchOperations, name,
                            [](const TorchOperation& each) { return std::string_view(each.name); });
}

/// Each kind is here, or known to be no operation of c10d.
consteval bool all_kinds_are_known() {
  for (int k = 0; k < kKindCount; ++k) {
    if (kKindTraits[k].name == "unused") continue;
    const auto kind = static_cast<Kind>(k);
    const auto rows = std::ranges::count(kTorchOperations, kind, &TorchOperation::kind);
    if ((rows > 0) == (std::ranges::count(kNotInTorch, kind) > 0)) return false;
  }
  return true;
}
static_assert(all_kinds_are_known(), "a kind has no row in kTorchOperations");

}  // namespace tutti::torch_plugin
