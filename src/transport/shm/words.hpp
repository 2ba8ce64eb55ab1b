#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "transport/shm/layout.hpp"

// How ranks write and read the words of layout.hpp that order other memory. The types are template
// parameters, so that tests/models runs this code with the words of a checker.
namespace tutti::transport::shm {

// ---- lines and counters -------------------------------------------------------------------------

/// Shows an arrival line to the other ranks. `write` writes what is not in the line yet.
/// (By reference: else the compiler loads both numbers before and keeps them.)
template <class Line, class Write>
void publish_line(Line& line, const std::uint64_t& fingerprint, const std::uint64_t& number,
                  Write write) noexcept {
  line.fingerprint = fingerprint;
  write();
  line.epoch.store(number, std::memory_order_release);  // pairs with has_come
}

/// The line of operation `number` is there, as a whole. (By reference: as above.)
template <class Line>
[[nodiscard]] bool has_come(const Line& line, const std::uint64_t& number) noexcept {
  // acquire: pairs with publish_line; payload and fingerprint were written before.
  return line.epoch.load(std::memory_order_acquire) == number;
}

/// Raises a counter. A rank that sees the value sees all that this rank has done before.
template <class Counter>
void raise_counter(Counter& counter, std::uint64_t value) noexcept {
  counter.value.store(value, std::memory_order_release);  // pairs with value_of
}

template <class Counter>
[[nodiscard]] std::uint64_t value_of(const Counter& counter) noexcept {
  // acquire: pairs with raise_counter. The data that it counts were written before; with `done`,
  // the other rank has read ours before.
  return counter.value.load(std::memory_order_acquire);
}

/// Writes a call before its line is published. Mostly it stands there already; a line of the cache
/// that is not written need not be fetched.
inline void record_call(CallRecord& record, const std::array<std::uint64_t, 3>& call) noexcept {
  for (std::size_t i = 0; i < call.size(); ++i) {
    // relaxed: published with the line.
    if (record.call[i].load(std::memory_order_relaxed) != call[i])
      record.call[i].store(call[i], std::memory_order_relaxed);
  }
}

[[nodiscard]] inline std::array<std::uint64_t, 3> recorded_call(const CallRecord& record) noexcept {
  // relaxed: the line came before, and it may be written anew meanwhile.
  const auto word = [&](int i) { return record.call[i].load(std::memory_order_relaxed); };
  return {word(0), word(1), word(2)};
}

/// The value of `done` when all operations up to `number` have ended, and the number in it.
[[nodiscard]] constexpr std::uint64_t done_word(std::uint64_t number,
                                                std::uint64_t fingerprint) noexcept {
  return number << kCounterShift | (fingerprint & ((std::uint64_t{1} << kCounterShift) - 1));
}
[[nodiscard]] constexpr std::uint64_t number_of(std::uint64_t done) noexcept {
  return done >> kCounterShift;
}

// ---- group blocks -------------------------------------------------------------------------------

/// Shows a block to the members of a group. It may have served another group, whose lines must not
/// be taken for this group's: so the id is removed first and written last.
template <class Word, class Block, class BreakWord>
void show_block(Word& directory, Block& block, BreakWord& break_word, std::uint64_t id) noexcept {
  // A rank that no longer finds the old id knows that we have read all of that group.
  directory.store(0, std::memory_order_seq_cst);
  // relaxed, as all below: published by the release of the id.
  for (auto& line : block.lines)
    line.epoch.store(0, std::memory_order_relaxed);  // pairs with has_come
  for (auto& of_operation : block.counters) {
    for (auto& counter : of_operation)
      counter.value.store(0, std::memory_order_relaxed);  // pairs with value_of
  }
  block.done.value.store(0, std::memory_order_relaxed);  // pairs with value_of
  block.note.length = 0;
  break_word.store(0, std::memory_order_relaxed);  // pairs with tell_break
  directory.store(id, std::memory_order_release);  // pairs with serves_group
}

/// True if the block belongs to the group: its lines were cleared before. False: if it has belonged
/// to it, its rank has read all that it wanted of the group.
template <class Word>
[[nodiscard]] bool serves_group(const Word& directory, const std::uint64_t& id) noexcept {
  return directory.load(std::memory_order_acquire) == id;  // pairs with show_block
}

// ---- rings --------------------------------------------------------------------------------------

/// Shows that this rank has written so far into its ring.
template <class Counters>
void show_written(Counters& mine, std::uint64_t written) noexcept {
  mine.written.store(written, std::memory_order_release);  // pairs with written_by
}

template <class Counters>
[[nodiscard]] std::uint64_t written_by(const Counters& theirs) noexcept {
  // acquire: pairs with show_written; the frames lie before it.
  return theirs.written.load(std::memory_order_acquire);
}

/// Shows that this rank has read so far in the other's ring.
template <class Counters>
void show_taken(Counters& mine, std::uint64_t taken) noexcept {
  mine.taken.store(taken, std::memory_order_release);  // pairs with taken_by
}

template <class Counters>
[[nodiscard]] std::uint64_t taken_by(const Counters& theirs) noexcept {
  // acquire: pairs with show_taken; the reads of the ring lie before it.
  return theirs.taken.load(std::memory_order_acquire);
}

/// Shows a short message, whose other fields were written before.
template <class Message>
void show_short(Message& message, std::uint64_t count) noexcept {
  // pairs with short_has_come
  message.count.store(static_cast<std::uint32_t>(count), std::memory_order_release);
}

template <class Message>
[[nodiscard]] bool short_has_come(const Message& message, std::uint64_t count) noexcept {
  // acquire: pairs with show_short; the other fields were written before.
  return message.count.load(std::memory_order_acquire) == static_cast<std::uint32_t>(count);
}

/// Shows that this rank has read so many short messages of the other.
template <class Counters>
void show_shorts_taken(Counters& mine, std::uint64_t taken) noexcept {
  mine.shorts_taken.store(taken, std::memory_order_release);  // pairs with shorts_taken_by
}

template <class Counters>
[[nodiscard]] std::uint64_t shorts_taken_by(const Counters& theirs) noexcept {
  // acquire: pairs with show_shorts_taken; they were read before.
  return theirs.shorts_taken.load(std::memory_order_acquire);
}

/// True if the writer may wait for the room that show_taken has just shown; it has seen `before`
/// until then. `least`: bytes that are under way at the least when there is no room. Call it where
/// the park word is read.
template <class Counters>
[[nodiscard]] bool may_wait_for_room(const Counters& theirs, std::uint64_t before,
                                     std::uint64_t least) noexcept {
  // As in is_parked: the compiler must not move the load before show_taken.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // A peer that waits for room has seen `before`, and its `written` lies before its fence, so we
  // see it here. relaxed: ordered as the park word (is_parked).
  const std::uint64_t written = theirs.written.load(std::memory_order_relaxed) & ~kLastWord;
  return written - before >= least;
}

}  // namespace tutti::transport::shm
