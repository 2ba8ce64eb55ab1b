#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace tutti::lightgbm {

/// Adds one block to another: `add(from, into)`.
using Add = std::function<void(const char* from, char* into)>;

/// Adds the blocks of all ranks for one of them, in the order in which the sockets of LightGBM 4.6
/// and 4.7 add: then every sum has the same bits. Their order depends on the number of ranks and on
/// `input_bytes`, the size of one rank's blocks for all ranks: a recursive halving, and a ring for
/// 10 MiB or more on a number of ranks that is no power of two. `blocks` has one block of each
/// rank; all are written to. Returns the one with the sum.
[[nodiscard]] char* add_in_order_of_sockets(std::span<char* const> blocks, int rank,
                                            std::int32_t input_bytes, const Add& add);

}  // namespace tutti::lightgbm
