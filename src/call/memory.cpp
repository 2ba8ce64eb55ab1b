#include "call/memory.hpp"

#include <tutti/backend/kinds.hpp>

namespace tutti::call {
namespace {

/// The tensors that a call reads, or those that it writes.
class Tensors {
 public:
  static Tensors read_by(const Collective& call, int rank) noexcept {
    Tensors found;
    if (!uses_input(call.kind, rank, call.root)) return found;
    found.one_ = &call.input;
    if (call.details != nullptr) {
      found.take(call.details->inputs, call.details->input_pieces);
      found.factor_ = &call.details->factor;
    }
    return found;
  }
  static Tensors written_by(const Collective& call, int rank) noexcept {
    Tensors found;
    if (!uses_output(call.kind, rank, call.root)) return found;
    found.one_ = &call.output;
    if (call.details != nullptr) found.take(call.details->outputs, call.details->output_pieces);
    return found;
  }

  [[nodiscard]] bool overlaps(const Tensors& other) const noexcept {
    return any([&](const ByteRange& mine) {
      return other.any([&](const ByteRange& theirs) { return mine.overlaps(theirs); });
    });
  }

 private:
  void take(std::span<const TensorView> views, std::span<const Piece> pieces) noexcept {
    views_ = views;
    pieces_ = pieces;
    if (!views.empty() || !pieces.empty()) one_ = nullptr;
  }
  template <class Look>
  [[nodiscard]] bool any(const Look& look) const noexcept {
    const auto looked = [&](const auto& tensor) { return look(range_of(tensor)); };
    return (one_ != nullptr && looked(*one_)) || (factor_ != nullptr && looked(*factor_)) ||
           std::ranges::any_of(views_, looked) || std::ranges::any_of(pieces_, looked);
  }

  const TensorView* one_ = nullptr;
  const TensorView* factor_ = nullptr;
  std::span<const TensorView> views_;
  std::span<const Piece> pieces_;
};

}  // namespace

ByteRange range_of(const ConstTensorView& view) noexcept {
  if (view.count() == 0 || view.data() == nullptr) return {};
  if (view.contiguous()) return range_of_contiguous(view);
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data());
  const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
  std::int64_t low = 0;
  std::int64_t high = element;
  for (std::size_t d = 0; d < view.shape().size(); ++d) {
    const std::int64_t far = (view.shape()[d] - 1) * view.strides()[d] * element;
    (far < 0 ? low : high) += far;
  }
  return {begin + static_cast<std::uintptr_t>(low), begin + static_cast<std::uintptr_t>(high)};
}

ByteRange range_of(const Piece& piece) noexcept {
  const ByteRange all = range_of(piece.view);
  if (!piece.view.contiguous() || all.begin == all.end) return all;
  const std::size_t element = size_of(piece.view.dtype());
  const std::uintptr_t begin = all.begin + piece.first * element;
  return {begin, begin + piece.count * element};
}

bool share_memory(const Collective& one, const Collective& other, int rank) noexcept {
  const Tensors written = Tensors::written_by(one, rank);
  const Tensors others_written = Tensors::written_by(other, rank);
  return written.overlaps(others_written) || written.overlaps(Tensors::read_by(other, rank)) ||
         others_written.overlaps(Tensors::read_by(one, rank));
}

}  // namespace tutti::call
