#include "call/extent.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <tutti/backend/kinds.hpp>
#include "base/fnv.hpp"
#include "base/index.hpp"
#include "call/call_code.hpp"

namespace tutti::call {
namespace {

/// The number of elements of each block on one side; empty: one block for each rank, all equal.
std::vector<std::size_t> counts_of(std::span<const TensorView> views,
                                   std::span<const std::size_t> counts) {
  if (views.empty()) return {counts.begin(), counts.end()};
  std::vector<std::size_t> all;
  for (const TensorView& view : views) all.push_back(view.count());
  return all;
}

/// The end of each block. The sums cannot overflow: they are counts of real memory.
std::vector<std::size_t> ends_of(std::vector<std::size_t> counts) {
  std::size_t end = 0;
  for (std::size_t& count : counts) count = end += count;
  return counts;
}

std::uint64_t digest_of(const std::vector<std::size_t>& counts) {
  std::uint64_t hash = base::kFnvBasis;
  for (const std::size_t count : counts) hash = chain(hash, CallCode{count, 0, 0});
  return hash | 1;
}

/// The digest of the numbers of elements of several tensors: of each tensor, or of a block of each.
/// Its low bits differ from those of the digest of uneven blocks.
std::uint64_t digest_of(std::span<const Piece> pieces) {
  std::uint64_t hash = base::kFnvBasis;
  for (const Piece& piece : pieces) hash = chain(hash, CallCode{piece.count, 0, 0});
  return (hash & ~std::uint64_t{1}) | 2;
}

/// Fills in a table of block sizes that all ranks must pass equally (Uneven::agreed).
void agree_on(Extent& extent, const std::vector<std::size_t>& counts) {
  const bool even = std::all_of(counts.begin(), counts.end(),
                                [&](std::size_t count) { return count == counts.front(); });
  if (counts.empty() || even) return;
  extent.digest = digest_of(counts);
  extent.in_ends = ends_of(counts);
  extent.out_ends = extent.in_ends;
  extent.count = extent.in_ends.back();
  extent.agreed = extent.count;
  extent.each = 0;
}

/// Fills in blocks of which only the sender and the receiver know the size (Uneven::pairwise).
void agree_in_pairs(Extent& extent, std::vector<std::size_t> in, std::vector<std::size_t> out) {
  extent.in_ends = ends_of(std::move(in));
  extent.out_ends = ends_of(std::move(out));
  extent.count = extent.in_ends.back();
  extent.agreed = kSplits;
  extent.each = 0;
}

}  // namespace

Extent extent_of(const Collective& call, int rank, int size) {
  const Layout layout = traits_of(call.kind).layout;
  const auto ranks = static_cast<std::size_t>(size);
  Extent extent;
  if (layout == Layout::none) return extent;
  const TensorView& view = layout == Layout::scatter ? call.output : call.input;
  extent.dtype = view.dtype();
  extent.count = view.count();
  extent.agreed = view.count();
  if (call.details != nullptr) {
    const Details& all = *call.details;
    // The side of one block has the numbers that are equal on every rank.
    const auto pieces = layout == Layout::scatter ? all.output_pieces : all.input_pieces;
    if (!pieces.empty()) extent.digest = digest_of(pieces);
  }
  if (layout == Layout::same) return extent;
  extent.each = layout == Layout::exchange ? view.count() / ranks : view.count();
  extent.agreed = extent.each;
  extent.count = extent.each * ranks;
  if (call.details == nullptr) return extent;
  const Details& details = *call.details;
  const std::vector<std::size_t> in = counts_of(details.inputs, details.input_counts);
  const std::vector<std::size_t> out = counts_of(details.outputs, details.output_counts);
  const Uneven uneven = traits_of(call.kind).uneven;
  if (uneven == Uneven::agreed) agree_on(extent, layout == Layout::gather ? out : in);
  // Also if this rank's numbers are all equal by chance: other ranks cannot know that.
  if (layout == Layout::exchange && !in.empty()) agree_in_pairs(extent, in, out);
  const bool gathers = layout == Layout::gather;
  if (uneven == Uneven::pairwise && layout != Layout::exchange &&
      !(gathers ? details.output_counts : details.input_counts).empty()) {
    std::vector<std::size_t> blocks = gathers ? out : in;
    if (rank != call.root) {
      blocks.assign(ranks, 0);
      base::at(blocks, rank) = view.count();
    }
    agree_in_pairs(extent, blocks, blocks);
  }
  return extent;
}

std::size_t sent_to(const Collective& call, const Extent& extent, int rank, int peer) {
  switch (traits_of(call.kind).layout) {
    case Layout::gather: return peer == call.root ? extent.count_of(extent.in_ends, rank) : 0;
    case Layout::scatter: return rank == call.root ? extent.count_of(extent.in_ends, peer) : 0;
    default: return extent.count_of(extent.in_ends, peer);
  }
}

std::size_t expected_from(const Collective& call, const Extent& extent, int rank, int peer) {
  switch (traits_of(call.kind).layout) {
    case Layout::gather: return rank == call.root ? extent.count_of(extent.out_ends, peer) : 0;
    case Layout::scatter: return peer == call.root ? extent.count_of(extent.out_ends, rank) : 0;
    default: return extent.count_of(extent.out_ends, peer);
  }
}

}  // namespace tutti::call
