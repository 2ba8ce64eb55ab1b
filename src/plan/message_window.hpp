#pragma once

#include <algorithm>
#include <cstddef>

#include "base/index.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

inline constexpr int kChunksInFlight = 4;  ///< chunks that may be on their way from one rank

/// The chunk length for a rank that receives kChunksInFlight chunks of every rank at a time. It is
/// shorter in larger groups, so that they take 2 MiB together, but not too short for a message.
/// With 2 MiB on their way a link of 12 GB/s is busy during a round trip of 170 us.
[[nodiscard]] inline std::size_t window_chunk(const Shape& s) noexcept {
  constexpr std::size_t kTogether = std::size_t{2} << 20;
  constexpr std::size_t kLeast = std::size_t{16} * 1024;
  const std::size_t chunks = base::as_size(kChunksInFlight) * base::as_size(s.size);
  return std::min(s.chunk_bytes, std::max(kTogether / chunks / 64 * 64, kLeast));
}

/// The contributions on their way to the owners: each rank owns a part (`part_of(owner, chunk)`),
/// and all others send it their piece of a chunk, kChunksInFlight chunks ahead. An owner keeps the
/// pieces of a chunk in neighbouring slots, by rank.
template <class Part>
struct Contributions {
  Program& p;
  const Shape& s;
  Part part_of;

  [[nodiscard]] Expr slot(int ahead, Expr rank) const {
    return window_slot(kChunksInFlight, s.size, ahead, rank);
  }
  [[nodiscard]] Slice slice(Expr owner, int ahead) const {
    return part_of(owner, Expr::loop() + ahead);
  }
  /// Exchanges the pieces of chunk i + ahead.
  void exchange(int ahead) const {
    p.for_each_other([&](Expr peer) {
      p.recv(peer, scratch(slot(ahead, peer), slice(s.rank, ahead)));
      p.send(peer, input(slice(peer, ahead)));
    });
  }
  /// Posts the receives of the results of chunk i + ahead.
  void post_results(int ahead) const {
    p.for_each_other([&](Expr peer) { p.recv(peer, output(slice(peer, ahead))); });
  }
};

template <class Part>
Contributions(Program&, const Shape&, Part) -> Contributions<Part>;

/// The whole schedule of a reduction of one rank alone.
[[nodiscard]] inline Schedule alone(Program& p) {
  p.agree();
  p.copy(output(whole()), input(whole()));
  return p.take();
}

}  // namespace tutti::plan
