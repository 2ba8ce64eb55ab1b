#include "backend/mpi/buffers.hpp"

#include <span>

#include "kernels/pack.hpp"

namespace tutti::mpi {
namespace {

/// The pieces of one side: those of the list that the call gives, or its one tensor.
std::vector<Piece> pieces_of(const TensorView& whole, std::span<const TensorView> views,
                             std::span<const Piece> pieces) {
  std::vector<Piece> all;
  if (!pieces.empty()) {
    all.assign(pieces.begin(), pieces.end());
  } else if (!views.empty()) {
    for (const TensorView& view : views) all.push_back({view, 0, view.count()});
  } else {
    all.push_back({whole, 0, whole.count()});
  }
  return all;
}

std::size_t bytes_of(std::span<const Piece> pieces) noexcept {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.count * size_of(piece.view.dtype());
  return bytes;
}

bool has_lists(const Collective& call) noexcept { return call.details != nullptr; }

bool lists_outputs(const Collective& call) noexcept {
  return has_lists(call) &&
         (!call.details->outputs.empty() || !call.details->output_pieces.empty());
}

std::vector<Piece> output_pieces_of(const Collective& call) {
  if (!lists_outputs(call)) return pieces_of(call.output, {}, {});
  return pieces_of(call.output, call.details->outputs, call.details->output_pieces);
}

}  // namespace

void Buffer::copy_of(std::size_t bytes) {
  copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);  // never null, not even for none
  data_ = copy_.get();
}

void Buffer::take_input(const Collective& call, bool must_copy) {
  const bool lists =
      has_lists(call) && (!call.details->inputs.empty() || !call.details->input_pieces.empty());
  if (!lists && !must_copy && call.input.contiguous()) {
    data_ = static_cast<std::byte*>(call.input.data());
    return;
  }
  const std::vector<Piece> pieces =
      lists ? pieces_of(call.input, call.details->inputs, call.details->input_pieces)
            : pieces_of(call.input, {}, {});
  copy_of(bytes_of(pieces));
  std::byte* to = data_;
  for (const Piece& piece : pieces) {
    kernels::pack(to, piece.view, piece.first, piece.count);
    to += piece.count * size_of(piece.view.dtype());
  }
}

void Buffer::take_output(const Collective& call) {
  if (!lists_outputs(call) && call.output.contiguous()) {
    data_ = static_cast<std::byte*>(call.output.data());
    return;
  }
  pieces_ = output_pieces_of(call);
  copy_of(bytes_of(pieces_));
}

void Buffer::take_output_in(const Collective& call, const Buffer& in) {
  pieces_ = output_pieces_of(call);
  data_ = in.data_;
}

void Buffer::finish() noexcept {
  const std::byte* from = data_;
  for (const Piece& piece : pieces_) {
    kernels::unpack(piece.view, piece.first, piece.count, from);
    from += piece.count * size_of(piece.view.dtype());
  }
}

void Buffer::reset() noexcept {
  data_ = nullptr;
  copy_.reset();
  pieces_.clear();
}

}  // namespace tutti::mpi
