#include "transport/shm/host_memory.hpp"

#include <unistd.h>

#include <map>
#include <new>
#include <string>
#include <utility>

#include "base/forks.hpp"

namespace tutti::transport::shm {
namespace {

struct InProcess {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<HostMemory>> by_id;
};
InProcess& in_process() {
  static base::PerProcess<InProcess> ours;
  return ours.get();
}

}  // namespace

Result<os::Fd> HostMemory::make(std::size_t ranks) {
  Result<os::Fd> memory = os::make_memfd("tutti-host", HostLayout{ranks}.bytes());
  if (!memory) return memory;
  if (Outcome s = os::forbid_reopening(*memory); !s.ok()) return s;
  Result<os::Mapping> first = os::map_shared(*memory, sizeof(HostHeader), true);
  if (!first) return first.status();
  // Without this, touching a page when memory is short would kill the process (SIGBUS).
  if (Outcome s = os::populate(first->data(), sizeof(HostHeader)); !s.ok()) return s;
  new (first->data()) HostHeader{kMagic, kLayoutVersion, static_cast<std::uint32_t>(ranks)};
  return memory;
}

Result<std::shared_ptr<HostMemory>> HostMemory::map(os::Fd memory, std::size_t ranks,
                                                    std::uint64_t id) {
  const std::lock_guard lock(in_process().mutex);
  auto& by_id = in_process().by_id;
  std::erase_if(by_id, [](const auto& one) { return one.second.expired(); });
  if (const auto found = by_id.find(id); found != by_id.end()) {
    if (auto mapped = found->second.lock()) return mapped;
  }
  const HostLayout layout{ranks};
  if (Outcome s = os::check_memfd(memory, layout.bytes()); !s.ok()) return s;
  Result<os::PartialMapping> mapping =
      os::PartialMapping::map(std::move(memory), layout.bytes(), !os::address_space_is_limited());
  if (!mapping) return mapping.status();
  if (Outcome s = mapping->add_writable(0, layout.control_bytes()); !s.ok()) return s;
  std::shared_ptr<HostMemory> made(new HostMemory(std::move(*mapping), ranks));
  if (Outcome s = made->check(); !s.ok()) return s;
  by_id[id] = made;
  return made;
}

Outcome HostMemory::check() const {
  const auto& header = *reinterpret_cast<const HostHeader*>(mapping_.data());
  if (header.magic == kMagic && header.version == kLayoutVersion && header.ranks == layout_.ranks)
    return Outcome();
  return Outcome(Errc::refused, "the lowest rank on this host runs another version of tutti");
}

Result<RegionPeer> HostMemory::peer(std::size_t local, std::size_t reader) {
  RegionPeer peer;
  peer.control = control(local);
  peer.arena = mapping_.data() + layout_.arena(local);
  peer.arena_bytes = mapping_.whole() ? kArenaBytes : kHeapOffset;
  for (const auto& [begin, bytes] :
       {std::pair(reader * kRingStride, kRingStride), std::pair(kStagingOffset, kStagingBytes)}) {
    if (Outcome s = add(local, begin, bytes); !s.ok()) return s;
  }
  return peer;
}

Result<std::byte*> HostMemory::own(std::size_t local, int rank) {
  const RegionControl ours = control(local);
  // Other ranks write here, too, as soon as they know that all have come.
  const std::size_t lines = layout_.ranks * sizeof(RingCounters);
  for (const auto& [begin, bytes] : {std::pair(layout_.words(local), sizeof(RankWords)),
                                     std::pair(layout_.ring_counters(local, 0), lines)}) {
    if (Outcome s = os::populate(mapping_.data() + begin, bytes); !s.ok()) return s;
  }
  ours.words().rank = rank;
  ours.words().pid = ::getpid();
  const std::lock_guard lock(mutex_);
  const std::size_t arena = layout_.arena(local);
  if (mapping_.whole()) {
    if (Outcome s = mapping_.add_writable(arena, kArenaBytes); !s.ok()) return s;
  } else {
    for (const auto& [begin, bytes] : {std::pair(std::size_t{0}, layout_.ranks * kRingStride),
                                       std::pair(kStagingOffset, kStagingBytes)}) {
      if (Outcome s = mapping_.add_writable(arena + begin, bytes); !s.ok()) return s;
    }
  }
  return mapping_.data() + arena;
}

Outcome HostMemory::add(std::size_t local, std::size_t begin, std::size_t bytes) {
  if (mapping_.whole()) return Outcome();
  const std::lock_guard lock(mutex_);
  return mapping_.add(layout_.arena(local) + begin, bytes);
}

Outcome HostMemory::populate(std::byte* data, std::size_t size) {
  if (!mapping_.whole()) {
    const std::lock_guard lock(mutex_);
    const auto begin = static_cast<std::size_t>(data - mapping_.data());
    if (Outcome s = mapping_.add_writable(begin, size); !s.ok()) return s;
  }
  return os::populate(data, size);
}

}  // namespace tutti::transport::shm
