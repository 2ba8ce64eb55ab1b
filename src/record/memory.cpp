#include "record/memory.hpp"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <utility>

#include "base/getenv.hpp"
#include "os/cpu.hpp"
#include "os/handed_memory.hpp"

namespace tutti::record {

ClockPair clocks() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return {os::ticks(), static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

bool take_place(std::atomic<std::int32_t>& place) noexcept {
  std::int32_t before = place.load();
  if (before != 0 && (::kill(before, 0) == 0 || errno != ESRCH)) return false;
  return place.compare_exchange_strong(before, static_cast<std::int32_t>(::getpid()));
}

Result<MappedMemory> new_memory() {
  Result<os::Fd> fd = os::make_memfd(kMemoryName, kRecordBytes);
  if (!fd) return fd.status();
  Result<os::Mapping> mapping = os::map_shared(*fd, kRecordBytes, true);
  if (!mapping) return mapping.status();
  if (Outcome s = os::populate(mapping->data(), kRecordBytes); !s.ok()) return s;
  new (mapping->data()) Memory;
  return MappedMemory{std::move(*fd), std::move(*mapping)};
}

std::optional<MappedMemory> handed_memory() {
  const std::string text = base::getenv(os::kRecordVariable);
  if (text.empty()) return std::nullopt;
  auto fd = os::find_handed(text, os::HandedAccess::write, os::kRecordVariable);
  if (!fd || !os::check_memfd(*fd, kRecordBytes).ok()) return std::nullopt;
  Result<os::Mapping> mapping = os::map_shared(*fd, kRecordBytes, true);
  if (!mapping) return std::nullopt;
  MappedMemory memory{std::move(*fd), std::move(*mapping)};
  if (memory.header().magic != kRecordMagic || memory.header().version != kRecordVersion)
    return std::nullopt;
  return memory;
}

}  // namespace tutti::record
