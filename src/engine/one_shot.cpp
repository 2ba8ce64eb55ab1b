#include <cstring>

#include "engine/engine.hpp"
#include "kernels/copy.hpp"

// The steps of a one-shot reduction taken in one stride. What happens is what the interpreter would
// do with the same schedule; what is saved is looking at each step and resolving its operands, half
// of the work of the smallest operation.
namespace tutti::engine {

namespace shm = transport::shm;
using plan::Slice;
using plan::Space;
using plan::Step;
using plan::StepKind;

namespace {

constexpr std::uint32_t kAwait = 2;  // index of the step that waits

bool is_whole(const plan::Operand& operand, Space space) noexcept {
  return operand.space == space && operand.slice.shape == Slice::Shape::whole &&
         operand.slot == plan::constant(0) && !operand.of_winner;
}

}  // namespace

/// copy to the stage, publish, await all others, agree, reduce all stages into the output.
bool is_one_shot(const plan::Schedule& schedule, const plan::Binding& binding) noexcept {
  const auto& steps = schedule.steps;
  const std::int32_t size = schedule.size;
  return schedule.region && !schedule.messages && schedule.stage_slots == 1 && steps.size() == 5 &&
         binding.count > 0 && steps[0].kind == StepKind::copy &&
         is_whole(steps[0].dst, Space::stage) && is_whole(steps[0].src, Space::input) &&
         steps[1].kind == StepKind::publish && steps[kAwait].kind == StepKind::await_line &&
         steps[kAwait].ranks.count == size - 1 && steps[3].kind == StepKind::agree &&
         steps[4].kind == StepKind::reduce && steps[4].sources == plan::Sources::stages &&
         !steps[4].own_input && steps[4].ranks == plan::RankSet{plan::constant(0), size, 1} &&
         is_whole(steps[4].dst, Space::output) && is_whole(steps[4].src, Space::stage);
}

bool Engine::advance_one_shot(Op& op) noexcept {
  const BoundPlan& bound = *op.plan;
  const std::size_t bytes = bound.binding.count * bound.binding.element;
  Group& group = *op.group;
  const void* const input = op.call.input.data();
  bool moved = false;
  if (op.pc == 0) {
    // The payload of a line is written together with its number: a peer that waits already would
    // else fetch the line in between, and it had to be fetched back.
    if (bytes <= 16 && bytes >= 8)
      kernels::copy_few(op.stage, input, bytes);
    else if (op.stream_stage && bytes >= shm::Cores::kLeastBytes)
      kernels::copy_nt(op.stage, input, bytes);
    else
      kernels::copy(op.stage, input, bytes);
    publish(op);
    op.pc = kAwait;
    moved = true;
  }
  if (!await_lines(op, bound.schedule->steps[kAwait]))
    return moved || op.state != Op::State::running;
  op.agreed = true;
  for (std::size_t r = 0; r < op.stage_of.size(); ++r) op.sources[r] = op.stage_of[r];
  void* const output = op.call.output.data();
  // In place our own values are still there, and perhaps not in the cache where they are staged.
  if (input == output) op.sources[static_cast<std::size_t>(group.rank)] = input;
  if (bytes >= shm::Cores::kLeastBytes && group.size > 1) {
    const int rank = sampled_rank(op);
    observe(op, rank, op.stage_of[static_cast<std::size_t>(rank)], bytes);
  }
  bound.reduce(output, op.sources.data(), group.size, bound.binding.count);
  op.pc = 5;
  finish(op);
  return true;
}

}  // namespace tutti::engine
