#include <algorithm>

#include <tutti/backend/kinds.hpp>

#include "engine/interpreter.hpp"
#include "kernels/copy.hpp"

// The steps of a one-shot schedule taken in one go. The effect is what the interpreter would do
// with the same schedule; what is saved is looking at each step and resolving its operands, half of
// the work of the smallest operation.
namespace tutti::engine {

using plan::Space;

Interpreter::Progress Interpreter::run_one_shot(Op& op) {
  const OneShotPlan& plan = op.plan->one_shot;
  const bool first = op.program.pc == 0;
  if (first) {
    // The payload of a line is written together with its number: a peer that waits already would
    // else fetch the line in between, and it had to be fetched back.
    for (const OneShotPlan::Copy& copy : plan.staged) copy_one(op, copy, op.region.stage);
    regions_.publish(*op.group, op.region);
    op.program.pc = plan.waits_at;
  }
  if (plan.awaited.count > 0) {
    if (!await_lines(op, plan.awaited)) return blocked(first);
    if (first && plan.follows) RegionChannel::fetch_next(*op.group, op.region, plan.awaited);
  }
  op.program.agreed = true;
  auto* const output = static_cast<std::byte*>(op.call.output.data());
  for (const OneShotPlan::Copy& copy : plan.copied) copy_one(op, copy, output);
  if (plan.claim != nullptr)
    share_sum(op);
  else if (plan.sum.count > 0)
    add_all(op, output + plan.sum.dst);
  op.program.pc = static_cast<std::uint32_t>(op.plan->schedule->steps.size());
  return Progress::done;
}

inline void Interpreter::copy_one(Op& op, const OneShotPlan::Copy& copy, std::byte* to) noexcept {
  const bool own = copy.from == OneShotPlan::Copy::kInput;
  const std::byte* const src = (own ? static_cast<const std::byte*>(op.call.input.data())
                                    : op.region.stage_of[static_cast<std::size_t>(copy.from)]) +
                               copy.src;
  if (copy.bytes <= 16 && copy.bytes >= 8)
    kernels::copy_few(to + copy.dst, src, copy.bytes);
  else
    copy_many(op, copy, to, src);
}

[[gnu::noinline]] void Interpreter::copy_many(Op& op, const OneShotPlan::Copy& copy, std::byte* to,
                                              const std::byte* src) noexcept {
  const bool own = copy.from == OneShotPlan::Copy::kInput;
  const bool staged = to == op.region.stage;
  const OneShotPlan::Sum& sum = op.plan->one_shot.sum;
  if (staged && sum.count > 0 && !sum.own_input) {
    // Inputs that each rank adds up for itself are staged past the cache from fewer bytes on.
    const bool past = op.region.mode.past_cache && copy.bytes >= StagingPolicy::kLeastBytes;
    (past ? kernels::copy_nt : kernels::copy)(to + copy.dst, src, copy.bytes);
    return;
  }
  move(op, {to + copy.dst, src, copy.bytes, staged ? Space::stage : Space::output,
            own ? Space::input : Space::stage, own ? op.group->rank : copy.from});
}

/// Copies the sum that another rank has made, or makes one for all.
void Interpreter::share_sum(Op& op) noexcept {
  Group& group = *op.group;
  const BoundPlan& bound = *op.plan;
  const OneShotPlan& plan = bound.one_shot;
  const int winner =
      RegionChannel::find_signalled(group, op.region, plan.claim->counter,
                                    plan.claim->value.at(0, 0), row_of(plan.claim->ranks, op));
  const auto from = static_cast<std::size_t>(winner >= 0 ? winner : group.rank);
  if (winner < 0) {
    if (plan.sum.count > 0) add_all(op, op.region.stage + plan.sum.dst);
    regions_.signal(group, op.region, plan.signal->counter, plan.signal->value.at(0, 0));
  }
  kernels::copy(op.call.output.data(), op.region.stage_of[from] + plan.sum.dst,
                plan.sum.count * bound.binding.element);
}

void Interpreter::add_all(Op& op, std::byte* to) noexcept {
  Group& group = *op.group;
  const BoundPlan& bound = *op.plan;
  const OneShotPlan::Sum& sum = bound.one_shot.sum;
  const std::size_t bytes = sum.count * bound.binding.element;
  // Our own values are still there, and perhaps not in the cache where they are staged.
  const bool from_input = sum.own_input || bound.one_shot.claim != nullptr ||
                          op.call.input.data() == op.call.output.data();
  for (int i = 0; i < sum.ranks.count; ++i) {
    const int rank = sum.ranks[i];
    const void*& source = op.program.sources[static_cast<std::size_t>(i)];
    if (rank == group.rank && from_input) {
      source = static_cast<const std::byte*>(op.call.input.data()) + sum.input;
      continue;
    }
    source = op.region.stage_of[static_cast<std::size_t>(rank)] + sum.src;
    if (bytes >= StagingPolicy::kLeastBytes && rank != group.rank)
      regions_.sample_stage(group, op.region, rank, source, bytes);
  }
  if (bound.average != nullptr && sum.last)
    bound.average(to, op.program.sources.data(), sum.ranks.count, sum.count,
                  traits_of(bound.kind).prefix ? sum.ranks.count : group.size);
  else
    bound.reduce(to, op.program.sources.data(), sum.ranks.count, sum.count);
}

}  // namespace tutti::engine
