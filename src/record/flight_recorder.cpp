#include "record/flight_recorder.hpp"

#include <unistd.h>

#include <optional>
#include <utility>

#include "record/memory.hpp"

namespace tutti::record {
namespace {

/// Takes a place that is free, or of a process that has ended.
void note_joined(Header& header) noexcept {
  const auto self = static_cast<std::int32_t>(::getpid());
  for (const auto& place : header.joined)
    if (place.load() == self) return;
  for (auto& place : header.joined)
    if (take_place(place)) return;
}

/// Tells the launcher, too, that this process has joined.
std::optional<MappedMemory> handed() {
  auto memory = handed_memory();
  if (memory) note_joined(memory->header());
  return memory;
}

/// The same, unless another process records there. A program of a worker may have inherited the
/// variable.
std::optional<MappedMemory> given() {
  auto memory = handed();
  std::int32_t free = 0;
  if (!memory ||
      !memory->header().pid.compare_exchange_strong(free, static_cast<std::int32_t>(::getpid())))
    return std::nullopt;
  return memory;
}

}  // namespace

Result<os::Fd> FlightRecorder::make_memory() {
  Result<MappedMemory> made = new_memory();
  if (!made) return made.status();
  return std::move(made->fd);
}

void FlightRecorder::announce() { static_cast<void>(handed()); }

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::make(int rank, int size,
                                                             const std::string& host) {
  auto taken = given();
  if (!taken) {
    Result<MappedMemory> made = new_memory();
    if (!made) return made.status();
    taken = std::move(*made);
  }
  std::unique_ptr<FlightRecorder> made(
      new FlightRecorder(std::move(taken->fd), std::move(taken->mapping)));
  Header& header = made->memory_->header;
  header.rank = rank;
  header.size = size;
  put(header.host, host);
  header.first = header.last = clocks();
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

void FlightRecorder::note_time() noexcept { memory_->header.last = clocks(); }

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
