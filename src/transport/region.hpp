#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "transport/shm/layout.hpp"

// The engine's view of the memory that the ranks of its host share. Plain pointers: real
// mappings (shm/host.hpp) or ordinary memory where ranks are simulated.
namespace tutti::transport {

struct RegionPeer {
  int rank = 0;  ///< global
  const std::byte* arena = nullptr;
  std::size_t arena_bytes = 0;  ///< what can be read now: its rings, and staging up to here
  shm::Page* page = nullptr;
  int eventfd = -1;   ///< wakes its progress thread
  bool died = false;  ///< its process has ended, as Host::ended reported to this rank

  [[nodiscard]] const shm::ArenaHeader& header() const noexcept {
    return *reinterpret_cast<const shm::ArenaHeader*>(arena);
  }
  [[nodiscard]] const shm::GroupBlock& group(int slot) const noexcept {
    return *reinterpret_cast<const shm::GroupBlock*>(
        arena + shm::kGroupsOffset + static_cast<std::size_t>(slot) * shm::kGroupStride);
  }
  /// The ring counters between that rank and another, and its ring to that one.
  [[nodiscard]] const shm::RingCounters& ring_counters(int to) const noexcept {
    return reinterpret_cast<const shm::RingCounters*>(arena + shm::kRingCountersOffset)[to];
  }
  [[nodiscard]] const std::byte* ring(int to) const noexcept {
    return arena + shm::kRingOffset + static_cast<std::size_t>(to) * shm::kRingStride;
  }
  [[nodiscard]] const shm::ShortMessage* shorts(int to) const noexcept {
    return reinterpret_cast<const shm::ShortMessage*>(ring(to) + shm::kRingBytes);
  }
  /// The id of the group in a slot of that rank; written last when a group is made.
  [[nodiscard]] const std::atomic<std::uint64_t>& group_id(int slot) const noexcept {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(arena + shm::kDirectoryOffset)[slot];
  }
};

/// The ranks of this host, by local index; `self` is ours.
struct Regions {
  std::vector<RegionPeer> peers;
  int self = 0;
  std::byte* arena = nullptr;  ///< ours, writable
  /// Maps more of a peer's arena, up to that offset, and sets its `arena_bytes`; false: this
  /// process may not map so much. Empty: all that there is has been mapped.
  std::function<bool(int local, std::size_t end)> map_to;

  [[nodiscard]] shm::ArenaHeader& header() const noexcept {
    return *reinterpret_cast<shm::ArenaHeader*>(arena);
  }
  [[nodiscard]] shm::GroupBlock& group(int slot) const noexcept {
    return *reinterpret_cast<shm::GroupBlock*>(arena + shm::kGroupsOffset +
                                               static_cast<std::size_t>(slot) * shm::kGroupStride);
  }
  [[nodiscard]] shm::RingCounters& ring_counters(int to) const noexcept {
    return reinterpret_cast<shm::RingCounters*>(arena + shm::kRingCountersOffset)[to];
  }
  [[nodiscard]] std::byte* ring(int to) const noexcept {
    return arena + shm::kRingOffset + static_cast<std::size_t>(to) * shm::kRingStride;
  }
  [[nodiscard]] shm::ShortMessage* shorts(int to) const noexcept {
    return reinterpret_cast<shm::ShortMessage*>(ring(to) + shm::kRingBytes);
  }
  [[nodiscard]] std::atomic<std::uint64_t>& group_id(int slot) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(arena + shm::kDirectoryOffset)[slot];
  }
  [[nodiscard]] shm::Page& page() const noexcept {
    return *peers[static_cast<std::size_t>(self)].page;
  }
};

}  // namespace tutti::transport
