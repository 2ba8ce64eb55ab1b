#include "record/flight_recorder.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "os/handed_memory.hpp"

namespace tutti::record {
namespace {

ClockPair now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return {os::ticks(), static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

template <std::size_t size>
void put(std::array<char, size>& to, const std::string& text) noexcept {
  to.fill(0);
  std::memcpy(to.data(), text.data(), std::min(text.size(), size - 1));
}

using Shared = std::pair<os::Fd, os::Mapping>;

Header& header_of(const Shared& shared) {
  return reinterpret_cast<Memory*>(shared.second.data())->header;
}

/// Takes a place that is free, or of a process that has ended.
void note_joined(Header& header) noexcept {
  const auto self = static_cast<std::int32_t>(::getpid());
  for (const auto& place : header.joined)
    if (place.load() == self) return;
  for (auto& place : header.joined) {
    std::int32_t before = place.load();
    if (before != 0 && (::kill(before, 0) == 0 || errno != ESRCH)) continue;
    if (place.compare_exchange_strong(before, self)) return;
  }
}

/// The memory that a launcher has handed to this process, if it can be reached.
std::optional<Shared> handed() {
  const char* const text = std::getenv(os::kRecordVariable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  auto fd = os::find_handed(text, os::HandedAccess::write, os::kRecordVariable);
  if (!fd || !os::check_memfd(*fd, kRecordBytes).ok()) return std::nullopt;
  Result<os::Mapping> mapping = os::map_shared(*fd, kRecordBytes, true);
  if (!mapping) return std::nullopt;
  Shared shared(std::move(*fd), std::move(*mapping));
  const Header& header = header_of(shared);
  if (header.magic != kRecordMagic || header.version != kRecordVersion) return std::nullopt;
  note_joined(header_of(shared));
  return shared;
}

/// The same, unless another process records there. A program of a worker may have inherited the
/// variable.
std::optional<Shared> given() {
  auto shared = handed();
  std::int32_t free = 0;
  if (!shared ||
      !header_of(*shared).pid.compare_exchange_strong(free, static_cast<std::int32_t>(::getpid())))
    return std::nullopt;
  return shared;
}

}  // namespace

Result<os::Fd> FlightRecorder::make_memory() {
  Result<os::Fd> fd = os::make_memfd(kMemoryName, kRecordBytes);
  if (!fd) return fd;
  Result<os::Mapping> mapping = os::map_shared(*fd, kRecordBytes, true);
  if (!mapping) return mapping.status();
  if (Status s = os::populate(mapping->data(), kRecordBytes); !s.ok()) return s;
  new (mapping->data()) Memory;
  return fd;
}

void FlightRecorder::announce() { static_cast<void>(handed()); }

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::make(int rank, int size,
                                                             const std::string& host) {
  auto taken = given();
  if (!taken) {
    Result<os::Fd> fd = make_memory();
    if (!fd) return fd.status();
    Result<os::Mapping> mapping = os::map_shared(*fd, kRecordBytes, true);
    if (!mapping) return mapping.status();
    taken.emplace(std::move(*fd), std::move(*mapping));
  }
  std::unique_ptr<FlightRecorder> made(
      new FlightRecorder(std::move(taken->first), std::move(taken->second)));
  Header& header = made->memory_->header;
  header.rank = rank;
  header.size = size;
  put(header.host, host);
  header.first = header.last = now();
  header.pid.store(static_cast<std::int32_t>(::getpid()));
  return made;
}

void FlightRecorder::add_rest(Entry& entry, const Collective& call) noexcept {
  if (!is_collective(call.kind)) {
    entry.more = call.tag;
    if (call.kind != Kind::send) entry.dtype = static_cast<std::uint8_t>(call.output.dtype());
  }
  if (call.details == nullptr) return;
  for (const TensorView& view : call.details->inputs) entry.input_bytes += view.size_bytes();
  for (const TensorView& view : call.details->outputs) entry.output_bytes += view.size_bytes();
  for (const Piece& piece : call.details->input_pieces)
    entry.input_bytes += piece.view.size_bytes();
  for (const Piece& piece : call.details->output_pieces)
    entry.output_bytes += piece.view.size_bytes();
}

void FlightRecorder::began(std::uint64_t number) noexcept {
  if (written_ - number > kEntries) return;
  Entry& entry = memory_->ring[number % kEntries];
  entry.began = os::ticks();
  entry.state = EntryState::running;
}

void FlightRecorder::waits_for(std::uint64_t number, int rank) noexcept {
  if (written_ - number > kEntries) return;
  memory_->ring[number % kEntries].more = rank;
}

void FlightRecorder::note_time() noexcept { memory_->header.last = now(); }

std::uint16_t FlightRecorder::add_group(std::uint64_t id, const std::string& name, int rank,
                                        int size) noexcept {
  for (std::size_t place = 0; place < kGroups; ++place) {
    const bool forgotten = places_[place] == Place::left && written_ - left_at_[place] >= kEntries;
    if (places_[place] != Place::free && !forgotten) continue;
    places_[place] = Place::used;
    GroupEntry& group = memory_->header.groups[place];
    group.id = id;
    group.rank = rank;
    group.size = size;
    put(group.name, name);
    return static_cast<std::uint16_t>(place);
  }
  return kNoGroup;
}

void FlightRecorder::remove_group(std::uint16_t place) noexcept {
  if (place >= kGroups) return;
  places_[place] = Place::left;
  left_at_[place] = written_;
}

}  // namespace tutti::record
