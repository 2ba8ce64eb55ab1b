#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <tutti/error.hpp>

#include "transport/shm/layout.hpp"

namespace tutti::engine {

struct Group;

/// Hands out staging memory of this rank's arena. Mostly a ring that is cycled, because memory that
/// a peer still caches costs an invalidation per line when it is written again soon.
/// A piece may be used again when every member of its group on this host has passed the operation.
class Staging {
 public:
  /// `reusable(group, seq)`: have all members passed this operation? `arena` may lack pages: they
  /// are taken at first use and kept.
  using Reusable = bool (*)(Group&, std::uint64_t seq);
  /// Takes pages for good, or says that memory lacks.
  using Populate = Status (*)(std::byte* data, std::size_t size);
  /// `cycle`: how much of the ring is cycled as long as its start is free again by then.
  Staging(std::byte* arena, Reusable reusable, Populate populate,
          std::size_t cycle = transport::shm::kStagingBytes) noexcept;

  /// `bytes` of memory, 64-byte aligned, as an offset in the arena. Never waits: where the ring is
  /// occupied (a group whose peers are late must not block another) it takes memory beside it.
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
  std::vector<Piece> ring_;    ///< a circular buffer of what is out, oldest first
  std::size_t oldest_ = 0;
  std::size_t out_ = 0;
  std::vector<Piece> beside_;
  std::size_t heap_at_;
};

}  // namespace tutti::engine
