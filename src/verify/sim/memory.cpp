#include "verify/sim/memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <new>
#include <utility>

namespace tutti::verify::sim {

namespace {

// Sparse: only what is touched costs. Room for staging beside the ring, and for some inputs that
// other ranks read where they lie.
constexpr std::size_t kUserBytes = std::size_t{64} << 20;
constexpr std::size_t kArena = shm::kUserOffset + kUserBytes;

/// Mapping and unmapping costs more than many a simulation.
class Spare {
 public:
  ~Spare() {
    for (const auto& [bytes, all] : spare_) {
      for (std::byte* const one : all) ::munmap(one, bytes);
    }
  }
  /// Zeros, or what the last user has left.
  std::byte* acquire(std::size_t bytes) {
    std::vector<std::byte*>& all = spare_[bytes];
    if (!all.empty()) {
      std::byte* const memory = all.back();
      all.pop_back();
      return memory;
    }
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory, std::size_t bytes) { spare_[bytes].push_back(memory); }

 private:
  std::map<std::size_t, std::vector<std::byte*>> spare_;  ///< by size
};

Spare& spare() {
  thread_local Spare memory;
  return memory;
}

}  // namespace

Memory::Memory(std::vector<int> host_of) : host_of_(std::move(host_of)) {
  const std::size_t size = host_of_.size();
  std::map<int, std::vector<int>> hosts;
  for (std::size_t rank = 0; rank < size; ++rank)
    hosts[host_of_[rank]].push_back(static_cast<int>(rank));
  regions_.resize(size);
  for (const auto& [number, ranks] : hosts) {
    const shm::HostLayout layout{ranks.size()};
    std::byte* const control = spare().acquire(layout.control_bytes());
    controls_.emplace_back(control, layout.control_bytes());
    // All but the break words and the blocks, which are cleared when a group is made.
    std::memset(control, 0, layout.group_id(0, 0));
    std::vector<transport::RegionPeer> peers;
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      arenas_.push_back(spare().acquire(kArena));
      transport::RegionPeer peer;
      peer.rank = ranks[local];
      peer.control = {control, layout.ranks, local};
      peer.arena = arenas_.back();
      peer.arena_bytes = kArena;
      peer.control.words().rank = peer.rank;
      peer.control.words().pid = peer.rank + 1;
      base::at(regions_, peer.rank).arena = arenas_.back();
      base::at(regions_, peer.rank).user_bytes = kUserBytes;
      peers.push_back(peer);
    }
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      base::at(regions_, ranks[local]).peers = peers;
      base::at(regions_, ranks[local]).self = static_cast<int>(local);
    }
  }
}

Memory::~Memory() {
  // The lines of short messages must be zero for the next user; a ring need not, as its counters
  // are.
  for (const Regions& one : regions_) {
    for (int to = 0; to < static_cast<int>(one.peers.size()); ++to) {
      if (one.control().ring_counters(to).sends_short.load(std::memory_order_relaxed) == 0)
        continue;
      std::memset(static_cast<void*>(one.shorts(to)), 0,
                  shm::kShortLines * sizeof(shm::ShortMessage));
    }
  }
  for (std::byte* const arena : arenas_) spare().release(arena, kArena);
  for (const auto& [control, bytes] : controls_) spare().release(control, bytes);
}

std::vector<int> Memory::local_of(int rank) const {
  std::vector<int> local(host_of_.size(), -1);
  int index = 0;
  for (std::size_t peer = 0; peer < host_of_.size(); ++peer) {
    if (host_of_[peer] == base::at(host_of_, rank)) local[peer] = index++;
  }
  return local;
}

}  // namespace tutti::verify::sim
