#include "call/pieces_check.hpp"

#include <cstddef>
#include <span>
#include <string_view>

#include <tutti/backend/kinds.hpp>
#include "base/format.hpp"
#include "base/index.hpp"
#include "call/views_check.hpp"

namespace tutti::call {
namespace {

std::string check(std::span<const Piece> pieces, std::string_view name, const TensorView& like,
                  bool written) {
  for (const Piece& piece : pieces) {
    if (std::string wrong = check_alike(piece.view, name, like); !wrong.empty()) return wrong;
    if (piece.first > piece.view.count() || piece.count > piece.view.count() - piece.first)
      return base::format("a piece of the {} goes beyond its tensor", name);
    if (std::string wrong = check_memory(piece.view, name, written); !wrong.empty()) return wrong;
  }
  return {};
}

std::size_t count_of(std::span<const Piece> pieces) noexcept {
  std::size_t count = 0;
  for (const Piece& piece : pieces) count += piece.count;
  return count;
}

}  // namespace

std::string what_is_wrong_with_pieces(const Collective& call, int rank, int size) {
  const Details& details = *call.details;
  const auto in = details.input_pieces;
  const auto out = details.output_pieces;
  const Layout layout = traits_of(call.kind).layout;
  if (layout == Layout::none || layout == Layout::exchange || layout == Layout::pair)
    return "several tensors for an operation that takes one";
  if (in.empty() || out.empty()) return "several tensors on one side only";
  if (!details.inputs.empty() || !details.outputs.empty() || !details.input_counts.empty() ||
      !details.output_counts.empty())
    return "several tensors, and lists or counts of blocks beside";
  const TensorView& like = layout == Layout::scatter ? call.output : call.input;
  std::string wrong;
  if (uses_input(call.kind, rank, call.root)) wrong = check(in, "input", like, false);
  if (wrong.empty() && uses_output(call.kind, rank, call.root))
    wrong = check(out, "output", like, true);
  if (!wrong.empty()) return wrong;
  const auto ranks = base::as_size(size);
  const std::size_t have = count_of(layout == Layout::scatter ? in : out);
  const std::size_t need =
      count_of(layout == Layout::scatter ? out : in) * (layout == Layout::same ? 1 : ranks);
  if (have != need || call.input.count() != count_of(in) || call.output.count() != count_of(out))
    return base::format("the tensors have {} elements in all, not {}", have, need);
  return {};
}

}  // namespace tutti::call
