#pragma once

#include <span>
#include <vector>

#include <tutti/backend/collective.hpp>
#include <tutti/backend/kinds.hpp>

namespace tutti::call {

/// One side of a call, with lists of its own: one tensor, one for each rank, or several as one.
struct CallSide {
  TensorView tensor;
  std::vector<TensorView> blocks;
  std::vector<Piece> pieces;

  CallSide() = default;
  CallSide(const TensorView& one, std::span<const TensorView> list, std::span<const Piece> several)
      : tensor(one), blocks(list.begin(), list.end()), pieces(several.begin(), several.end()) {}

  /// Calls `look(piece)` for each tensor.
  template <class Look>
  void each(const Look& look) const {
    for (const Piece& piece : pieces) look(piece);
    for (const TensorView& view : blocks) look(Piece{view, 0, view.count()});
    if (pieces.empty() && blocks.empty()) look(Piece{tensor, 0, tensor.count()});
  }
  /// Calls `take(piece)` for each tensor, and puts the view that it returns in its place.
  template <class Take>
  void replace(const Take& take) {
    for (Piece& piece : pieces) piece = {take(piece), 0, piece.count};
    for (TensorView& view : blocks) view = take(Piece{view, 0, view.count()});
    if (pieces.empty() && blocks.empty()) tensor = take(Piece{tensor, 0, tensor.count()});
  }
};

/// The tensor whose dtype and device stand for the whole call: one that every rank has.
[[nodiscard]] inline const TensorView& reference_view(const Collective& call) noexcept {
  const bool by_output = traits_of(call.kind).layout == Layout::scatter || call.kind == Kind::recv;
  return by_output ? call.output : call.input;
}

}  // namespace tutti::call
