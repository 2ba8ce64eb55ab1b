#include "verify/sim/memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

namespace tutti::verify::sim {

using transport::RegionPeer;

namespace {

// Sparse: only what is touched costs. Room for staging beside the ring.
constexpr std::size_t kBytes = shm::kHeapOffset + (std::size_t{1} << 30);

/// Mapping and unmapping costs more than many a simulation.
class Spare {
 public:
  ~Spare() {
    for (std::byte* const arena : arenas_) ::munmap(arena, kBytes);
  }
  std::byte* acquire() {
    if (!arenas_.empty()) {
      std::byte* const arena = arenas_.back();
      arenas_.pop_back();
      std::memset(arena, 0, sizeof(shm::ArenaHeader));
      clear_shorts(arena);
      std::memset(arena + shm::kRingCountersOffset, 0,
                  shm::kMaxLocalRanks * sizeof(shm::RingCounters));
      std::memset(arena + shm::kDirectoryOffset, 0, shm::kMaxGroups * 8);
      return arena;
    }
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }
  /// The lines that a program has used; a ring need not be cleared, as its counters are.
  static void clear_shorts(std::byte* arena) {
    transport::Regions regions;
    regions.arena = arena;
    for (int to = 0; to < shm::kMaxLocalRanks; ++to) {
      if (regions.ring_counters(to).sends_short.load(std::memory_order_relaxed) == 0) continue;
      std::memset(static_cast<void*>(regions.shorts(to)), 0,
                  shm::kShortMessages * sizeof(shm::ShortMessage));
    }
  }
  void release(std::byte* arena) { arenas_.push_back(arena); }

 private:
  std::vector<std::byte*> arenas_;
};

Spare& spare() {
  thread_local Spare arenas;
  return arenas;
}

}  // namespace

Memory::Memory(std::vector<int> host_of) : host_of_(std::move(host_of)) {
  const std::size_t size = host_of_.size();
  for (std::size_t rank = 0; rank < size; ++rank) {
    arenas_.push_back(spare().acquire());
    pages_.push_back(std::make_unique<shm::Page>());
  }
  regions_.resize(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    Regions& regions = regions_[rank];
    regions.arena = arenas_[rank];
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (host_of_[peer] != host_of_[rank]) continue;
      if (peer == rank) regions.self = static_cast<int>(regions.peers.size());
      RegionPeer seen;
      seen.rank = static_cast<int>(peer);
      seen.arena = arenas_[peer];
      seen.arena_bytes = kBytes;
      seen.page = pages_[peer].get();
      regions.peers.push_back(seen);
    }
    shm::ArenaHeader& header = regions.header();
    header.magic = shm::kMagic;
    header.version = shm::kLayoutVersion;
    header.rank = static_cast<int>(rank);
    header.pid = static_cast<int>(rank) + 1;
  }
}

Memory::~Memory() {
  for (std::byte* const arena : arenas_) spare().release(arena);
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
