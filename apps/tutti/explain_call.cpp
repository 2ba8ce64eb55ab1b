#include "apps/tutti/explain_call.hpp"

#include <cstdint>
#include <utility>

#include <tutti/tensor.hpp>

#include "call/extent.hpp"
#include "kernels/unsupported.hpp"

namespace tutti::cli::explain {

plan::Topology topology_of(const Question& q) {
  std::vector<int> hosts;
  for (int rank = 0; rank < q.ranks; ++rank)
    hosts.push_back(q.apart ? rank : static_cast<int>(std::int64_t{rank} * q.hosts / q.ranks));
  return plan::make_topology(std::move(hosts));
}

Collective call_of(const Question& q) {
  Collective call;
  call.kind = q.kind;
  call.root = traits_of(q.kind).rooted ? q.root : 0;
  const Layout layout = traits_of(q.kind).layout;
  if (layout == Layout::none) return call;
  const std::size_t one = q.bytes / size_of(q.dtype);
  const std::size_t all = one * static_cast<std::size_t>(q.ranks);
  const bool many_in = layout == Layout::scatter || layout == Layout::exchange;
  const bool many_out = layout == Layout::gather || layout == Layout::exchange;
  call.input = TensorView(nullptr, q.dtype, many_in ? all : one);
  call.output = TensorView(nullptr, q.dtype, many_out ? all : one);
  return call;
}

std::string refusal_of(const Question& q) {
  return has_data(q.kind) ? kernels::why_unsupported(call_of(q), "native") : std::string();
}

Plans::Plans(const Question& q) {
  const plan::Topology topology = topology_of(q);
  for (int rank = 0; rank < q.ranks; ++rank) {
    caches_.push_back(std::make_unique<engine::PlanCache>(rank, topology, q.cpus, q.algorithms));
    plans_.push_back(&caches_.back()->find(call_of(q)));
  }
}

Explanation explain(const Question& question, std::span<const engine::BoundPlan* const> plans) {
  const Collective call = call_of(question);
  plan::Topology topology = topology_of(question);
  plan::Query query = engine::selection_query(call, call::extent_of(call, 0, question.ranks),
                                              question.cpus, question.algorithms);
  const plan::Choice choice = plan::select(query, topology);
  query.override_text = {};  // belongs to the caller
  return {question, std::move(topology), query, choice, plans, flow_of(plans)};
}

}  // namespace tutti::cli::explain
