#include "group/overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include "base/index.hpp"
#include "call/memory.hpp"

namespace tutti {
inline namespace v0 {
namespace {

/// The bytes of a piece.
struct Bytes : call::ByteRange {
  std::size_t number = 0;  ///< of its first element, counted from this rank's block
  bool written = false;
  const Piece* piece = nullptr;
};

Bytes bytes_of(const Piece& piece, std::size_t number, bool written) noexcept {
  return {call::range_of(piece), number, written, &piece};
}

std::vector<Bytes> bytes_of(std::span<const Piece> pieces, std::size_t own, bool written) {
  std::vector<Bytes> all;
  std::size_t number = std::size_t{0} - own;  // may wrap: it is only compared
  for (const Piece& piece : pieces) {
    if (piece.count > 0) all.push_back(bytes_of(piece, number, written));
    number += piece.count;
  }
  return all;
}

/// True if contiguous pieces overlap. A rank's own block may be both input and output: then the
/// same bytes occur once as each.
bool rows_overlap(std::vector<Bytes> all) {
  const auto before = [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; };
  if (!std::is_sorted(all.begin(), all.end(), before)) std::sort(all.begin(), all.end(), before);
  struct Ends {  // of what begins earlier
    std::uintptr_t written = 0;
    std::uintptr_t read = 0;
  };
  Ends ends;
  Ends before_last;
  Bytes last;
  for (const Bytes& one : all) {
    const bool both = one.begin == last.begin && one.end == last.end && one.number == last.number &&
                      one.written != last.written;
    if (both) ends = before_last;
    const bool writes = one.written || both;  // the two count as one that is written
    if (one.begin < ends.written || (writes && one.begin < ends.read)) return true;
    before_last = ends;
    std::uintptr_t& end = writes ? ends.written : ends.read;
    end = std::max(end, one.end);
    last = one;
  }
  return false;
}

/// The same elements in the same order.
bool same(const Piece& a, const Piece& b) noexcept {
  return a.view.data() == b.view.data() && a.first == b.first && a.count == b.count &&
         std::ranges::equal(a.view.shape(), b.view.shape()) &&
         std::ranges::equal(a.view.strides(), b.view.strides());
}

/// True if an input and an output overlap, at least one of which has strides.
bool strided_overlap(std::span<const Bytes> outputs, std::span<const Bytes> inputs) noexcept {
  for (const Bytes& out : outputs) {
    for (const Bytes& in : inputs) {
      if (out.piece->view.contiguous() && in.piece->view.contiguous()) continue;
      if (!out.overlaps(in)) continue;
      if (out.number != in.number || !same(*out.piece, *in.piece)) return true;
    }
  }
  return false;
}

/// The tensors of one side, in order.
std::vector<Piece> pieces_of(const TensorView& whole, std::span<const TensorView> blocks,
                             std::span<const Piece> pieces) {
  if (!pieces.empty()) return {pieces.begin(), pieces.end()};
  std::vector<Piece> all;
  all.reserve(blocks.size() + 1);
  for (const TensorView& view : blocks) all.push_back({view, 0, view.count()});
  if (blocks.empty()) all.push_back({whole, 0, whole.count()});
  return all;
}

/// The first element of this rank's block in a side that has all blocks; `block`: elements of each
/// if all are equal.
std::size_t first_of(std::span<const TensorView> blocks, std::span<const std::size_t> counts,
                     std::size_t block, int rank) noexcept {
  std::size_t first = 0;
  for (std::size_t r = 0; r < base::as_size(rank); ++r)
    first += !blocks.empty() ? blocks[r].count() : counts.empty() ? block : counts[r];
  return first;
}

}  // namespace

bool is_in_place(const Collective& call) noexcept {
  return traits_of(call.kind).layout == Layout::same &&
         (call.input.data() == nullptr ||  // several tensors
          same({call.input, 0, call.input.count()}, {call.output, 0, call.output.count()}));
}

Overlap overlap_of(const Collective& call, int rank) {
  const Layout layout = traits_of(call.kind).layout;
  if (layout == Layout::none || layout == Layout::pair || !uses_output(call.kind, rank, call.root))
    return Overlap::none;
  static const Details kNone{};
  const Details& details = call.details != nullptr ? *call.details : kNone;
  const bool in_place = is_in_place(call);
  if (in_place && details.output_pieces.empty()) return Overlap::none;
  const bool reads = !in_place && uses_input(call.kind, rank, call.root);
  std::size_t own_output = 0;
  std::size_t own_input = 0;
  if (layout == Layout::gather)
    own_output = first_of(details.outputs, details.output_counts, call.input.count(), rank);
  if (layout == Layout::scatter && reads)
    own_input = first_of(details.inputs, details.input_counts, call.output.count(), rank);
  // all_to_all: no block may be both, not even this rank's own. So the numbers never match.
  if (layout == Layout::exchange) own_input = std::size_t{1} << (8 * sizeof(std::size_t) - 1);
  const bool one_each = details.outputs.empty() && details.inputs.empty() &&
                        details.output_pieces.empty() && details.input_pieces.empty();
  if (one_each) {  // the usual call
    if (!reads || call.output.count() == 0 || call.input.count() == 0) return Overlap::none;
    const call::ByteRange out = call::range_of(call.output);
    const call::ByteRange in = call::range_of(call.input);
    if (!out.overlaps(in)) return Overlap::none;
    const std::size_t element = size_of(call.output.dtype());
    const bool contiguous = call.output.contiguous() && call.input.contiguous();
    const bool own = contiguous && layout != Layout::exchange &&
                     in.begin + own_input * element == out.begin + own_output * element;
    return own ? Overlap::none : Overlap::input;
  }
  const std::vector<Piece> out_pieces =
      pieces_of(call.output, details.outputs, details.output_pieces);
  const std::vector<Piece> in_pieces =
      reads ? pieces_of(call.input, details.inputs, details.input_pieces) : std::vector<Piece>();
  std::vector<Bytes> out = bytes_of(out_pieces, own_output, true);
  const std::vector<Bytes> in = bytes_of(in_pieces, own_input, false);
  const auto strided = [](const Bytes& one) { return !one.piece->view.contiguous(); };
  const bool any_strided =
      std::any_of(out.begin(), out.end(), strided) || std::any_of(in.begin(), in.end(), strided);
  const bool crossing = any_strided && strided_overlap(out, in);
  std::erase_if(out, strided);
  if (out.size() > 1 && rows_overlap(out)) return Overlap::output;
  if (crossing) return Overlap::input;
  for (const Bytes& one : in) {
    if (!strided(one)) out.push_back(one);
  }
  return rows_overlap(std::move(out)) ? Overlap::input : Overlap::none;
}

std::string_view to_string(Overlap overlap) noexcept {
  switch (overlap) {
    case Overlap::none: return "";
    case Overlap::input: return "input and output overlap; only this rank's own block may be both";
    case Overlap::output:
      return "two tensors of the output overlap; each must have memory of its own";
  }
  return "";
}

}  // namespace v0
}  // namespace tutti
