#include <algorithm>

#include <tutti/backend/kinds.hpp>

#include "engine/elements.hpp"
#include "engine/interpreter.hpp"
#include "kernels/copy.hpp"

// Steps that move or add up elements: where these lie, and how they are stored.
namespace tutti::engine {

using plan::Operand;
using plan::Range;
using plan::Space;
using plan::Step;

namespace {

/// Where in the caller's memory the elements of an operand of space input or output lie.
Elements own(const Op& op, const Operand& operand, const Range& range) noexcept {
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
  const std::int64_t block = operand.slice.part.at(op.program.var[0], op.program.var[1]);
  const plan::BlockTable& table = in ? bound.binding.in : bound.binding.out;
  return {&blocks[static_cast<std::size_t>(block)], nullptr,
          range.first - table.range(block).first};
}

bool strided(const Op& op, const Operand& operand, const Range& range) noexcept {
  if (operand.space != Space::input && operand.space != Space::output) return false;
  return !own(op, operand, range).contiguous();
}

std::byte* place(Op& op, const Operand& operand, int rank, const Range& range) noexcept {
  const BoundPlan& bound = *op.plan;
  const std::size_t element = bound.binding.element;
  if (operand.space == Space::input || operand.space == Space::output)
    return own(op, operand, range).data(element);
  auto slot = static_cast<std::size_t>(operand.slot.at(op.program.var[0], op.program.var[1]));
  const std::size_t origin =
      plan::slot_origin(operand, bound.binding, op.program.var[0], op.program.var[1]);
  const std::byte* base = op.program.scratch.data();
  if (operand.space == Space::stage) {
    const auto cycle = static_cast<std::size_t>(bound.schedule->slot_cycle);
    if (cycle > 0) slot = slot / cycle * static_cast<std::size_t>(bound.cycle) + slot % cycle;
    base = op.region.stage_of[static_cast<std::size_t>(rank)];
    if (op.region.lends || op.region.borrows) [[unlikely]] {
      if (const std::byte* const input = op.region.input_of(rank))
        return const_cast<std::byte*>(input) + range.first * element;
    }
  }
  // A peer's stage is mapped read-only: only our own is ever a destination.
  return const_cast<std::byte*>(base) + slot * bound.slot_bytes + (range.first - origin) * element;
}

/// Reduces our part of the result into our staging and into our output in one pass. The copy step
/// that would bring it to the output later is then skipped (ProgramState::home). That saves reading
/// our staging again: from memory if it was written past the cache, else from the cache.
void reduce_home(Op& op, std::byte* stage, int k, const Range& range) noexcept {
  const BoundPlan& bound = *op.plan;
  const std::size_t element = bound.binding.element;
  auto* const output = static_cast<std::byte*>(op.call.output.data()) + range.first * element;
  alignas(64) std::byte block[kBlockBytes];
  const std::size_t step_count = kBlockBytes / element;
  for (std::size_t at = 0; at < range.count; at += step_count) {
    const std::size_t n = std::min(step_count, range.count - at);
    std::byte* const to = op.program.out_past_cache ? block : output + at * element;
    bound.reduce(to, op.program.sources.data(), k, n);
    (op.region.mode.past_cache ? kernels::stream : kernels::copy)(stage + at * element, to,
                                                                  n * element);
    if (op.program.out_past_cache) kernels::stream(output + at * element, block, n * element);
    for (int i = 0; i < k; ++i) {
      const auto index = static_cast<std::size_t>(i);
      op.program.sources[index] =
          static_cast<const std::byte*>(op.program.sources[index]) + n * element;
    }
  }
  kernels::stream_fence();
  op.program.home = range;
}

}  // namespace

/// The bytes of a message: contiguous memory, or elements of views with strides.
Stream::Post Interpreter::post_of(Op& op, const Operand& operand, const Range& range) noexcept {
  Stream::Post post;
  if (range.count == 0) return post;
  if (strided(op, operand, range))
    post.elements = own(op, operand, range);
  else
    post.data = place(op, operand, op.group->rank, range);
  return post;
}

void Interpreter::copy(Op& op, const Step& step) noexcept {
  const BoundPlan& bound = *op.plan;
  const Range range = plan::range_of(step.src, bound.binding, op.program.var[0], op.program.var[1]);
  if (range.count == 0) return;
  // The same elements, but all_to_all numbers those of input and output apart.
  const Range to = plan::range_of(step.dst, bound.binding, op.program.var[0], op.program.var[1]);
  const int from = step.src.of_winner               ? op.program.winner
                   : step.src.space == Space::stage ? row_of({step.src.rank, 1, 1}, op)[0]
                                                    : op.group->rank;
  if (op.program.home.count == range.count && op.program.home.first == range.first &&
      from == op.group->rank && step.dst.space == Space::output) {
    op.program.home.count = 0;  // reduce_home has written it
    return;
  }
  const std::size_t bytes = range.count * bound.binding.element;
  const bool gather = strided(op, step.src, range);
  const bool scatter = strided(op, step.dst, to);
  if (gather && scatter) {  // input to output: through a block that stays in the cache
    const Elements src = own(op, step.src, range);
    const Elements dst = own(op, step.dst, to);
    if (src.view != nullptr && dst.view != nullptr && src.view->data() == dst.view->data())
      return;  // in place: overlap.hpp lets memory be shared only by the same elements
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
    move(op, {place(op, step.dst, op.group->rank, to), place(op, step.src, from, range), bytes,
              step.dst.space, step.src.space, from});
  }
}

void Interpreter::move(Op& op, const Move& m) noexcept {
  if (m.dst == m.src) return;
  if (m.bytes >= StagingPolicy::kLargeBytes && m.into == Space::stage &&
      op.region.mode.past_cache) {
    kernels::copy_nt(m.dst, m.src, m.bytes);
    return;
  }
  // An input that was not staged may be in no cache, which says nothing about those of its rank.
  if (m.from != op.group->rank && !op.region.borrows)
    regions_.sample_stage(*op.group, op.region, m.from, m.src, m.bytes);
  if (m.bytes <= 16 && m.bytes >= 8) {
    kernels::copy_few(m.dst, m.src, m.bytes);
  } else if (op.program.out_past_cache && m.into == Space::output) {
    kernels::copy_nt(m.dst, m.src, m.bytes);
  } else if (m.bytes >= StagingPolicy::kLargeBytes && m.out_of == Space::input) {
    kernels::copy_in_runs(m.dst, m.src, m.bytes);
  } else {
    kernels::copy(m.dst, m.src, m.bytes);
  }
}

void Interpreter::reduce(Op& op, const Step& step) noexcept {
  const BoundPlan& bound = *op.plan;
  const Range range = plan::range_of(step.dst, bound.binding, op.program.var[0], op.program.var[1]);
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
        strided_source = i;  // is packed into a temporary below
      else
        op.program.sources[static_cast<std::size_t>(i)] = place(op, own_source, rank, range);
      continue;
    }
    Operand source = step.src;
    if (step.sources == plan::Sources::slots) source.slot.base += i;
    op.program.sources[static_cast<std::size_t>(i)] = place(op, source, rank, range);
  }
  const bool average = bound.average != nullptr && step.last;
  const auto combine = [&](void* dst, std::size_t count, bool past_cache) {
    if (average)
      bound.average(dst, op.program.sources.data(), k, count,
                    traits_of(bound.kind).prefix ? k : group.size);
    else
      (past_cache ? bound.reduce_past : bound.reduce)(dst, op.program.sources.data(), k, count);
  };
  const bool scatter = strided(op, step.dst, range);
  if (strided_source < 0 && !scatter) [[likely]] {
    std::byte* const dst = place(op, step.dst, group.rank, range);
    const std::size_t bytes = range.count * bound.binding.element;
    if (step.sources == plan::Sources::stages && bytes >= StagingPolicy::kLeastBytes) {
      for (int i = 0; i < k; ++i) {
        const void* const staged = op.program.sources[static_cast<std::size_t>(i)];
        if (ranks[i] != group.rank)
          regions_.sample_stage(group, op.region, ranks[i], staged, bytes);
      }
    }
    // Only complete sums: a partial one in the output would be taken for the result. And only if
    // both are written past the cache or neither is (mixed stores: 16 MiB take 3.8 ms and not 3.2).
    const bool home = step.last && op.program.agreed && !average &&
                      bound.kind == Kind::all_reduce && step.dst.space == Space::stage &&
                      bytes >= StagingPolicy::kLargeBytes && op.call.output.contiguous() &&
                      op.output_pieces.empty() &&
                      (op.region.mode.past_cache || !op.program.out_past_cache);
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
      op.program.sources[static_cast<std::size_t>(strided_source)] = in;
    }
    const Range now{range.first + at, n};
    combine(scatter ? out : place(op, step.dst, group.rank, now), n, false);
    if (scatter) to.unpack(at, n, out);
    for (int i = 0; i < k; ++i) {
      if (i == strided_source) continue;
      const auto index = static_cast<std::size_t>(i);
      op.program.sources[index] =
          static_cast<const std::byte*>(op.program.sources[index]) + n * element;
    }
  }
}

}  // namespace tutti::engine
