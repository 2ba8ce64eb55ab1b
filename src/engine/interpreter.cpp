#include <algorithm>
#include <cstring>

#include <tutti/kinds.hpp>
#include "engine/elements.hpp"
#include "engine/engine.hpp"
#include "engine/names.hpp"
#include "kernels/copy.hpp"

// Runs the steps of a schedule as far as they go. The state between two calls is Op::pc and
// friends.
namespace tutti::engine {

using plan::Operand;
using plan::Range;
using plan::Space;
using plan::Step;
using plan::StepKind;

namespace {

RankRow row_of(const plan::RankSet& ranks, const Op& op) noexcept {
  return {ranks, op.group->size, op.var};
}

std::int64_t value_of(const Step& step, const Op& op) noexcept {
  return step.value.at(op.var[0], op.var[1]);
}

}  // namespace

Elements Engine::own(const Op& op, const Operand& operand, const Range& range) noexcept {
  const bool in = operand.space == Space::input;
  const std::vector<TensorView>& blocks = in ? op.inputs : op.outputs;
  const BoundPlan& bound = *op.plan;
  if (blocks.empty()) [[likely]] {
    const std::size_t first = range.first - (in ? bound.input_first : bound.output_first);
    const Pieces& pieces = in ? op.input_pieces : op.output_pieces;
    if (!pieces.empty()) [[unlikely]]
      return pieces.at(first, range.count);
    return {in ? &op.call.input : &op.call.output, nullptr, first};
  }
  const std::int64_t block = operand.slice.part.at(op.var[0], op.var[1]);
  const plan::BlockTable& table = in ? bound.binding.in : bound.binding.out;
  return {&blocks[static_cast<std::size_t>(block)], nullptr,
          range.first - table.range(block).first};
}

bool Engine::strided(const Op& op, const Operand& operand, const Range& range) noexcept {
  if (operand.space != Space::input && operand.space != Space::output) return false;
  return !own(op, operand, range).contiguous();
}

std::byte* Engine::place(Op& op, const Operand& operand, int rank,
                         const Range& range) const noexcept {
  const BoundPlan& bound = *op.plan;
  const std::size_t element = bound.binding.element;
  if (operand.space == Space::input || operand.space == Space::output)
    return own(op, operand, range).data(element);
  auto slot = static_cast<std::size_t>(operand.slot.at(op.var[0], op.var[1]));
  const std::size_t origin = plan::slot_origin(operand, bound.binding, op.var[0], op.var[1]);
  const std::byte* base = op.scratch.data();
  if (operand.space == Space::stage) {
    const auto cycle = static_cast<std::size_t>(bound.schedule->slot_cycle);
    if (cycle > 0) slot = slot / cycle * static_cast<std::size_t>(bound.cycle) + slot % cycle;
    base = op.region.stage_of[static_cast<std::size_t>(rank)];
  }
  // A peer's stage is mapped read-only: only our own is ever a destination.
  return const_cast<std::byte*>(base) + slot * bound.slot_bytes + (range.first - origin) * element;
}

bool Engine::advance(Op& op) {
  if (op.disagreeing_rank >= 0) [[unlikely]]
    return false;
  if (op.fused) return run_one_shot(op);
  bool moved = false;
  if (op.strict) [[unlikely]]
    moved = advance_tokens(op);
  if (op.plan->schedule->messages) moved |= channel_.pump(op.streams);
  const std::vector<Step>& steps = op.plan->schedule->steps;
  const auto size = static_cast<std::uint32_t>(steps.size());
  while (op.pc < size) {
    const Step& step = steps[op.pc];
    switch (step.kind) {
      case StepKind::copy:
        if (op.streams.deferred && step.dst.space == Space::output && !all_heard(op)) return moved;
        copy(op, step);
        break;
      case StepKind::publish: regions_.publish(*op.group, op.region); break;
      case StepKind::await_line:
        if (!await_lines(op, row_of(step.ranks, op))) return moved;
        break;
      case StepKind::agree:
        if ((op.strict || op.group->strict) && !all_compared(op)) return moved;
        op.agreed = true;
        break;
      case StepKind::reduce: reduce(op, step); break;
      case StepKind::signal:
        regions_.signal(*op.group, op.region, step.counter, value_of(step, op));
        break;
      case StepKind::await:
        if (!regions_.counters(*op.group, op.region, step.counter, value_of(step, op),
                               row_of(step.ranks, op), op.sub))
          return moved;
        break;
      case StepKind::claim:
        if (const int winner = RegionChannel::find_signalled(
                *op.group, op.region, step.counter, value_of(step, op), row_of(step.ranks, op));
            winner >= 0) {
          op.winner = winner;
          op.pc = static_cast<std::uint32_t>(step.jump);
          moved = true;
          continue;
        }
        break;
      case StepKind::jump:
        op.pc = static_cast<std::uint32_t>(step.jump);
        moved = true;
        continue;
      case StepKind::send: post_send(op, step); break;
      case StepKind::recv: post_receive(op, step); break;
      case StepKind::await_recv:
        if ((op.streams.deferred && !all_heard(op)) || !await_receives(op, step)) {
          channel_.grant(op.streams);
          return moved;
        }
        break;
      case StepKind::loop: {
        const std::int64_t times = plan::times_of(step.times, op.plan->binding);
        if (times <= 0) {
          op.pc = static_cast<std::uint32_t>(step.jump);
          continue;
        }
        op.var[op.depth] = 0;
        op.limit[op.depth] = times;
        op.begin[op.depth] = op.pc + 1;
        ++op.depth;
        break;
      }
      case StepKind::end_loop: {
        const int level = op.depth - 1;
        if (++op.var[level] < op.limit[level]) {
          op.pc = op.begin[level];
          continue;
        }
        op.var[level] = 0;
        --op.depth;
        break;
      }
    }
    if (op.state != Op::State::running) return true;  // a step found a disagreement
    ++op.pc;
    moved = true;
  }
  if (op.plan->schedule->messages) {
    moved |= channel_.pump(op.streams);
    if (!op.streams.all_sent()) return moved;
  }
  if (op.state == Op::State::running) finish(op);
  return true;
}

bool Engine::await_lines(Op& op, const RankRow& ranks) {
  switch (regions_.lines(*op.group, op.region, ranks, op.sub)) {
    case RegionChannel::Lines::here: return true;
    case RegionChannel::Lines::missing: break;
    case RegionChannel::Lines::differs: disagreement_in_lines(op, ranks[op.sub]); break;
    case RegionChannel::Lines::outside:
      break_group(*op.group, Status(Errc::internal, op_text(op) + ": " +
                                                        name_of(world_, *op.group, ranks[op.sub]) +
                                                        " exposes staging outside its arena"));
      break;
  }
  return false;
}

void Engine::copy(Op& op, const Step& step) noexcept {
  const BoundPlan& bound = *op.plan;
  const Range range = plan::range_of(step.src, bound.binding, op.var[0], op.var[1]);
  if (range.count == 0) return;
  // The same elements, but all_to_all numbers those of input and output apart.
  const Range to = plan::range_of(step.dst, bound.binding, op.var[0], op.var[1]);
  const int from = step.src.of_winner               ? op.winner
                   : step.src.space == Space::stage ? row_of({step.src.rank, 1, 1}, op)[0]
                                                    : op.group->rank;
  if (op.home.count == range.count && op.home.first == range.first && from == op.group->rank &&
      step.dst.space == Space::output) {
    op.home.count = 0;  // reduce_home has brought it
    return;
  }
  const std::size_t bytes = range.count * bound.binding.element;
  const bool gather = strided(op, step.src, range);
  const bool scatter = strided(op, step.dst, to);
  if (gather && scatter) {  // input to output: through a block that stays in the cache
    const Elements src = own(op, step.src, range);
    const Elements dst = own(op, step.dst, to);
    if (src.view != nullptr && dst.view != nullptr && src.view->data() == dst.view->data())
      return;  // in place: it is there already
    alignas(64) std::byte block[kBlockBytes];
    const std::size_t step_count = kBlockBytes / bound.binding.element;
    for (std::size_t at = 0; at < range.count; at += step_count) {
      const std::size_t n = std::min(step_count, range.count - at);
      src.pack(block, at, n);
      dst.unpack(at, n, block);
    }
  } else if (gather) {
    own(op, step.src, range).pack(place(op, step.dst, op.group->rank, to), 0, range.count);
  } else if (scatter) {
    own(op, step.dst, to).unpack(0, range.count, place(op, step.src, from, range));
  } else {
    std::byte* const dst = place(op, step.dst, op.group->rank, to);
    const std::byte* const src = place(op, step.src, from, range);
    if (dst == src) return;
    if (bytes >= StagingPolicy::kLargeBytes && step.dst.space == Space::stage &&
        op.region.mode.past_cache) {
      kernels::copy_nt(dst, src, bytes);
      return;
    }
    if (from != op.group->rank) regions_.sample_stage(*op.group, op.region, from, src, bytes);
    if (bytes <= 16 && bytes >= 8) {
      kernels::copy_few(dst, src, bytes);
    } else if (op.stream_out && step.dst.space == Space::output) {
      kernels::copy_nt(dst, src, bytes);
    } else if (bytes >= StagingPolicy::kLargeBytes && step.src.space == Space::input) {
      kernels::copy_in_runs(dst, src, bytes);
    } else {
      kernels::copy(dst, src, bytes);
    }
  }
}

/// Our part of a result goes to our output and to our staging in one pass. Past the cache, fetching
/// it back from there would cost as much as reading another rank's part; in it, a second reading.
void Engine::reduce_home(Op& op, std::byte* stage, int k, const Range& range) noexcept {
  const BoundPlan& bound = *op.plan;
  const std::size_t element = bound.binding.element;
  auto* const output = static_cast<std::byte*>(op.call.output.data()) + range.first * element;
  alignas(64) std::byte block[kBlockBytes];
  const std::size_t step_count = kBlockBytes / element;
  for (std::size_t at = 0; at < range.count; at += step_count) {
    const std::size_t n = std::min(step_count, range.count - at);
    std::byte* const to = op.stream_out ? block : output + at * element;
    bound.reduce(to, op.sources.data(), k, n);
    (op.region.mode.past_cache ? kernels::stream : kernels::copy)(stage + at * element, to,
                                                                  n * element);
    if (op.stream_out) kernels::stream(output + at * element, block, n * element);
    for (int i = 0; i < k; ++i) {
      const auto index = static_cast<std::size_t>(i);
      op.sources[index] = static_cast<const std::byte*>(op.sources[index]) + n * element;
    }
  }
  kernels::stream_fence();
  op.home = range;
}

void Engine::reduce(Op& op, const Step& step) noexcept {
  const BoundPlan& bound = *op.plan;
  const Range range = plan::range_of(step.dst, bound.binding, op.var[0], op.var[1]);
  if (range.count == 0) return;
  Group& group = *op.group;
  const RankRow ranks = row_of(step.ranks, op);
  const int k = ranks.count;
  int strided_source = -1;
  Operand own_source = step.src;
  own_source.space = Space::input;
  for (int i = 0; i < k; ++i) {
    const int rank = ranks[i];
    if (step.own_input && rank == group.rank) {
      if (strided(op, own_source, range))
        strided_source = i;  // comes through a temporary
      else
        op.sources[static_cast<std::size_t>(i)] = place(op, own_source, rank, range);
      continue;
    }
    Operand source = step.src;
    if (step.sources == plan::Sources::slots) source.slot.base += i;
    op.sources[static_cast<std::size_t>(i)] = place(op, source, rank, range);
  }
  const bool average = bound.average != nullptr && step.last;
  const auto combine = [&](void* dst, std::size_t count, bool past_cache) {
    if (average)
      bound.average(dst, op.sources.data(), k, count,
                    traits_of(bound.kind).prefix ? k : group.size);
    else
      (past_cache ? bound.reduce_past : bound.reduce)(dst, op.sources.data(), k, count);
  };
  const bool scatter = strided(op, step.dst, range);
  if (strided_source < 0 && !scatter) [[likely]] {
    std::byte* const dst = place(op, step.dst, group.rank, range);
    const std::size_t bytes = range.count * bound.binding.element;
    if (step.sources == plan::Sources::stages && bytes >= StagingPolicy::kLeastBytes) {
      for (int i = 0; i < k; ++i) {
        const void* const staged = op.sources[static_cast<std::size_t>(i)];
        if (ranks[i] != group.rank)
          regions_.sample_stage(group, op.region, ranks[i], staged, bytes);
      }
    }
    // Only what is complete: a partial sum in the output would be taken for the result. And not two
    // kinds of stores at once (16 MiB: 3.8 ms instead of 3.2).
    const bool home = step.last && op.agreed && !average && bound.kind == Kind::all_reduce &&
                      step.dst.space == Space::stage && bytes >= StagingPolicy::kLargeBytes &&
                      op.call.output.contiguous() && op.output_pieces.empty() &&
                      (op.region.mode.past_cache || !op.stream_out);
    if (home)
      reduce_home(op, dst, k, range);
    else
      combine(dst, range.count,
              op.region.mode.past_cache && step.dst.space == Space::stage &&
                  bytes >= StagingPolicy::kLargeBytes);
    return;
  }
  // Views with strides, several tensors: block by block through temporaries.
  alignas(64) std::byte in[kBlockBytes];
  alignas(64) std::byte out[kBlockBytes];
  const std::size_t element = bound.binding.element;
  const std::size_t step_count = kBlockBytes / element;
  const Elements from = strided_source < 0 ? Elements{} : own(op, own_source, range);
  const Elements to = scatter ? own(op, step.dst, range) : Elements{};
  for (std::size_t at = 0; at < range.count; at += step_count) {
    const std::size_t n = std::min(step_count, range.count - at);
    if (strided_source >= 0) {
      from.pack(in, at, n);
      op.sources[static_cast<std::size_t>(strided_source)] = in;
    }
    const Range now{range.first + at, n};
    combine(scatter ? out : place(op, step.dst, group.rank, now), n, false);
    if (scatter) to.unpack(at, n, out);
    for (int i = 0; i < k; ++i) {
      if (i == strided_source) continue;
      const auto index = static_cast<std::size_t>(i);
      op.sources[index] = static_cast<const std::byte*>(op.sources[index]) + n * element;
    }
  }
}

}  // namespace tutti::engine
