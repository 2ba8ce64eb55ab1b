#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <tutti/arguments.hpp>
#include <tutti/backend/collective.hpp>

#include "call/call_code.hpp"
#include "call/extent.hpp"
#include "engine/one_shot_plan.hpp"
#include "kernels/reduce.hpp"
#include "plan/schedule.hpp"
#include "plan/select.hpp"
#include "plan/topology.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::engine {

/// A plan for the next calls with the same signature: bound once, found by a compare.
struct BoundPlan {
  // The signature.
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::uint8;
  int root = 0;
  std::uint64_t agreed = 0;  ///< see call::Extent
  std::uint64_t digest = 0;
  bool by_output = false;            ///< plain_count is that of the output and not of the input
  std::vector<std::size_t> in_ends;  ///< of uneven blocks
  std::vector<std::size_t> out_ends;
  // Derived from it.
  const plan::Schedule* schedule = nullptr;  ///< nullptr: this entry is empty
  kernels::ReduceFn reduce = nullptr;
  kernels::ReduceFn reduce_past = nullptr;  ///< the same, with non-temporal stores
  kernels::AverageFn average = nullptr;     ///< AVG: for the step that completes the sum
  plan::Binding binding;
  std::size_t slot_bytes = 0;
  /// Slots that this call cycles through (plan::cycle_of). A schedule with slot_cycle 4 and 8 slots
  /// of stage gives a call of 2 chunks a cycle of 2, and 4 slots.
  std::int32_t cycle = 0;
  std::size_t stage_bytes = 0;  ///< of each rank that stages; 0: none, or it fits into the line
  std::size_t scratch_bytes = 0;
  bool inline_stage = false;  ///< what is staged fits into the line
  bool own_stage = false;     ///< this rank stages something itself
  /// Inputs alone are staged, so others may read them where they lie.
  bool stages_inputs = false;
  bool only_receives = false;  ///< the root has the only input, and is another rank
  /// At most so many operations of the group are under way when it begins. If that is more than
  /// kWindow, a rank that need not wait for others may be far ahead of them.
  int window = transport::shm::kWindow;
  OneShotPlan one_shot;
  bool output_past_cache = false;  ///< copies to the output use non-temporal stores
  bool splits = false;             ///< each pair of ranks has its own number of elements
  /// Each block comes by message directly from its rank into the output. So a frame of every rank
  /// must be compared before the output is written (StreamState::deferred).
  bool compares_all_headers = false;
  /// Blocks come by way of other ranks' outputs. So tokens are sent first (Agreement).
  bool forwards_output = false;
  std::size_t input_first = 0;   ///< number of the first element of this rank's input
  std::size_t output_first = 0;  ///< number of the first element of this rank's output
  call::CallCode code{};

  /// For calls without details only.
  [[nodiscard]] bool matches(const Collective& call) const noexcept {
    const TensorView& view = by_output ? call.output : call.input;
    return kind == call.kind && plain_count == view.count() && op == call.op &&
           dtype == view.dtype() && root == call.root && digest == call.digest &&
           schedule != nullptr;
  }
  std::size_t plain_count = 0;  ///< elements of that view; kNoPlain: only calls with details
  static constexpr std::size_t kNoPlain = ~std::size_t{0};
};

/// The question of a call to plan::select.
[[nodiscard]] plan::Query selection_query(const Collective& call, const call::Extent& extent,
                                          int cpus, std::string_view override_text);

/// The plans of one group. The choice depends only on data that all ranks agree about.
class PlanCache {
 public:
  PlanCache(int rank, plan::Topology topology, int cpus, std::string override_text);

  /// The plan for this call. It stays as it is until kEntries - 1 other signatures have come. An
  /// operation in flight may keep the reference: before it ends, at most kWindow - 1 later
  /// operations begin and one waits, each with one signature, and kWindow < kEntries - 1.
  const BoundPlan& find(const Collective& call) {
    if (call.details == nullptr && last_->matches(call)) [[likely]]
      return *last_;
    return find_slow(call);
  }
  [[nodiscard]] const plan::Topology& topology() const noexcept { return topology_; }

 private:
  const BoundPlan& find_slow(const Collective& call);
  const plan::Schedule& schedule_of(const Collective& call, const call::Extent& extent);
  BoundPlan& entry_to_fill();

  static constexpr int kEntries = 16;
  static_assert(kEntries - 1 > transport::shm::kWindow);
  int rank_;
  plan::Topology topology_;
  std::size_t neighbours_;  ///< ranks of the group on our host, including ourselves
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
