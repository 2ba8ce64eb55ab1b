#include "engine/operation.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "call/memory.hpp"
#include "kernels/reduce.hpp"

namespace tutti::engine {

namespace {

/// Multiplies `count` elements in a row by a factor: one for all, or one for each, whatever strides
/// those have.
void scale(std::byte* row, DType dtype, std::size_t count, const TensorView& factor) noexcept {
  const kernels::ScaleFn multiply = kernels::find_scale(dtype);
  const bool for_each = factor.count() > 1;
  if (!for_each || factor.contiguous()) return multiply(row, row, factor.data(), for_each, count);
  const Elements factors{&factor, nullptr, 0};
  const std::size_t element = size_of(dtype);
  alignas(16) std::array<std::byte, kBlockBytes> block;
  for (std::size_t at = 0; at < count; at += kBlockBytes / element) {
    const std::size_t some = std::min(count - at, kBlockBytes / element);
    factors.pack(block.data(), at, some);
    multiply(row + at * element, row + at * element, block.data(), true, some);
  }
}

}  // namespace

void Op::take_details(const Details* from) {
  call.details = nullptr;
  detailed = from != nullptr;
  inputs.clear();
  outputs.clear();
  input_pieces.assign({});
  output_pieces.assign({});
  if (from == nullptr) return;
  inputs.assign(from->inputs.begin(), from->inputs.end());
  outputs.assign(from->outputs.begin(), from->outputs.end());
  input_pieces.assign(from->input_pieces);
  output_pieces.assign(from->output_pieces);
  if (call.op != ReduceOp::premul_sum || from->factor.count() == 0) return;
  // The output may be the same memory, and is not to be written before all agree.
  std::vector<Piece> pieces(from->input_pieces.begin(), from->input_pieces.end());
  for (const TensorView& view : inputs) pieces.push_back({view, 0, view.count()});
  if (pieces.empty()) pieces.push_back({call.input, 0, call.input.count()});
  input_pieces.assign(pieces);
  inputs.clear();
  const std::size_t count = input_pieces.count();
  scaled.resize(count * size_of(call.input.dtype()));
  input_pieces.pack(scaled.data(), 0, count);
  input_pieces.assign({});
  scale(scaled.data(), call.input.dtype(), count, from->factor);
  call.input = TensorView(scaled.data(), call.input.dtype(), count);
}

bool Op::shares_memory_with(const Collective& other, int rank) const noexcept {
  if (!detailed) return call::share_memory(call, other, rank);
  Details lists;
  lists.inputs = inputs;
  lists.outputs = outputs;
  lists.input_pieces = input_pieces.all();
  lists.output_pieces = output_pieces.all();
  Collective whole = call;
  whole.details = &lists;
  return call::share_memory(whole, other, rank);
}

MovedBytes Op::moved() const noexcept {
  if (!streams.is_open()) return {};
  MovedBytes moved = streams.moved();
  moved.per_second = timer.pace.per_second;
  return moved;
}

bool Op::is_large() const noexcept {
  std::size_t bytes = std::max(call.input.size_bytes(), call.output.size_bytes());
  for (const auto& list : {std::cref(inputs), std::cref(outputs)}) {
    std::size_t all = 0;
    for (const TensorView& view : list.get()) all += view.size_bytes();
    bytes = std::max(bytes, all);
  }
  return bytes >= kLargeBytes;
}

}  // namespace tutti::engine
