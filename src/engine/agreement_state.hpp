#pragma once

#include <cstdint>

namespace tutti::engine {

/// The agreement of an operation beyond lines and the heads of frames (Agreement).
struct AgreementState {
  bool uses_tokens = false;      ///< tokens go round before anything is written
  bool token_sent = false;       ///< the token of the round that is not complete has gone out
  std::int16_t token_round = 0;  ///< rounds that are complete
  std::uint32_t tokens = 0;      ///< bit k: that of round k has come
  int disagreeing_rank = -1;     ///< a rank whose calls differ further back: it was asked which

  void begin(bool with_tokens) noexcept {
    uses_tokens = with_tokens;
    disagreeing_rank = -1;
  }
  /// Rounds among so many ranks: ceil(log2).
  [[nodiscard]] static int rounds_of(int size) noexcept {
    int rounds = 0;
    while ((std::int64_t{1} << rounds) < size) ++rounds;
    return rounds;
  }
  [[nodiscard]] bool has_all_tokens(int size) const noexcept {
    return token_round >= rounds_of(size);
  }
  /// In round k every rank tells the rank 2^k further on.
  [[nodiscard]] int token_to(int rank, int size) const noexcept {
    return static_cast<int>((rank + (std::int64_t{1} << token_round)) % size);
  }
  [[nodiscard]] int token_from(int rank, int size) const noexcept {
    const std::int64_t from = (rank - (std::int64_t{1} << token_round)) % size;
    return static_cast<int>(from < 0 ? from + size : from);
  }
};

}  // namespace tutti::engine
