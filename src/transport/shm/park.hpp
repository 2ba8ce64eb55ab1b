#pragma once

#include <atomic>
#include <cstdint>

#include "transport/shm/layout.hpp"

// The park word of a rank (layout.hpp): how a thread goes to sleep, and how a rank that has
// published something sees that it must wake it. docs/design/threads.md explains why nothing is
// missed. The types are template parameters, so that tests/models runs this code with the words of
// a checker. `Fences` has `full`, a full fence of this thread, and `all_threads`, one of each
// thread of the host's ranks (os::Fences).
namespace tutti::transport::shm {

// ---- the rank that publishes --------------------------------------------------------------------

/// Call between a publication and is_parked. Only where sleepers cannot fence for us (`needed`).
template <class Fences>
void fence_publication(bool needed) noexcept {
  if (needed) Fences::full();
}

/// The rank sleeps: call wake. Costs one load if nobody sleeps. We need no fence between our store
/// and this load, because the sleeper issues a membarrier.
template <class Word>
[[nodiscard]] bool is_parked(const Word& park) noexcept {
  // The sleeper's membarrier orders what our CPU does; the compiler must not move the load before
  // the publication either. relaxed: pairs with fence_before_sleep.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return park.load(std::memory_order_relaxed) != 0;
}

/// Ends the sleep; returns in which way its thread is to be woken. One of many publishers pays.
template <class Word>
Park end_sleep(Word& park) noexcept {
  // acq_rel: pairs with the sleeper's store of the word, so that one of many publishers pays.
  return state_of(
      park.exchange(static_cast<std::uint32_t>(Park::awake), std::memory_order_acq_rel));
}

/// Sets our own break word of a group. Returns the one that was there before; 0: none. The note was
/// written before.
template <class Word>
[[nodiscard]] std::uint64_t claim_break(Word& ours, std::uint64_t word) noexcept {
  std::uint64_t shown = 0;
  // acq_rel: pairs with break_of.
  ours.compare_exchange_strong(shown, word, std::memory_order_acq_rel);
  return shown;
}

/// Sets the break word of another rank. True: call wake. The note was written before.
template <class Words, class Word>
[[nodiscard]] bool tell_break(Words& peer, Word& theirs, std::uint64_t word) noexcept {
  std::uint64_t none = 0;
  // acq_rel: pairs with break_of.
  if (!theirs.compare_exchange_strong(none, word, std::memory_order_acq_rel)) return false;
  peer.breaks.fetch_add(1, std::memory_order_seq_cst);
  return peer.park.load(std::memory_order_seq_cst) != 0;
}

// ---- the rank that sleeps -----------------------------------------------------------------------

/// Between the store of the park word and the last look. Publishers read the park word without a
/// fence; our membarrier is their fence. Without membarrier both sides fence: on ARM a later
/// acquire load may else be done before an earlier sequential store is seen.
template <class Fences>
void fence_before_sleep(bool for_others) noexcept {
  if (for_others) Fences::all_threads();
  Fences::full();
}

/// Marks that callers of this rank sleep, if none has; `sleeps` numbers the sleeps. Returns the
/// word on which this thread may sleep after a last look. Under the driver lock.
template <class Word>
[[nodiscard]] std::uint32_t mark_asleep(Word& park, std::uint32_t& sleeps) noexcept {
  // relaxed: a wake that comes between makes the word differ from ours, and we do not sleep.
  std::uint32_t word = park.load(std::memory_order_relaxed);
  if (state_of(word) != Park::futex) {
    word = sleep_word(++sleeps);
    park.store(word, std::memory_order_seq_cst);
  }
  return word;
}

/// The last caller that slept is awake. Under the driver lock.
template <class Word>
void mark_awake(Word& park) noexcept {
  // relaxed: the driver lock is ours; a publisher that still sees the old word wakes nobody.
  park.store(static_cast<std::uint32_t>(Park::awake), std::memory_order_relaxed);
}

/// A caller of this rank, which holds the driver lock, goes to sleep. `parked` counts those that
/// do. `look`: a last look, which returns true if there was something to move; then it does not
/// sleep, and this returns true. `sleep` lets go of the lock, sleeps while the word is what it is
/// given, and takes the lock.
template <class Fences, class Word, class Count, class Look, class Sleep>
bool park_caller(Word& park, Count& parked, std::uint32_t& sleeps, bool for_others, Look look,
                 Sleep sleep) {
  parked.fetch_add(1, std::memory_order_relaxed);  // the driver lock orders writers
  const std::uint32_t word = mark_asleep(park, sleeps);
  fence_before_sleep<Fences>(for_others);
  const bool moved = look();
  if (!moved) sleep(word);
  // relaxed: as above.
  if (parked.fetch_sub(1, std::memory_order_relaxed) == 1) mark_awake(park);
  return moved;
}

/// Marks that the progress thread will sleep on its eventfd. False: callers sleep. Under the driver
/// lock.
template <class Word>
[[nodiscard]] bool mark_listening(Word& park) noexcept {
  auto awake = static_cast<std::uint32_t>(Park::awake);
  return park.compare_exchange_strong(awake, static_cast<std::uint32_t>(Park::eventfd),
                                      std::memory_order_seq_cst);
}

/// The progress thread is awake. Under the driver lock.
template <class Word>
void stop_listening(Word& park) noexcept {
  auto eventfd = static_cast<std::uint32_t>(Park::eventfd);
  // relaxed: only our own process writes `eventfd` here, and publishers only clear it.
  park.compare_exchange_strong(eventfd, static_cast<std::uint32_t>(Park::awake),
                               std::memory_order_relaxed);
}

/// Another rank has set a break word of ours since `seen`.
template <class Words>
[[nodiscard]] bool has_breaks(const Words& ours, std::uint32_t seen) noexcept {
  // relaxed: the words themselves are read with acquire in break_of.
  return ours.breaks.load(std::memory_order_relaxed) != seen;
}

/// How many break words have come; those are seen then.
template <class Words>
[[nodiscard]] std::uint32_t breaks_of(const Words& ours) noexcept {
  return ours.breaks.load(std::memory_order_acquire);  // pairs with tell_break
}

/// The break word of a group at a rank; 0: none. The note of its reporter was written before.
template <class Word>
[[nodiscard]] std::uint64_t break_of(const Word& word) noexcept {
  return word.load(std::memory_order_acquire);  // pairs with *_break
}

}  // namespace tutti::transport::shm
