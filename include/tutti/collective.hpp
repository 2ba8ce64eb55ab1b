#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <tutti/tensor.hpp>

namespace tutti {

/// How values of different ranks are combined. Numbers are part of fingerprints: only append.
enum class ReduceOp : std::uint8_t {
  sum = 0,
  avg = 1,
  product = 2,
  min = 3,
  max = 4,
  band = 5,
  bor = 6,
  bxor = 7,
  premul_sum = 8,
};

/// "SUM", "MAX", ... as torch.distributed spells them.
[[nodiscard]] std::string_view to_string(ReduceOp op) noexcept;

/// Kinds of operations. Numbers are part of fingerprints and of the wire: only append.
enum class Kind : std::uint8_t {
  barrier = 0,
  broadcast = 1,
  all_reduce = 2,
  new_group = 3,  ///< creation of a sub-group: a barrier whose digest is the list of ranks
  close = 4,      ///< reserved, never called: destroying a group compares nothing today
};

/// Number of kinds; every valid Kind is below it.
inline constexpr int kKindCount = 5;

/// "all_reduce", ...
[[nodiscard]] std::string_view to_string(Kind kind) noexcept;

/// One call as a value: what to do with which memory. Plain data; can be printed, hashed, compared
/// between ranks, recorded and replayed. Ranks are the group's own.
struct Collective {
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;                         ///< broadcast: the source
  std::uint64_t digest = 0;             ///< new_group: hash of the ranks; otherwise 0
  std::chrono::nanoseconds timeout{0};  ///< always set by the group before submit
  TensorView input;
  TensorView output;
};

/// One line for people: "all_reduce(SUM, float32 x 1000)".
[[nodiscard]] std::string describe(const Collective& call);

}  // namespace tutti
