#pragma once

#include <cstdint>

namespace tutti::engine {

/// The part of an operation that the Agreement has.
struct AgreementState {
  bool uses_tokens = false;      ///< tokens of all rounds must come before the output is written
  bool token_sent = false;       ///< our token of round `token_round` was sent
  std::int16_t token_round = 0;  ///< rounds that are complete
  std::uint32_t tokens = 0;      ///< bit k: the token of round k has come
  int disagreeing_rank = -1;     ///< an earlier call of this rank differs: it got our last calls

  void begin(bool with_tokens) noexcept {
    uses_tokens = with_tokens;
    disagreeing_rank = -1;
  }
  /// The number of rounds among `size` ranks: ceil(log2 size).
  [[nodiscard]] static int rounds_of(int size) noexcept {
    int rounds = 0;
    while ((std::int64_t{1} << rounds) < size) ++rounds;
    return rounds;
  }
  [[nodiscard]] bool has_all_tokens(int size) const noexcept {
    return token_round >= rounds_of(size);
  }
  /// In round k every rank sends its token to the rank 2^k further on.
  [[nodiscard]] int token_to(int rank, int size) const noexcept {
    return static_cast<int>((rank + (std::int64_t{1} << token_round)) % size);
  }
  [[nodiscard]] int token_from(int rank, int size) const noexcept {
    const std::int64_t from = (rank - (std::int64_t{1} << token_round)) % size;
    return static_cast<int>(from < 0 ? from + size : from);
  }
};

}  // namespace tutti::engine
