#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <tutti/error.hpp>

#include "transport/shm/layout.hpp"

namespace tutti::engine {

struct Group;

/// Hands out staging memory of this rank's arena, mostly from a ring: memory that was used a moment
/// ago is in the caches of peers, and each line of it costs an invalidation when it is written.
/// A piece may be used again when every member of its group on this host has passed the operation.
class Staging {
 public:
  /// `reusable(group, seq)`: have all members passed this operation? `arena` may lack pages: they
  /// are taken at first use and kept.
  using Reusable = bool (*)(Group&, std::uint64_t seq);
  /// Allocates pages, or returns an error if memory is short.
  using Populate = std::function<Outcome(std::byte* data, std::size_t size)>;
  /// `cycle`: after this many bytes the ring starts over, if its start is free again by then.
  Staging(std::byte* arena, Reusable reusable, Populate populate,
          std::size_t cycle = transport::shm::kStagingBytes);

  /// Returns an offset in the arena, 64-byte aligned, for `bytes` of memory. Never waits: if the
  /// ring is occupied, it takes memory of the heap, so that a group whose peers are late does not
  /// block another group.
  [[nodiscard]] Result<std::size_t> take(Group& group, std::uint64_t seq, std::size_t bytes);
  /// Everything of this group may be used again (it is closed, or all its members are gone).
  void forget(const Group& group) noexcept;

 private:
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
    Group* group = nullptr;  ///< nullptr: free
    std::uint64_t seq = 0;
  };
  [[nodiscard]] static bool is_free(const Piece& piece, Reusable reusable) noexcept;
  [[nodiscard]] bool start_is_free(std::size_t bytes) noexcept;
  [[nodiscard]] Result<std::size_t> take_beside(Group& group, std::uint64_t seq, std::size_t bytes);

  std::byte* arena_;
  Reusable reusable_;
  Populate populate_;
  std::size_t cycle_;
  std::size_t at_ = 0;         ///< next byte of the ring
  std::size_t populated_ = 0;  ///< the ring has pages up to here
  std::vector<Piece> ring_;    ///< a circular buffer of the pieces in use, oldest first
  std::size_t oldest_ = 0;
  std::size_t out_ = 0;
  std::vector<Piece> beside_;
  std::size_t heap_at_;
};

}  // namespace tutti::engine
