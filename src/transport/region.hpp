#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "transport/shm/layout.hpp"

// The engine's view of the memory that the ranks of its host share. Plain pointers: a real mapping
// (shm/host_memory.hpp) or ordinary memory where ranks are simulated.
namespace tutti::transport {

/// A rank in the control part of its host's memory, which every rank may write.
class RegionControl {
 public:
  RegionControl() noexcept = default;
  RegionControl(std::byte* memory, std::size_t ranks, std::size_t local) noexcept
      : memory_(memory),
        layout_{ranks},
        local_(local),
        words_(&at<shm::RankWords>(layout_.words(local))) {}

  [[nodiscard]] shm::RankWords& words() const noexcept { return *words_; }
  [[nodiscard]] shm::GroupBlock& group(int slot) const noexcept {
    return at<shm::GroupBlock>(layout_.block(static_cast<std::size_t>(slot), local_));
  }
  /// The id of the group in a slot of this rank; written last when a group is made.
  [[nodiscard]] std::atomic<std::uint64_t>& group_id(int slot) const noexcept {
    return at<std::atomic<std::uint64_t>>(layout_.group_id(static_cast<std::size_t>(slot), local_));
  }
  [[nodiscard]] std::atomic<std::uint64_t>& break_word(int slot) const noexcept {
    return at<std::atomic<std::uint64_t>>(
        layout_.break_word(static_cast<std::size_t>(slot), local_));
  }
  /// The words that this rank writes for the rings between it and another, by local index.
  [[nodiscard]] shm::RingCounters& ring_counters(int other) const noexcept {
    return at<shm::RingCounters>(layout_.ring_counters(static_cast<std::size_t>(other), local_));
  }

 private:
  template <class Part>
  [[nodiscard]] Part& at(std::size_t offset) const noexcept {
    return *reinterpret_cast<Part*>(memory_ + offset);
  }

  std::byte* memory_ = nullptr;
  shm::HostLayout layout_;
  std::size_t local_ = 0;
  shm::RankWords* words_ = nullptr;
};

struct RegionPeer {
  int rank = 0;  ///< global
  RegionControl control;
  const std::byte* arena = nullptr;
  std::size_t arena_bytes = 0;  ///< what can be read without `map`
  int eventfd = -1;             ///< wakes its progress thread
  bool died = false;            ///< its process has ended, as Host::ended reported to this rank

  [[nodiscard]] const shm::RankWords& words() const noexcept { return control.words(); }
  [[nodiscard]] const shm::GroupBlock& group(int slot) const noexcept {
    return control.group(slot);
  }
  /// The ring of that rank to another.
  [[nodiscard]] const std::byte* ring(int to) const noexcept {
    return arena + static_cast<std::size_t>(to) * shm::kRingStride;
  }
  [[nodiscard]] const shm::ShortMessage* shorts(int to) const noexcept {
    return reinterpret_cast<const shm::ShortMessage*>(ring(to) + shm::kRingBytes);
  }
};

/// The ranks of this host, by local index; `self` is ours.
struct Regions {
  std::vector<RegionPeer> peers;
  int self = 0;
  std::byte* arena = nullptr;  ///< ours, writable
  /// From kUserOffset of it on: so many bytes are our user's, and nothing else can lie there. 0: no
  /// input is read where it lies.
  std::size_t user_bytes = 0;
  /// Maps a range of a peer's arena, unless it is mapped; false: this process may not map so much.
  /// Empty: all that there is has been mapped.
  std::function<bool(int local, std::size_t begin, std::size_t bytes)> map;

  [[nodiscard]] const RegionControl& control() const noexcept {
    return peers[static_cast<std::size_t>(self)].control;
  }
  [[nodiscard]] std::byte* ring(int to) const noexcept {
    return arena + static_cast<std::size_t>(to) * shm::kRingStride;
  }
  [[nodiscard]] shm::ShortMessage* shorts(int to) const noexcept {
    return reinterpret_cast<shm::ShortMessage*>(ring(to) + shm::kRingBytes);
  }
  /// The ranks of our host take turns on so many CPUs.
  [[nodiscard]] bool is_crowded(int cpus) const noexcept {
    return peers.size() > static_cast<std::size_t>(cpus);
  }
};

}  // namespace tutti::transport
