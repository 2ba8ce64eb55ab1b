#include <algorithm>
#include <utility>

#include "base/deadline.hpp"
#include "engine/detector_times.hpp"
#include "engine/engine.hpp"
#include "engine/names.hpp"

// The checks of each tick while operations wait: deadlines, ranks that have left, ranks that make
// another call. FailureDetector decides which rank to blame.
namespace tutti::engine {

void Engine::tick() noexcept {
  if (propagation_.untold()) propagation_.tell_the_rest();
  guarded(nullptr, [&] { look_at_all(); });
}

void Engine::look_at_all() {
  propagation_.check_breaks();
  const TimePoint now = world_.now();
  while (const auto loss = inquiry_.take_due(now)) report_loss(*loss);
  if (world_.recorder != nullptr && busy()) note_in_record();
  if (queued_ > 0) {
    std::vector<Group*> groups;
    for (const auto& [id, group] : groups_.by_id()) groups.push_back(group);
    for (Group* const group : groups) break_for(*group, detector_.check_queue(*group, now));
  }
  p2p_.tick(now);
  // A copy, because an operation that ends leaves active_. The vector is kept: no memory is needed.
  ticked_.assign(active_.begin(), active_.end());
  for (Op* const op : ticked_) {
    if (op->state != Op::State::running) continue;
    if (op->timer.deadline == TimePoint{}) {
      op->timer.started = now;
      op->timer.asked = TimePoint{};
      op->timer.asked_ahead = TimePoint{};
      op->timer.pinged_blocking = now + kPingAfter - kPingAgain;
      op->timer.deadline = base::deadline_after(now, op->call.timeout);
      op->timer.pace = {};
    }
    note_pace(*op, now);
    if (op->agreement.disagreeing_rank >= 0)
      break_for(*op->group, agreement_.check_history(*op, now));
    if (op->state == Op::State::running && op->agreement.disagreeing_rank < 0) check_calls(*op);
    if (op->agreement.disagreeing_rank >= 0) continue;
    if (op->state == Op::State::running) check_left(*op);
    if (op->state == Op::State::running) ping_blocking(*op, now);
    if (op->state == Op::State::running) detector_.ask_ahead(*op, now);
    if (op->state != Op::State::running || now < op->timer.deadline) continue;
    Interpreter::blocked_on(*op, waiting_);
    break_for(*op->group, detector_.time_out(*op, now, waiting_));
  }
  if (stalls_.is_on()) look_for_stalls(now);
}

void Engine::note_pace(Op& op, TimePoint now) noexcept {
  if (!op.streams.is_open()) return;
  const MovedBytes moved = op.streams.moved();
  op.timer.pace.note(moved.sent + moved.received, now);
}

/// The bytes that this rank has moved in the first operation of the group that has not ended.
MovedBytes Engine::moved_in(Group& group) noexcept {
  const std::uint64_t seq = group.window.done_upto() + 1;
  const Op& op = group.window.at(seq);
  if (op.seq != seq || op.state != Op::State::running || !op.streams.is_open()) return {};
  MovedBytes moved = op.streams.moved();
  moved.per_second = op.timer.pace.per_second;
  return moved;
}

/// Records the time and the rank that each operation waits for, in case this process is killed.
void Engine::note_in_record() {
  world_.recorder->note_time();
  for (const Op* const op : active_) {
    Interpreter::blocked_on(*op, waiting_);
    world_.recorder->waits_for(op->timer.record,
                               waiting_.empty() ? -1 : op->group->member(waiting_.front()).global);
  }
}

/// Only for the first operation of each group: later ones wait for it, or for the same ranks.
void Engine::look_for_stalls(TimePoint now) {
  for (Op* const op : ticked_) {
    if (op->state == Op::State::running && op->seq == op->group->window.done_upto() + 1)
      stalls_.look(*op, now);
  }
  if (queued_ == 0) return;
  for (const auto& [id, group] : groups_.by_id()) {
    const bool waits = group->window.has_queued() && !group->broken;
    if (waits && group->window.done_upto() == group->window.started())
      stalls_.look_at_queue(*group, now);
  }
}

/// An operation that this rank has under way, for ranks that ask; empty: none.
std::string Engine::running_text() {
  return active_.empty() ? p2p_.running_text() : op_text(*active_.front());
}

TimePoint Engine::next_deadline() const noexcept {
  TimePoint least = p2p_.next_deadline();
  for (const Op* const op : active_) {
    if (op->timer.deadline != TimePoint{}) least = std::min(least, op->timer.deadline);
  }
  return least;
}

/// Finds events that no rank reports to us: a rank of our host has broken the group, or makes
/// another call.
void Engine::check_calls(Op& op) {
  if (!hear_of_break(*op.group)) break_for(*op.group, agreement_.compare_both_ways(op));
}

/// Pings the ranks of other hosts that the operation waits for. Two ranks that disagree may each
/// wait for a frame that the other's call never sends. The calls of our host are in shared memory
/// (check_calls).
void Engine::ping_blocking(Op& op, TimePoint now) {
  if (!op.plan->schedule->messages && !op.agreement.uses_tokens) return;
  if (!FailureDetector::is_ping_due(op, now)) return;
  Interpreter::blocked_on(op, waiting_);
  for (const int rank : waiting_) {
    if (agreement_.next_call_differs(op, rank)) {
      if (agreement_.ask_history(op, rank)) return;
      continue;
    }
    if (op.group->member(rank).local < 0) detector_.ping(op, rank);
  }
}

void Engine::check_left(Op& op) {
  // A frame may still be on its way. So if it waits for frames, only the connection's end counts.
  const bool by_message = Interpreter::waits_for_frames(op);
  Interpreter::blocked_on(op, waiting_);
  for (const int rank : waiting_) {
    Member& member = op.group->members[static_cast<std::size_t>(rank)];
    bool left = false;
    if (member.local >= 0 && !by_message) {
      const transport::RegionPeer& peer =
          world_.regions->peers[static_cast<std::size_t>(member.local)];
      left = peer.header().left.load(std::memory_order_acquire) != 0;  // pairs with Host::leave
    } else {
      left = channel_.has_left(member.global);
    }
    left = left || propagation_.has_given_up(*op.group, member);
    if (op.state != Op::State::running) return;  // has_given_up has read frames that ended it
    if (!left) continue;
    // It may have published something just before it left. We have seen `left`, so we see that too.
    if (advance(op); op.state != Op::State::running) return;
    const std::vector<int> still = Interpreter::blocked_on(op);
    if (std::find(still.begin(), still.end(), rank) == still.end()) continue;
    break_group(*op.group, detector_.gone(op, rank));
    return;
  }
}

}  // namespace tutti::engine
