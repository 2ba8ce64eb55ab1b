#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tutti/buffers.hpp>
#include <tutti/export.hpp>
#include <tutti/tensor.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Blocks of different sizes, one of each rank, in one vector and in the order of the ranks.
template <class T>
struct Blocks {
  std::vector<T> values;
  std::vector<std::size_t> counts;         ///< elements of each rank's block
  std::vector<std::size_t> displacements;  ///< the place of its first element in `values`

  /// The block of a rank, which must be below counts.size().
  [[nodiscard]] std::span<T> operator[](int rank) noexcept {
    const auto at = static_cast<std::size_t>(rank);
    return std::span<T>(values).subspan(displacements[at], counts[at]);
  }
  /// The same, to be read only.
  [[nodiscard]] std::span<const T> operator[](int rank) const noexcept {
    const auto at = static_cast<std::size_t>(rank);
    return std::span<const T>(values).subspan(displacements[at], counts[at]);
  }
};

/// Makes the memory for blocks of so many elements (structs, where the input has structs), in the
/// order of the ranks, and returns its view. Called during the call; the memory must live until the
/// Work is done.
using MakeBlocks = std::function<TensorView(std::span<const std::size_t> counts)>;

namespace detail {

/// The Blocks of the elements of a range.
template <class R>
using blocks_of = Blocks<std::remove_const_t<element_t<R>>>;

/// Makes a MakeBlocks that sizes `blocks` when the counts are known.
template <class T>
[[nodiscard]] MakeBlocks maker_of(Blocks<T>& blocks) {
  static_assert(!std::same_as<T, bool>,
                "tutti: std::vector<bool> keeps bits, not elements: gather char in place of bool");
  return [&blocks](std::span<const std::size_t> counts) {
    std::size_t end = 0;
    for (const std::size_t count : counts) {
      blocks.counts.push_back(count);
      blocks.displacements.push_back(end);
      end += count;
    }
    blocks.values.resize(end);
    return TensorView(blocks.values);
  };
}

}  // namespace detail
}  // namespace v0
}  // namespace tutti
