#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <tutti/backend/collective.hpp>

#include "engine/completion_queue.hpp"
#include "engine/operation.hpp"
#include "engine/queued.hpp"
#include "transport/shm/words.hpp"

namespace tutti::engine {

/// The number of the last possible operation of a group. Counters hold the number beside their
/// count, and never go back; the number after this one stands in kClosed.
inline constexpr std::uint64_t kLastOperation =
    (std::uint64_t{1} << (64 - transport::shm::kCounterShift)) - 2;

/// The operations of one group: their numbers, the slots of those that run, and the calls that wait
/// for a slot. How an operation runs is not known here.
///
/// Threads: none; under the driver lock.
class OperationWindow {
 public:
  explicit OperationWindow(Group& group) noexcept;
  OperationWindow(const OperationWindow&) = delete;
  OperationWindow& operator=(const OperationWindow&) = delete;

  // Numbers. The first operation is 1.
  /// The number of the last call.
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  /// The last operation that has got a slot.
  [[nodiscard]] std::uint64_t started() const noexcept { return started_; }
  /// Every operation up to this one has passed: it has ended, or waits only until others have read
  /// our input.
  [[nodiscard]] std::uint64_t done_upto() const noexcept { return done_upto_; }
  /// A new call: its number.
  std::uint64_t number_call() noexcept { return ++submitted_; }
  /// Continues as if all operations up to this one had run.
  void skip_to(std::uint64_t seq) noexcept { submitted_ = started_ = done_upto_ = seq; }

  // Slots.
  /// The slot for this number. It may still hold an earlier operation, or already a later one:
  /// compare `seq`.
  [[nodiscard]] Op& at(std::uint64_t seq) noexcept { return slots_[seq % slots_.size()]; }
  [[nodiscard]] auto begin() noexcept { return slots_.begin(); }
  [[nodiscard]] auto end() noexcept { return slots_.end(); }
  /// The first operation that has not ended; nullptr: none runs.
  [[nodiscard]] const Op* first_running() const noexcept;
  /// No number is left for one more operation.
  [[nodiscard]] bool is_exhausted() const noexcept { return started_ == kLastOperation; }
  /// The slot of the next operation is free, and the ranks of our host are so near that at most
  /// `most` operations are under way with it.
  [[nodiscard]] bool has_room(int most) noexcept;
  [[nodiscard]] Op& next() noexcept { return at(started_ + 1); }
  /// The next operation begins: its slot gets number, plan and fingerprint.
  void begin_next(const BoundPlan& plan) noexcept {
    Op& op = next();
    op.seq = ++started_;
    chain_ = call::chain(chain_, plan.code);
    op.state = Op::State::running;
    op.passed = false;
    ++running_;
    op.fingerprint = chain_;
    op.plan = &plan;
    op.failed = false;
  }
  /// An operation has ended.
  void end(Op& op) noexcept {
    op.state = Op::State::done;
    op.passed = true;
    --running_;
  }
  /// An operation has passed.
  void note_passed() noexcept {
    while (done_upto_ < started_) {
      const Op& op = at(done_upto_ + 1);
      if (op.seq != done_upto_ + 1 || !op.passed) break;
      ++done_upto_;
      done_fingerprint_ = op.fingerprint;
    }
  }
  /// The word that tells other ranks of done_upto() (shm::done_word).
  [[nodiscard]] std::uint64_t done_word() const noexcept {
    return transport::shm::done_word(done_upto_, done_fingerprint_);
  }
  /// A rank of our host that has passed another history of calls than we have made; -1: none was
  /// seen. We look whenever we look how far the ranks are.
  [[nodiscard]] int disagreeing() const noexcept { return disagreeing_; }
  /// The group has ended here: counts all operations as done.
  void close() noexcept;
  /// The fingerprint before the first operation.
  void start_chain(std::uint64_t fingerprint) noexcept { chain_ = fingerprint; }

  // Memory that others may still read.
  /// True if all members of the group on our host have passed `seq`.
  [[nodiscard]] bool is_passed_by_all(std::uint64_t seq) noexcept;
  /// True if no member reads any more what we staged for `seq` (see Staging): each member on our
  /// host has passed it, died or left.
  [[nodiscard]] bool is_read_by_all(std::uint64_t seq) noexcept;

  // The queue.
  /// There is room, and no running operation shares memory with the call that one of the two
  /// writes. So calls on the same memory have the results of calls made one after the other.
  [[nodiscard]] bool may_begin(const Collective& call, const BoundPlan& plan) noexcept {
    return has_room(plan.window) && (running_ == 0 || !shares_memory_with_running(call));
  }
  void enqueue(const Collective& call, std::uint64_t record = 0) {
    queue_.emplace_back(call, record);
  }
  [[nodiscard]] bool has_queued() const noexcept { return !queue_.empty(); }
  [[nodiscard]] Queued& first_queued() noexcept { return queue_.front(); }
  [[nodiscard]] Queued dequeue() noexcept;
  /// Notes a callback for an operation that has no slot yet.
  void on_done_later(std::uint64_t seq, Callback callback) {
    callbacks_.emplace_back(seq, callback);
  }
  /// Gives an operation that has begun what `on_done_later` noted. Without memory nothing changes.
  void take_callbacks(Op& op) {
    if (!callbacks_.empty()) [[unlikely]]
      take_noted_callbacks(op);
  }
  /// Ends all calls that wait; how many there were.
  int fail_queue(CompletionQueue& completions, const Outcome& cause) noexcept;

 private:
  void take_noted_callbacks(Op& op);
  [[nodiscard]] bool has_other_calls(std::uint64_t done) const noexcept;
  [[nodiscard]] bool shares_memory_with_running(const Collective& call) const noexcept;
  std::array<Op, transport::shm::kWindow> slots_;
  Group& group_;
  std::uint64_t submitted_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t done_upto_ = 0;
  int running_ = 0;
  std::uint64_t peers_done_ = 0;        ///< least `done` of all local members, as last seen
  std::uint64_t done_fingerprint_ = 0;  ///< of operation done_upto_
  int disagreeing_ = -1;
  std::uint64_t chain_ = 0;  ///< fingerprint of the last operation that got a slot
  std::deque<Queued> queue_;
  std::vector<std::pair<std::uint64_t, Callback>> callbacks_;
};

}  // namespace tutti::engine
