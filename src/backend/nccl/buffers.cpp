#include "backend/nccl/buffers.hpp"

#include <optional>
#include <span>

#include "cuda/packer.hpp"

namespace tutti::nccl {
namespace {

/// Where pieces of one view lie that are in a row as they are; absent: they are not. Empty ones lie
/// anywhere. Views that follow each other may be of different allocations, which no copy crosses.
std::optional<Address> row_of(std::span<const Piece> pieces) {
  std::optional<Address> row;
  const void* data = nullptr;
  Address end = 0;
  for (const Piece& piece : pieces) {
    if (piece.count == 0) continue;
    const std::size_t element = size_of(piece.view.dtype());
    const Address begin = reinterpret_cast<Address>(piece.view.data()) + piece.first * element;
    if (!piece.view.contiguous() || (row && (begin != end || piece.view.data() != data)))
      return std::nullopt;
    if (!row) row = begin;
    data = piece.view.data();
    end = begin + piece.count * element;
  }
  return row;
}

}  // namespace

void Buffer::take(const TensorView& whole, std::span<const TensorView> views,
                  std::span<const Piece> pieces) {
  reset();
  pieces_.assign(pieces.begin(), pieces.end());
  if (pieces_.empty()) {
    for (const TensorView& view : views) pieces_.push_back({view, 0, view.count()});
  }
  if (pieces_.empty()) pieces_.push_back({whole, 0, whole.count()});
  if (const std::optional<Address> row = row_of(pieces_)) {
    pieces_.clear();
    data_ = *row;
    return;
  }
  for (const Piece& piece : pieces_) bytes_ += piece.count * size_of(piece.view.dtype());
}

void Buffer::take_input(const Collective& call) {
  const Details* const more = call.details;
  if (more == nullptr) return take(call.input, {}, {});
  take(call.input, more->inputs, more->input_pieces);
}

void Buffer::take_output(const Collective& call) {
  const Details* const more = call.details;
  if (more == nullptr) return take(call.output, {}, {});
  take(call.output, more->outputs, more->output_pieces);
}

bool Buffer::make_copy(Calls& calls, CudaApi& cuda, Stream stream, bool fill) {
  if (bytes_ == 0) return true;
  if (!calls.cuda("cuMemAllocAsync", cuda.allocate(data_, bytes_, stream))) return false;
  copied_ = true;
  if (!fill) return true;
  cuda::Packer packer(calls, cuda, stream, true);
  Address to = data_;
  for (const Piece& piece : pieces_) {
    if (!packer.run(piece, to)) return false;
    to += piece.count * size_of(piece.view.dtype());
  }
  return true;
}

bool Buffer::write_back(Calls& calls, CudaApi& cuda, Stream stream) const {
  if (!copied_) return true;
  cuda::Packer packer(calls, cuda, stream, false);
  Address from = data_;
  for (const Piece& piece : pieces_) {
    if (!packer.run(piece, from)) return false;
    from += piece.count * size_of(piece.view.dtype());
  }
  return true;
}

bool Buffer::free_copy(Calls& calls, CudaApi& cuda, Stream stream) {
  if (!copied_) return true;
  copied_ = false;
  return calls.cuda("cuMemFreeAsync", cuda.free(data_, stream));
}

}  // namespace tutti::nccl
