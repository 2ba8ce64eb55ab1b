#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include <tutti/collective.hpp>

#include "engine/call_code.hpp"
#include "kernels/reduce.hpp"
#include "plan/schedule.hpp"
#include "plan/topology.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::engine {

/// What the next call with the same signature needs: bound once, found by a compare.
struct BoundPlan {
  // The signature.
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::uint8;
  int root = 0;
  std::size_t count = 0;
  std::uint64_t digest = 0;
  // What follows from it.
  const plan::Schedule* schedule = nullptr;  ///< nullptr: this entry is empty
  kernels::ReduceFn reduce = nullptr;
  kernels::ReduceFn reduce_past = nullptr;  ///< the same, past the cache
  plan::Binding binding;
  std::size_t slot_bytes = 0;
  std::int32_t cycle = 0;       ///< slots that are really cycled (see Schedule::slot_cycle)
  std::size_t stage_bytes = 0;  ///< of each rank that stages; 0: none, or it fits into the line
  std::size_t scratch_bytes = 0;
  bool inline_stage = false;  ///< what is staged fits into the line
  bool own_stage = false;     ///< this rank stages something itself
  bool stream_out = false;    ///< copies to the output go around the cache
  CallCode code{};

  [[nodiscard]] bool matches(const Collective& call) const noexcept {
    return schedule != nullptr && kind == call.kind && count == call.input.count() &&
           op == call.op && dtype == call.input.dtype() && root == call.root &&
           digest == call.digest;
  }
};

/// The plans of one group. Pure: what it chooses depends on agreed data alone (decisions B2).
class PlanCache {
 public:
  PlanCache(int rank, plan::Topology topology, int cpus, std::string override_text);

  /// The plan for this call. It stays as it is until kEntries - 1 other signatures have come:
  /// longer than any operation of the window can last.
  const BoundPlan& find(const Collective& call) {
    if (last_->matches(call)) [[likely]]
      return *last_;
    return find_slow(call);
  }
  [[nodiscard]] const plan::Topology& topology() const noexcept { return topology_; }

 private:
  const BoundPlan& find_slow(const Collective& call);
  const plan::Schedule& schedule_of(const Collective& call);

  static constexpr int kEntries = 16;
  static_assert(kEntries > transport::shm::kWindow);
  int rank_;
  plan::Topology topology_;
  int cpus_;
  std::string override_;
  BoundPlan entries_[kEntries];
  BoundPlan* last_ = &entries_[0];
  std::uint64_t used_[kEntries] = {};  ///< when an entry became the last one used
  std::uint64_t clock_ = 0;
  using Key = std::tuple<std::string_view, int, std::size_t>;  ///< algorithm, root, chunk
  std::map<Key, std::unique_ptr<plan::Schedule>> schedules_;
};

}  // namespace tutti::engine
