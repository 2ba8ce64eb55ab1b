#include "plan/schedule.hpp"

#include <algorithm>

#include <tutti/backend/kinds.hpp>

namespace tutti::plan {
namespace {

constexpr std::size_t kLine = 64;

constexpr std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

/// Elements of the largest of `parts` parts of `count`.
std::size_t part_length(std::size_t count, std::int32_t parts, const Binding& b) {
  const std::size_t even = divide_up(count, base::as_size(std::max(parts, 1)));
  return std::min(divide_up(even, b.align) * b.align, count);
}

Range part_of(Range whole, std::int64_t part, std::int32_t parts, const Binding& b) {
  if (part < 0 || part >= parts) return {whole.first, 0};
  const std::size_t length = part_length(whole.count, parts, b);
  const std::size_t begin = std::min(base::as_size(part) * length, whole.count);
  const std::size_t end = std::min(begin + length, whole.count);
  return {whole.first + begin, end - begin};
}

Range chunk_of(Range whole, std::int64_t chunk, const Binding& b) {
  if (chunk < 0) return {whole.first, 0};
  if (b.chunk == 0) return chunk == 0 ? whole : Range{whole.first + whole.count, 0};
  const std::size_t chunks = divide_up(whole.count, b.chunk);
  if (base::as_size(chunk) >= chunks) return {whole.first + whole.count, 0};
  const std::size_t begin = base::as_size(chunk) * b.chunk;
  return {whole.first + begin, std::min(b.chunk, whole.count - begin)};
}

const BlockTable& blocks_of(Space space, const Binding& b) {
  return space == Space::output || space == Space::scratch ? b.out : b.in;
}

}  // namespace

Binding bind(const Schedule& schedule, std::size_t count, std::size_t element) noexcept {
  Binding b;
  b.count = count;
  b.element = std::max<std::size_t>(element, 1);
  b.align = std::max<std::size_t>(kLine / b.element, 1);
  if (schedule.chunk_bytes > 0) {
    b.chunk = std::max<std::size_t>(schedule.chunk_bytes / b.element, 1);
  }
  return b;
}

Binding bind(const Schedule& schedule, std::size_t count, std::size_t element, const BlockTable& in,
             const BlockTable& out) noexcept {
  Binding b = bind(schedule, count, element);
  b.in = in;
  b.out = out;
  return b;
}

Range range_in_chunks(const Operand& operand, const Binding& b, std::int64_t i,
                      std::int64_t j) noexcept {
  const Slice& slice = operand.slice;
  const Range all{0, b.count};
  switch (slice.shape) {
    case Slice::Shape::whole: return all;
    case Slice::Shape::chunk: return chunk_of(all, slice.chunk.at(i, j), b);
    case Slice::Shape::part: return part_of(all, slice.part.at(i, j), slice.parts, b);
    case Slice::Shape::chunk_part:
      return part_of(chunk_of(all, slice.chunk.at(i, j), b), slice.part.at(i, j), slice.parts, b);
    case Slice::Shape::part_chunk:
      return chunk_of(part_of(all, slice.part.at(i, j), slice.parts, b), slice.chunk.at(i, j), b);
    case Slice::Shape::block: return blocks_of(operand.space, b).range(slice.part.at(i, j));
    case Slice::Shape::block_chunk:
      return chunk_of(blocks_of(operand.space, b).range(slice.part.at(i, j)), slice.chunk.at(i, j),
                      b);
    case Slice::Shape::blocks: {
      const BlockTable& table = blocks_of(operand.space, b);
      const Range first = table.range(slice.part.at(i, j));
      const Range last = table.range(slice.part.at(i, j) + slice.parts - 1);
      return {first.first, last.first + last.count - first.first};
    }
  }
  return {};
}

std::size_t origin_in_chunks(const Operand& operand, const Binding& b, std::int64_t i,
                             std::int64_t j) noexcept {
  const Slice& slice = operand.slice;
  const Range all{0, b.count};
  switch (slice.shape) {
    case Slice::Shape::whole:
    case Slice::Shape::block:
    case Slice::Shape::blocks:
    case Slice::Shape::part: return 0;
    case Slice::Shape::chunk:
    case Slice::Shape::chunk_part: return chunk_of(all, slice.chunk.at(i, j), b).first;
    case Slice::Shape::part_chunk:
    case Slice::Shape::block_chunk: return range_of(operand, b, i, j).first;
  }
  return 0;
}

std::size_t first_element(Kind kind, Space space, int rank, const Binding& b) noexcept {
  const Layout layout = traits_of(kind).layout;
  if (layout == Layout::gather && space == Space::input) return b.in.range(rank).first;
  if (layout == Layout::scatter && space == Space::output) return b.out.range(rank).first;
  return 0;
}

std::size_t input_elements(Kind kind, int rank, const Binding& b) noexcept {
  return traits_of(kind).layout == Layout::gather ? b.in.range(rank).count : b.count;
}

std::size_t slot_bytes(const Schedule& schedule, const Binding& b) noexcept {
  std::size_t elements = b.count;
  if (schedule.slot_parts == kSlotOfBlock) {
    elements = std::max(b.in.largest, b.out.largest);
    if (b.chunk > 0) elements = std::min(elements, b.chunk);
  } else if (schedule.slot_parts > 0) {
    elements = part_length(b.count, schedule.slot_parts, b);
    if (b.chunk > 0) elements = std::min(elements, b.chunk);
  }
  return divide_up(elements * b.element, kLine) * kLine;
}

std::int64_t times_of(const Times& times, const Binding& b) noexcept {
  std::size_t elements = b.count;
  switch (times.of) {
    case Times::Of::constant: return std::max<std::int64_t>(times.plus, 0);
    case Times::Of::chunks: break;
    case Times::Of::part_chunks: elements = part_length(b.count, times.parts, b); break;
    case Times::Of::block_chunks: elements = std::max(b.in.largest, b.out.largest); break;
  }
  const std::size_t length = b.chunk > 0 ? b.chunk : std::max<std::size_t>(elements, 1);
  const auto chunks = static_cast<std::int64_t>(divide_up(elements, length));
  return std::max<std::int64_t>(chunks + times.plus, 0);
}

std::int32_t cycle_of(const Schedule& schedule, const Binding& b) noexcept {
  if (schedule.slot_cycle <= 0) return 0;
  Times held{Times::Of::constant, 1, 1};
  if (schedule.slot_parts == kSlotOfBlock) held = {Times::Of::block_chunks, 1, 0};
  if (schedule.slot_parts > 0) held = {Times::Of::part_chunks, schedule.slot_parts, 0};
  const std::int64_t chunks = std::max<std::int64_t>(times_of(held, b), 1);
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(schedule.slot_cycle, chunks * schedule.slots_per_chunk));
}

std::int32_t stage_slots_of(const Schedule& schedule, const Binding& b) noexcept {
  if (schedule.slot_cycle <= 0) return schedule.stage_slots;
  return schedule.stage_slots / schedule.slot_cycle * cycle_of(schedule, b);
}

}  // namespace tutti::plan
