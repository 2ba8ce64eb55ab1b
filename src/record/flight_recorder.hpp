#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <tutti/backend/collective.hpp>
#include <tutti/backend/kinds.hpp>
#include <tutti/error.hpp>

#include "os/cpu.hpp"
#include "os/fd.hpp"
#include "os/shared_memory.hpp"
#include "record/layout.hpp"

namespace tutti::record {

/// Writes the last operations of a rank into memory that others can read while it runs and after it
/// was killed. A call costs one read of the CPU's counter and one cache line.
///
/// Threads: none; under the driver lock.
class FlightRecorder {
 public:
  /// Takes the memory that a launcher has left for this process (TUTTI_RECORD_FD), or makes its
  /// own.
  [[nodiscard]] static Result<std::unique_ptr<FlightRecorder>> make(int rank, int size,
                                                                    const std::string& host);
  /// Without a recorder: tells the launcher that this process has joined as a rank.
  static void announce();
  /// Memory that a launcher keeps, and hands to a worker.
  [[nodiscard]] static Result<os::Fd> make_memory();

  /// A call; its number.
  std::uint64_t called(std::uint16_t group, std::uint64_t seq, const Collective& call,
                       EntryState state) noexcept {
    Entry& entry = memory_->ring[written_ % kEntries];
    entry.called = os::ticks();
    entry.began = 0;
    entry.ended = 0;
    entry.seq = seq;
    entry.input_bytes = call.input.size_bytes();
    entry.output_bytes = call.output.size_bytes();
    entry.group = group;
    entry.kind = static_cast<std::uint8_t>(call.kind);
    entry.dtype = static_cast<std::uint8_t>(call.input.dtype());
    entry.op = static_cast<std::uint8_t>(call.op);
    entry.state = state;
    entry.peer = call.root;
    entry.more = -1;
    if (call.details != nullptr || !is_collective(call.kind)) [[unlikely]]
      add_rest(entry, call);
    const std::uint64_t number = written_++;
    // release: a reader that sees the number sees the entry.
    memory_->header.written.store(written_, std::memory_order_release);
    return number;
  }
  /// A call that was queued has got its slot.
  void began(std::uint64_t number) noexcept;
  /// It has ended. `waited`: its caller had left the spin, so a clock may be read.
  void ended(std::uint64_t number, bool failed, bool waited) noexcept {
    if (written_ - number > kEntries) [[unlikely]]
      return;  // its place is another's
    Entry& entry = memory_->ring[number % kEntries];
    if (waited) entry.ended = os::ticks();
    entry.state = failed ? EntryState::failed : EntryState::done;
  }
  /// It was seen to wait for this rank of the world; -1: for none. Not of a send or recv.
  void waits_for(std::uint64_t number, int rank) noexcept;
  /// Notes the time by both clocks. Now and then, while something waits.
  void note_time() noexcept;

  /// A place for the group; kNoGroup: all are taken by groups of which operations are recorded.
  [[nodiscard]] std::uint16_t add_group(std::uint64_t id, const std::string& name, int rank,
                                        int size) noexcept;
  void remove_group(std::uint16_t place) noexcept;

 private:
  FlightRecorder(os::Fd fd, os::Mapping mapping) noexcept
      : fd_(std::move(fd)),
        mapping_(std::move(mapping)),
        memory_(reinterpret_cast<Memory*>(mapping_.data())) {}
  static void add_rest(Entry& entry, const Collective& call) noexcept;

  os::Fd fd_;  ///< by it `tutti status` finds the memory
  os::Mapping mapping_;
  Memory* memory_;
  std::uint64_t written_ = 0;
  enum class Place : std::uint8_t { free, used, left };
  std::array<Place, kGroups> places_{};
  std::array<std::uint64_t, kGroups> left_at_{};  ///< `written_` when the group was removed
};

}  // namespace tutti::record
