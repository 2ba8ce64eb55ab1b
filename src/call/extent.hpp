#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/backend/collective.hpp>

namespace tutti::call {

/// Stands for the number of elements if each pair of ranks has its own: all_to_all with splits,
/// gather and scatter with counts.
inline constexpr std::uint64_t kSplits = ~std::uint64_t{0};

/// How many elements a call is about, as one rank sees it.
struct Extent {
  DType dtype = DType::uint8;
  /// All ranks must agree about it: elements of the whole operation (Layout::same, uneven
  /// blocks), of a block, or kSplits.
  std::uint64_t agreed = 0;
  std::uint64_t digest = 0;  ///< of the numbers of uneven blocks, or of several tensors; else 0
  std::size_t count = 0;     ///< elements of the whole operation; all_to_all: of the input
  std::size_t each = 0;      ///< elements of a block if all blocks are equal
  /// Else: the end of each block. gather and scatter with counts: a rank other than the root
  /// knows its own block only, so the others are empty.
  std::vector<std::size_t> in_ends;
  std::vector<std::size_t> out_ends;

  [[nodiscard]] bool uneven() const noexcept { return !in_ends.empty() || !out_ends.empty(); }
  /// Where a rank's block begins, and how many elements it has. `ends`: in_ends or out_ends.
  [[nodiscard]] std::size_t first_of(const std::vector<std::size_t>& ends,
                                     int rank) const noexcept {
    if (ends.empty()) return static_cast<std::size_t>(rank) * each;
    return rank == 0 ? 0 : ends[static_cast<std::size_t>(rank) - 1];
  }
  [[nodiscard]] std::size_t count_of(const std::vector<std::size_t>& ends,
                                     int rank) const noexcept {
    return ends.empty() ? each : ends[static_cast<std::size_t>(rank)] - first_of(ends, rank);
  }
};

/// `call` of this rank must have passed the checks of ProcessGroup. Needs memory only for uneven
/// blocks.
[[nodiscard]] Extent extent_of(const Collective& call, int rank, int size);
/// With kSplits: the elements that this rank sends to `peer`, and expects from it.
[[nodiscard]] std::size_t sent_to(const Collective& call, const Extent& extent, int rank, int peer);
[[nodiscard]] std::size_t expected_from(const Collective& call, const Extent& extent, int rank,
                                        int peer);

}  // namespace tutti::call
