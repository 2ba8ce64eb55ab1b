#include "gpu/host_call.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <tutti/backend/kinds.hpp>

namespace tutti::gpu {
namespace {

bool is_on_gpu(const TensorView& view) noexcept { return view.device().type == DeviceType::cuda; }

std::size_t lines_for(const Piece& piece) noexcept {
  return whole_lines(piece.count * size_of(piece.view.dtype()));
}

bool same_memory(const TensorView& one, const TensorView& other) noexcept {
  return one.data() == other.data() && one.count() == other.count() &&
         std::ranges::equal(one.shape(), other.shape()) &&
         std::ranges::equal(one.strides(), other.strides());
}

bool same_memory(const call::CallSide& one, const call::CallSide& other) noexcept {
  return one.blocks.empty() && other.blocks.empty() && same_memory(one.tensor, other.tensor) &&
         std::ranges::equal(one.pieces, other.pieces, [](const Piece& a, const Piece& b) {
           return a.first == b.first && a.count == b.count && same_memory(a.view, b.view);
         });
}

std::size_t bytes_of(const call::CallSide& side) noexcept {
  std::size_t sum = 0;
  side.each([&](const Piece& piece) {
    if (is_on_gpu(piece.view)) sum += lines_for(piece);
  });
  return sum;
}

}  // namespace

bool is_on_gpu(const Collective& call) noexcept {
  return has_data(call.kind) && is_on_gpu(call::reference_view(call));
}

void HostCall::take(const Collective& call, int rank) {
  call_ = call;
  details_ = call.details == nullptr ? Details() : *call.details;
  in_ = {call.input, details_.inputs, details_.input_pieces};
  out_ = {call.output, details_.outputs, details_.output_pieces};
  reads_ = uses_input(call.kind, rank, call.root) && call.kind != Kind::recv;
  writes_ = uses_output(call.kind, rank, call.root) && call.kind != Kind::send;
  in_place_ = traits_of(call.kind).layout == Layout::same && same_memory(in_, out_);
  input_counts_.assign(details_.input_counts.begin(), details_.input_counts.end());
  output_counts_.assign(details_.output_counts.begin(), details_.output_counts.end());
  to_host_.clear();
  to_gpu_.clear();
  TensorView& factor = details_.factor;
  if (factor.count() == 1 && !is_on_gpu(factor)) {
    std::memcpy(factor_.data(), factor.data(), size_of(factor.dtype()));
    factor = TensorView(factor_.data(), factor.dtype(), 1);
  }
  own_lists();
}

std::size_t HostCall::bytes() const noexcept {
  std::size_t sum = 0;
  if (reads_ || (in_place_ && writes_)) sum += bytes_of(in_);
  if (writes_ && !in_place_) sum += bytes_of(out_);
  if (is_on_gpu(details_.factor)) sum += lines_for({details_.factor, 0, details_.factor.count()});
  return sum;
}

void HostCall::place(std::byte* memory) {
  const auto stand_in = [&](const Piece& piece, bool filled, bool written) {
    // A tensor that this rank neither reads nor writes has a count, but no memory.
    if (!filled && !written) return TensorView(nullptr, piece.view.dtype(), piece.count);
    std::byte* const place = memory;
    memory += lines_for(piece);
    if (filled) to_host_.push_back({piece, place});
    if (written) to_gpu_.push_back({piece, place});
    return TensorView(place, piece.view.dtype(), piece.count);
  };
  in_.replace([&](const Piece& piece) { return stand_in(piece, reads_, in_place_ && writes_); });
  if (in_place_)
    out_ = in_;
  else
    out_.replace([&](const Piece& piece) { return stand_in(piece, false, writes_); });
  if (is_on_gpu(details_.factor))
    details_.factor = stand_in({details_.factor, 0, details_.factor.count()}, true, false);
  tell();
}

void HostCall::tell() {
  for (TensorView* const tensor : {&in_.tensor, &out_.tensor}) {  // a list has the memory
    if (is_on_gpu(*tensor)) *tensor = TensorView(nullptr, tensor->dtype(), tensor->count());
  }
  call_.input = in_.tensor;
  call_.output = out_.tensor;
  own_lists();
}

/// Points the details at our copies, as the caller's lists may be gone.
void HostCall::own_lists() {
  details_.inputs = in_.blocks;
  details_.outputs = out_.blocks;
  details_.input_pieces = in_.pieces;
  details_.output_pieces = out_.pieces;
  details_.input_counts = input_counts_;
  details_.output_counts = output_counts_;
  details_.stream = 0;
  if (call_.details != nullptr) call_.details = &details_;
}

}  // namespace tutti::gpu
