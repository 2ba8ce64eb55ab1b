#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include <tutti/buffers.hpp>
#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// How values of different ranks are combined.
enum class ReduceOp : std::uint8_t {
  sum = 0,      ///< of bool: or
  avg = 1,      ///< the sum, divided by the number of ranks
  product = 2,  ///< of bool: and
  min = 3,      ///< NaN if any value is; of bool: and
  max = 4,      ///< NaN if any value is; of bool: or
  band = 5,     ///< of the bits of integers, or of truth values
  bor = 6,
  bxor = 7,
  premul_sum = 8,  ///< each rank's input times its own factor, summed up
};

/// Number of ops; every valid ReduceOp is below it.
inline constexpr int kReduceOpCount = 9;

/// "SUM", "MAX", ... as torch.distributed spells them.
[[nodiscard]] std::string_view to_string(ReduceOp op) noexcept;

/// As the sender of a recv or probe: the rank whose message comes first.
inline constexpr int any_source = -1;

/// As the tag of a recv or probe: the message that comes first, with any tag below 2130706432. The
/// Python package has the tags from there on for itself. The backends 'mpi' and 'nccl' refuse it.
inline constexpr int any_tag = -(1 << 30);

/// As the peer of a send or recv: nobody. The call moves nothing and succeeds, as with
/// MPI_PROC_NULL.
inline constexpr int no_rank = -(1 << 29);

namespace detail {
template <class T>
consteval Advice advice_on_timeout() {
  return std::is_arithmetic_v<T> ? Advice::timeout_unit : Advice::none;
}
template <class R>
consteval Advice advice_on_counts() {
  if constexpr (std::ranges::range<R>) {
    using T = std::remove_cv_t<element_t<R>>;
    if (std::integral<T> && !std::same_as<T, std::size_t>) return Advice::counts_type;
  }
  return Advice::none;
}
}  // namespace detail

/// How long an operation may take: a duration, or nothing, which means the default of the place.
struct Timeout : std::optional<std::chrono::nanoseconds> {
  using std::optional<std::chrono::nanoseconds>::optional;
  Timeout() noexcept = default;
  Timeout(const std::optional<std::chrono::nanoseconds>& limit) noexcept : optional(limit) {}
  TUTTI_REFUSE_CONVERSION(TIMEOUTS, (class T), (detail::advice_on_timeout<T>()), Timeout(T number))
};

/// How many elements the block of each rank has: a range of std::size_t that belongs to the caller.
struct BlockCounts : std::span<const std::size_t> {
  BlockCounts() noexcept = default;
  template <std::convertible_to<std::span<const std::size_t>> R>
  BlockCounts(R&& counts) noexcept : span(counts) {}
  TUTTI_REFUSE_CONVERSION(COUNTS, (class R), (detail::advice_on_counts<R>()),
                          BlockCounts(R&& counts))
};

}  // namespace v0
}  // namespace tutti
