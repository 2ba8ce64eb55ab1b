#include "engine/staging.hpp"

#include <string>
#include <utility>

namespace tutti::engine {

namespace shm = transport::shm;

namespace {
constexpr std::size_t kPieces = 1024;  // more pieces than the ring has room for at 4 KiB each
constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}
}  // namespace

Staging::Staging(std::byte* arena, Reusable reusable, Populate populate, std::size_t cycle)
    : arena_(arena),
      reusable_(reusable),
      populate_(std::move(populate)),
      cycle_(cycle),
      ring_(kPieces),
      heap_at_(shm::kHeapOffset) {}

bool Staging::is_free(const Piece& piece, Reusable reusable) noexcept {
  return piece.group == nullptr || reusable(*piece.group, piece.seq);
}

/// True if the rest of the ring and its first `bytes` are free.
bool Staging::start_is_free(std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < out_; ++i) {
    const Piece& piece = ring_[(oldest_ + i) % kPieces];
    if (piece.begin < at_ && piece.begin >= bytes) break;  // neither it nor a younger one is there
    if (!is_free(piece, reusable_)) return false;
  }
  return true;
}

Result<std::size_t> Staging::take(Group& group, std::uint64_t seq, std::size_t bytes) {
  bytes = round_up(bytes, 64);
  if (bytes > shm::kStagingBytes) return take_beside(group, seq, bytes);
  std::size_t begin = at_;
  if (begin + bytes > shm::kStagingBytes || (begin + bytes > cycle_ && start_is_free(bytes)))
    begin = 0;
  const std::size_t end = begin + bytes;
  // Pieces are handed out in order, so only the oldest ones can lie in the way.
  while (out_ > 0) {
    const Piece& piece = ring_[oldest_];
    const bool overlaps = piece.begin < end && begin < piece.end;
    // Starting over skips the rest of the ring. Pieces there are older than those at the start, so
    // they must be free, too.
    const bool skipped = begin < at_ && piece.begin >= at_;
    if (!overlaps && !skipped && out_ < kPieces) break;
    if (!is_free(piece, reusable_)) return take_beside(group, seq, bytes);
    oldest_ = (oldest_ + 1) % kPieces;
    --out_;
  }
  if (end > populated_) {
    const std::size_t upto = std::min(round_up(end, 256 * 1024), shm::kStagingBytes);
    if (Outcome s = populate_(arena_ + shm::kStagingOffset + populated_, upto - populated_);
        !s.ok())
      return s;
    populated_ = upto;
  }
  ring_[(oldest_ + out_) % kPieces] = {begin, end, &group, seq};
  ++out_;
  at_ = end;
  return shm::kStagingOffset + begin;
}

Result<std::size_t> Staging::take_beside(Group& group, std::uint64_t seq, std::size_t bytes) {
  for (Piece& piece : beside_) {
    if (piece.end - piece.begin >= bytes && is_free(piece, reusable_)) {
      piece.group = &group;
      piece.seq = seq;
      return piece.begin;
    }
  }
  const std::size_t size = round_up(bytes, 4096);
  if (heap_at_ + size > shm::kUserOffset) {
    return Outcome(Errc::resource, "no room for " + std::to_string(bytes) + " bytes of staging");
  }
  if (Outcome s = populate_(arena_ + heap_at_, size); !s.ok()) return s;
  beside_.push_back({heap_at_, heap_at_ + size, &group, seq});
  heap_at_ += size;
  return beside_.back().begin;
}

void Staging::forget(const Group& group) noexcept {
  for (Piece& piece : ring_) {
    if (piece.group == &group) piece.group = nullptr;
  }
  for (Piece& piece : beside_) {
    if (piece.group == &group) piece.group = nullptr;
  }
}

}  // namespace tutti::engine
