#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/collective.hpp>

#include "base/deadline.hpp"
#include "base/due.hpp"
#include "base/ticket_table.hpp"

namespace tutti::foreign {

using TimePoint = std::chrono::steady_clock::time_point;

/// The part of an operation that an OperationList keeps, from submit until its ticket is released.
struct ListedOperation : base::TicketPlace {
  bool released = false;  ///< nobody will ask for its ticket any more
  bool listed = false;    ///< it stands in the list of what runs
  TimePoint started{};
  TimePoint deadline{};
  Outcome outcome;
  int source = -1;  ///< of a receive, once it is known
  std::vector<Callback> callbacks;
  Collective call;  ///< without the lists of the caller, which are read during submit

  /// " timed out after 1.5 s (timeout 1 s)".
  [[nodiscard]] std::string timed_out(TimePoint now) const {
    return " timed out after " + base::seconds_text(now - started) + " (timeout " +
           base::seconds_text(call.timeout) + ")";
  }

  /// For the next call in this place. Memory is kept.
  void reset() {
    released = false;
    listed = false;
    outcome = Outcome();
    source = -1;
    callbacks.clear();
    call = Collective();
  }
};

/// The operations of one group on this rank by ticket: their outcomes, callbacks and references,
/// and the first cause that has broken the group.
///
/// `Operation` derives from ListedOperation. Its `State state` has a `done`. While `in_use()`, the
/// library uses the memory of the operation, so another call must not get it.
/// Threads: those that hold the lock of the group.
template <class Operation>
class OperationList {
 public:
  using State = typename Operation::State;

  /// Callbacks of operations that have ended are added to `due`.
  explicit OperationList(std::vector<base::Due>& due) : due_(due) {}

  /// A new operation. It is done at once if the group is broken.
  [[nodiscard]] Operation& add(const Collective& call) {
    Operation& op = table_.take();
    op.call = call;
    op.started = std::chrono::steady_clock::now();
    op.deadline = base::deadline_after(op.started, call.timeout);
    if (healthy()) {
      running_.push_back(&op);
      op.listed = true;
    } else {
      end(op, cause_);
    }
    return op;
  }
  [[nodiscard]] static std::uint64_t ticket_of(const Operation& op) noexcept {
    return base::TicketTable<Operation>::ticket_of(op);
  }
  /// Null: the ticket was released.
  [[nodiscard]] Operation* find(std::uint64_t ticket) noexcept { return table_.find(ticket); }
  [[nodiscard]] const Operation* find(std::uint64_t ticket) const noexcept {
    return table_.find(ticket);
  }

  // ---- The end of an operation

  /// The first end of an operation counts.
  void end(Operation& op, Outcome outcome) {
    if (op.state == State::done) return;
    op.state = State::done;
    op.outcome = std::move(outcome);
    for (const Callback& callback : op.callbacks) due_.push_back({callback, op.outcome});
    op.callbacks.clear();
    untidy_ = true;
  }
  /// Takes operations that are done out of the list. A loop over the list must not go on then.
  void tidy() {
    if (!untidy_ && in_use_.empty()) return;
    untidy_ = false;
    std::erase_if(running_, [this](Operation* op) {
      if (op->state != State::done) return false;
      op->listed = false;
      if (op->released) recycle(*op);
      return true;
    });
    for (Operation* const op : std::exchange(in_use_, {})) recycle(*op);
  }
  /// Keeps the first cause. False: the group was broken before. The backend ends what runs.
  bool break_with(const Outcome& cause) {
    if (!healthy()) return false;
    cause_ = cause;
    return true;
  }
  [[nodiscard]] bool healthy() const noexcept { return cause_.ok(); }
  [[nodiscard]] const Outcome& cause() const noexcept { return cause_; }

  // ---- The caller's questions

  /// Absent while the operation runs. The cause, if its ticket was released.
  [[nodiscard]] std::optional<Outcome> outcome(std::uint64_t ticket) const {
    const Operation* const op = find(ticket);
    if (op == nullptr) return cause_;
    if (op->state != State::done) return std::nullopt;
    return op->outcome;
  }
  /// Of a recv whose message is known, perhaps before its data are there.
  [[nodiscard]] Received received(std::uint64_t ticket) const noexcept {
    const Operation* const op = find(ticket);
    return op == nullptr || op->source < 0 ? Received() : Received{op->source, op->call.tag};
  }
  /// Gives the ticket up; returns what `received` returns.
  Received release(std::uint64_t ticket) {
    Operation* const op = find(ticket);
    if (op == nullptr) return {};
    const Received from = received(ticket);
    op->released = true;
    if (op->state == State::done) {
      if (op->listed) std::erase(running_, op);
      recycle(*op);
    }
    return from;
  }
  void on_done(std::uint64_t ticket, Callback callback) {
    if (std::optional<Outcome> over = outcome(ticket))
      due_.push_back({callback, std::move(*over)});
    else
      find(ticket)->callbacks.push_back(callback);
  }

  // ---- What runs

  /// In the order of the calls; some of them may be done already.
  [[nodiscard]] const std::vector<Operation*>& running() const noexcept { return running_; }
  /// `action` may end operations and add some.
  template <class Action>
  void each_running(const Action& action) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i]->state != State::done) action(*running_[i]);
    }
  }
  [[nodiscard]] bool idle() const noexcept { return running_.empty(); }
  /// Idle, and the library does not use the memory of released operations either.
  [[nodiscard]] bool settled() const noexcept { return running_.empty() && in_use_.empty(); }
  /// All places, also those that are not used.
  [[nodiscard]] base::TicketTable<Operation>& places() noexcept { return table_; }

 private:
  void recycle(Operation& op) {
    if (op.in_use())
      in_use_.push_back(&op);
    else
      table_.recycle(op);
  }

  base::TicketTable<Operation> table_;
  std::vector<Operation*> running_;
  bool untidy_ = false;             ///< an operation has ended since `tidy`
  std::vector<Operation*> in_use_;  ///< released; they wait for the library
  std::vector<base::Due>& due_;
  Outcome cause_;
};

/// The outcome of operations that run while their group is destroyed.
[[nodiscard]] inline Outcome destroyed(std::string_view group) {
  return Outcome(Errc::aborted,
                 "group '" + std::string(group) + "' was destroyed while the operation ran");
}

}  // namespace tutti::foreign
