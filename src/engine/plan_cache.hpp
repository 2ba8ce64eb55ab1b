#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <tutti/collective.hpp>

#include "engine/call_code.hpp"
#include "engine/extent.hpp"
#include "kernels/reduce.hpp"
#include "plan/schedule.hpp"
#include "plan/topology.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::engine {

/// Small reductions whose steps are taken in one go (one_shot.cpp).
using Shape = plan::Schedule::Shape;

/// A plan for the next calls with the same signature: bound once, found by a compare.
struct BoundPlan {
  // The signature.
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::uint8;
  int root = 0;
  std::uint64_t agreed = 0;  ///< see Extent
  std::uint64_t digest = 0;
  bool by_output = false;            ///< the output tells the number of elements, not the input
  std::vector<std::size_t> in_ends;  ///< of uneven blocks
  std::vector<std::size_t> out_ends;
  // Derived from it.
  const plan::Schedule* schedule = nullptr;  ///< nullptr: this entry is empty
  kernels::ReduceFn reduce = nullptr;
  kernels::ReduceFn reduce_past = nullptr;  ///< the same, with non-temporal stores
  kernels::AverageFn average = nullptr;     ///< AVG: for the step that completes the sum
  plan::Binding binding;
  std::size_t slot_bytes = 0;
  std::int32_t cycle = 0;       ///< slots that are really cycled (see Schedule::slot_cycle)
  std::size_t stage_bytes = 0;  ///< of each rank that stages; 0: none, or it fits into the line
  std::size_t scratch_bytes = 0;
  bool inline_stage = false;  ///< what is staged fits into the line
  bool own_stage = false;     ///< this rank stages something itself
  Shape shape = Shape::none;
  bool stream_out = false;  ///< copies to the output go around the cache
  bool splits = false;      ///< each pair of ranks has its own number of elements
  bool compares_all_headers =
      false;  ///< every block comes by message right from its rank into the output
  bool forwards_output = false;  ///< ... or by way of others' outputs: tokens go round first
  std::size_t input_first = 0;   ///< number of the first element of this rank's input ...
  std::size_t output_first = 0;  ///< ... and output
  CallCode code{};

  /// Of calls without details.
  [[nodiscard]] bool matches(const Collective& call) const noexcept {
    const TensorView& view = by_output ? call.output : call.input;
    return kind == call.kind && plain_count == view.count() && op == call.op &&
           dtype == view.dtype() && root == call.root && digest == call.digest &&
           schedule != nullptr;
  }
  std::size_t plain_count = 0;  ///< elements of that view; kNoPlain: only calls with details
  static constexpr std::size_t kNoPlain = ~std::size_t{0};
};

/// The plans of one group. It chooses by what all ranks agree about, and by nothing else.
class PlanCache {
 public:
  PlanCache(int rank, plan::Topology topology, int cpus, std::string override_text);

  /// The plan for this call. It stays as it is until kEntries - 1 other signatures have come:
  /// longer than any operation of the window can last.
  const BoundPlan& find(const Collective& call) {
    if (call.details == nullptr && last_->matches(call)) [[likely]]
      return *last_;
    return find_slow(call);
  }
  [[nodiscard]] const plan::Topology& topology() const noexcept { return topology_; }

 private:
  const BoundPlan& find_slow(const Collective& call);
  const plan::Schedule& schedule_of(const Collective& call, const Extent& extent);
  BoundPlan& entry_to_fill();

  static constexpr int kEntries = 16;
  static_assert(kEntries > transport::shm::kWindow);
  int rank_;
  plan::Topology topology_;
  std::size_t neighbours_;  ///< ranks of the group on our host, ourselves too
  int cpus_;
  std::string override_;
  BoundPlan entries_[kEntries];
  BoundPlan* last_ = &entries_[0];
  std::uint64_t used_[kEntries] = {};  ///< when an entry became the last one used
  std::uint64_t clock_ = 0;
  using Key = std::tuple<Kind, std::string_view, int, std::size_t>;  ///< algorithm, root, chunk
  std::map<Key, std::unique_ptr<plan::Schedule>> schedules_;
};

}  // namespace tutti::engine
