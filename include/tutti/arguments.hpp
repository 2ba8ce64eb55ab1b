#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

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

/// As the tag of a recv or probe: the message that comes first, whatever its tag.
inline constexpr int any_tag = -(1 << 30);

/// As the peer of a send or recv: nobody. The call moves nothing and succeeds, as with
/// MPI_PROC_NULL.
inline constexpr int no_rank = -(1 << 29);

}  // namespace tutti
