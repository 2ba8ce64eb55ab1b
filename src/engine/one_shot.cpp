#include <cstring>

#include "engine/engine.hpp"
#include "kernels/copy.hpp"

// The steps of a one-shot reduction taken in one stride. What happens is what the interpreter would
// do with the same schedule; what is saved is looking at each step and resolving its operands, half
// of the work of the smallest operation.
namespace tutti::engine {

namespace shm = transport::shm;
using plan::Operand;
using plan::Slice;
using plan::Sources;
using plan::Space;
using plan::Step;
using plan::StepKind;

namespace {

constexpr std::uint32_t kAwait = 2;  // index of the step that waits
constexpr std::uint32_t kClaim = 4;  // ... of the one that looks for somebody's result

bool is_whole(const Operand& operand, Space space, std::int64_t slot, bool of_winner) noexcept {
  return operand.space == space && operand.slice.shape == Slice::Shape::whole &&
         operand.slot == slot && operand.of_winner == of_winner;
}

bool copies(const Step& step, const Operand& dst_like, const Operand& src_like) noexcept {
  const auto same = [](const Operand& a, const Operand& b) {
    return is_whole(a, b.space, b.slot.at(0, 0), b.of_winner);
  };
  return step.kind == StepKind::copy && same(step.dst, dst_like) && same(step.src, src_like);
}

bool adds_all(const Step& step, std::int32_t size, Space space, std::int64_t slot) noexcept {
  return step.kind == StepKind::reduce && step.sources == Sources::stages && !step.own_input &&
         step.ranks == plan::RankSet{0, size, 1} && is_whole(step.dst, space, slot, false) &&
         is_whole(step.src, Space::stage, 0, false);
}

}  // namespace

/// one_shot: copy to the stage, publish, await all others, agree, reduce all stages into the
/// output. shared: the same up to agree; if one of the others has signalled, copy its slot 1 into
/// the output, else reduce all stages into ours, signal, and copy it into the output.
Shape shape_of(const plan::Schedule& schedule, const plan::Binding& binding) noexcept {
  const auto& steps = schedule.steps;
  const std::int32_t size = schedule.size;
  const Operand input;
  Operand output;
  output.space = Space::output;
  Operand stage;
  stage.space = Space::stage;
  if (!schedule.region || schedule.messages || binding.count == 0 || steps.size() < 5 ||
      !copies(steps[0], stage, input) || steps[1].kind != StepKind::publish ||
      steps[kAwait].kind != StepKind::await_line || steps[kAwait].ranks.count != size - 1 ||
      steps[3].kind != StepKind::agree) {
    return Shape::none;
  }
  if (schedule.stage_slots == 1 && steps.size() == 5 && adds_all(steps[4], size, Space::output, 0))
    return Shape::one_shot;
  Operand result = stage;
  result.slot = 1;
  Operand of_winner = result;
  of_winner.of_winner = true;
  const auto end = static_cast<std::int32_t>(steps.size());
  if (schedule.stage_slots == 2 && schedule.slot_cycle == 0 && end == 10 &&
      steps[kClaim].kind == StepKind::claim && steps[kClaim].jump == 9 &&
      steps[kClaim].ranks == steps[kAwait].ranks && adds_all(steps[5], size, Space::stage, 1) &&
      steps[6].kind == StepKind::signal && steps[6].counter == steps[kClaim].counter &&
      steps[6].value == steps[kClaim].value && copies(steps[7], output, result) &&
      steps[8].kind == StepKind::jump && steps[8].jump == end &&
      copies(steps[9], output, of_winner)) {
    return Shape::shared;
  }
  return Shape::none;
}

bool Engine::run_one_shot(Op& op) {
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
    else if (op.stream_stage && bytes >= shm::CacheDistance::kLeastBytes)
      kernels::copy_nt(op.stage, input, bytes);
    else
      kernels::copy(op.stage, input, bytes);
    publish(op);
    op.pc = kAwait;
    moved = true;
  }
  const auto& steps = bound.schedule->steps;
  if (!await_lines(op, steps[kAwait])) return moved || op.state != Op::State::running;
  op.agreed = true;
  void* const output = op.call.output.data();
  if (bound.shape == Shape::one_shot) {
    add_all(op, output, bytes);
  } else {
    const int winner = find_winner(op, steps[kClaim]);
    const auto from = static_cast<std::size_t>(winner >= 0 ? winner : group.rank);
    const std::byte* const result = op.stage_of[from] + bound.slot_bytes;
    if (winner < 0) {
      add_all(op, op.stage + bound.slot_bytes, bytes);
      signal(op, steps[6]);
    }
    kernels::copy(output, result, bytes);
  }
  op.pc = static_cast<std::uint32_t>(steps.size());
  finish(op);
  return true;
}

void Engine::add_all(Op& op, void* to, std::size_t bytes) noexcept {
  const Group& group = *op.group;
  for (std::size_t r = 0; r < op.stage_of.size(); ++r) op.sources[r] = op.stage_of[r];
  // Our own values are still there, and perhaps not in the cache where they are staged.
  if (to != op.call.output.data() || op.call.input.data() == to)
    op.sources[static_cast<std::size_t>(group.rank)] = op.call.input.data();
  if (bytes >= shm::CacheDistance::kLeastBytes && group.size > 1) {
    const int rank = sampled_rank(op);
    observe(op, rank, op.stage_of[static_cast<std::size_t>(rank)], bytes);
  }
  op.plan->reduce(to, op.sources.data(), group.size, op.plan->binding.count);
}

}  // namespace tutti::engine
