
#include "engine/interpreter.hpp"
#include "kernels/copy.hpp"

// The steps of a one-shot reduction taken in one go. The effect is what the interpreter would
// do with the same schedule; what is saved is looking at each step and resolving its operands, half
// of the work of the smallest operation.
namespace tutti::engine {

Interpreter::Progress Interpreter::run_one_shot(Op& op) {
  namespace at = plan::one_shot_steps;
  const BoundPlan& bound = *op.plan;
  const std::size_t bytes = bound.binding.count * bound.binding.element;
  Group& group = *op.group;
  const void* const input = op.call.input.data();
  bool moved = false;
  if (op.program.pc == 0) {
    // The payload of a line is written together with its number: a peer that waits already would
    // else fetch the line in between, and it had to be fetched back.
    if (bytes <= 16 && bytes >= 8)
      kernels::copy_few(op.region.stage, input, bytes);
    else if (op.region.mode.past_cache && bytes >= StagingPolicy::kLeastBytes)
      kernels::copy_nt(op.region.stage, input, bytes);
    else
      kernels::copy(op.region.stage, input, bytes);
    regions_.publish(group, op.region);
    op.program.pc = at::kAwaitLines;
    moved = true;
  }
  const auto& steps = bound.schedule->steps;
  if (!await_lines(op, RankRow(steps[at::kAwaitLines].ranks, group.size, op.program.var)))
    return blocked(moved);
  op.program.agreed = true;
  void* const output = op.call.output.data();
  if (bound.shape == Shape::one_shot) {
    add_all(op, output, bytes);
  } else {
    const plan::Step& claim = steps[at::kClaim];
    const int winner =
        RegionChannel::find_signalled(group, op.region, claim.counter, claim.value.at(0, 0),
                                      RankRow(claim.ranks, group.size, op.program.var));
    const auto from = static_cast<std::size_t>(winner >= 0 ? winner : group.rank);
    const std::byte* const result = op.region.stage_of[from] + bound.slot_bytes;
    if (winner < 0) {
      add_all(op, op.region.stage + bound.slot_bytes, bytes);
      const plan::Step& signal = steps[at::kSignal];
      regions_.signal(group, op.region, signal.counter, signal.value.at(0, 0));
    }
    kernels::copy(output, result, bytes);
  }
  op.program.pc = static_cast<std::uint32_t>(steps.size());
  return Progress::done;
}

void Interpreter::add_all(Op& op, void* to, std::size_t bytes) noexcept {
  const Group& group = *op.group;
  for (std::size_t r = 0; r < op.region.stage_of.size(); ++r)
    op.program.sources[r] = op.region.stage_of[r];
  // Our own values are still there, and perhaps not in the cache where they are staged.
  if (to != op.call.output.data() || op.call.input.data() == to)
    op.program.sources[static_cast<std::size_t>(group.rank)] = op.call.input.data();
  if (bytes >= StagingPolicy::kLeastBytes && group.size > 1) {
    const int rank = StagingPolicy::sampled_rank(op.seq, group.rank, group.size);
    regions_.sample_stage(group, op.region, rank,
                          op.region.stage_of[static_cast<std::size_t>(rank)], bytes);
  }
  op.plan->reduce(to, op.program.sources.data(), group.size, op.plan->binding.count);
}

}  // namespace tutti::engine
