#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/collective.hpp>
#include <tutti/dtype.hpp>

#include "apps/tutti/explain_flow.hpp"
#include "engine/plan_cache.hpp"
#include "plan/select.hpp"
#include "plan/topology.hpp"

namespace tutti::cli::explain {

/// The call that is explained, and the ranks that make it.
struct Question {
  Kind kind = Kind::all_reduce;
  int ranks = 1;
  int hosts = 1;
  DType dtype = DType::float32;
  /// Of a rank's tensor; of operations of blocks: of one block, as `tutti bench` counts.
  std::size_t bytes = 0;
  int root = 0;
  int cpus = 1;                 ///< of a host
  std::string algorithms = {};  ///< TUTTI_ALGO
  /// TUTTI_TRANSPORT=tcp: no rank shares memory with another one.
  bool apart = false;
};

/// Ranks on hosts as they are divided evenly; if that is not possible, the first hosts have one
/// more.
[[nodiscard]] plan::Topology topology_of(const Question& question);
/// The call, the same on all ranks: its tensors have sizes, but no memory.
[[nodiscard]] Collective call_of(const Question& question);
/// Why there is no such call; empty: there is.
[[nodiscard]] std::string refusal_of(const Question& question);

/// The plans by which a group runs the call: what the engine of each rank finds in its cache.
class Plans {
 public:
  explicit Plans(const Question& question);
  [[nodiscard]] std::span<const engine::BoundPlan* const> all() const noexcept { return plans_; }

 private:
  std::vector<std::unique_ptr<engine::PlanCache>> caches_;
  std::vector<const engine::BoundPlan*> plans_;
};

/// All that a page or a text says.
struct Explanation {
  Question question;
  plan::Topology topology;
  plan::Query query;
  plan::Choice choice;
  std::span<const engine::BoundPlan* const> plans;
  Flow flow;
  [[nodiscard]] const plan::Schedule& schedule() const { return *plans.front()->schedule; }
};
/// `plans`, of all ranks, must live as long as the result.
[[nodiscard]] Explanation explain(const Question& question,
                                  std::span<const engine::BoundPlan* const> plans);

}  // namespace tutti::cli::explain
