#include "engine/watchdog.hpp"

#include <algorithm>

#include "base/deadline.hpp"
#include "engine/detector_times.hpp"
#include "engine/interpreter.hpp"

namespace tutti::engine {

namespace {

/// The timers of an operation begin at its first tick, so that its begin reads no clock.
void start_timer(Op& op, TimePoint now) noexcept {
  op.timer.started = now;
  op.timer.asked = TimePoint{};
  op.timer.asked_ahead = TimePoint{};
  op.timer.pinged_blocking = now + kPingAfter - kPingAgain;
  op.timer.deadline = base::deadline_after(now, op.call.timeout);
  op.timer.pace = {};
}

void note_pace(Op& op, TimePoint now) noexcept {
  if (!op.streams.is_open()) return;
  const MovedBytes moved = op.streams.moved();
  op.timer.pace.note(moved.sent + moved.received, now);
}

}  // namespace

Watchdog::Watchdog(const World& world, const Parts& parts)
    : world_(world), parts_(parts), stalls_(world, parts.detector) {
  ticked_.reserve(256);
  waiting_.reserve(static_cast<std::size_t>(world.size));
}

void Watchdog::tick(TimePoint now) {
  if (world_.recorder != nullptr && (parts_.operations.busy() || parts_.p2p.busy()))
    note_in_record();
  if (parts_.operations.queued() > 0) check_queues(now);
  parts_.p2p.tick(now);
  // A copy, because an operation that ends leaves the list.
  ticked_.assign(parts_.operations.running().begin(), parts_.operations.running().end());
  for (Op* const op : ticked_) {
    if (op->state == Op::State::running) check(*op, now);
  }
  if (stalls_.is_on()) look_for_stalls(now);
}

void Watchdog::check(Op& op, TimePoint now) {
  if (op.timer.deadline == TimePoint{}) start_timer(op, now);
  note_pace(op, now);
  if (op.agreement.disagreeing_rank >= 0)
    parts_.propagation.break_for(*op.group, parts_.agreement.check_history(op, now));
  if (op.state == Op::State::running && op.agreement.disagreeing_rank < 0) check_calls(op);
  if (op.agreement.disagreeing_rank >= 0) return;
  if (op.state == Op::State::running) check_left(op);
  if (op.state == Op::State::running) ping_blocking(op, now);
  if (op.state == Op::State::running) parts_.detector.ask_ahead(op, now);
  if (op.state != Op::State::running || now < op.timer.deadline) return;
  Interpreter::blocked_on(op, waiting_);
  parts_.propagation.break_for(*op.group, parts_.detector.time_out(op, now, waiting_));
}

void Watchdog::check_queues(TimePoint now) {
  std::vector<Group*> groups;
  for (const auto& [id, group] : parts_.groups) groups.push_back(group);
  for (Group* const group : groups)
    parts_.propagation.break_for(*group, parts_.detector.check_queue(*group, now));
}

/// Records the time and the rank that each operation waits for, in case this process is killed.
void Watchdog::note_in_record() {
  world_.recorder->note_time();
  for (const Op* const op : parts_.operations.running()) {
    Interpreter::blocked_on(*op, waiting_);
    world_.recorder->waits_for(op->timer.record,
                               waiting_.empty() ? -1 : op->group->member(waiting_.front()).global);
  }
}

/// Only for the first operation of each group: later ones wait for it, or for the same ranks.
void Watchdog::look_for_stalls(TimePoint now) {
  for (Op* const op : ticked_) {
    if (op == op->group->window.first_running()) stalls_.look(*op, now);
  }
  if (parts_.operations.queued() == 0) return;
  for (const auto& [id, group] : parts_.groups) {
    const bool waits = group->window.has_queued() && !group->broken;
    if (waits && group->window.first_running() == nullptr) stalls_.look_at_queue(*group, now);
  }
}

TimePoint Watchdog::next_deadline() const noexcept {
  TimePoint least = parts_.p2p.next_deadline();
  for (const Op* const op : parts_.operations.running()) {
    if (op->timer.deadline != TimePoint{}) least = std::min(least, op->timer.deadline);
  }
  return least;
}

/// Finds events that no rank reports to us: a rank of our host has broken the group, or makes
/// another call.
void Watchdog::check_calls(Op& op) {
  if (!parts_.propagation.hear_of_break(*op.group))
    parts_.propagation.break_for(*op.group, parts_.agreement.compare_both_ways(op));
}

/// Pings the ranks of other hosts that the operation waits for. Two ranks that disagree may each
/// wait for a frame that the other's call never sends. The calls of our host are in shared memory
/// (check_calls).
void Watchdog::ping_blocking(Op& op, TimePoint now) {
  if (!op.plan->schedule->messages && !op.agreement.uses_tokens) return;
  if (!FailureDetector::is_ping_due(op, now)) return;
  Interpreter::blocked_on(op, waiting_);
  for (const int rank : waiting_) {
    if (parts_.agreement.next_call_differs(op, rank)) {
      if (parts_.agreement.ask_history(op, rank)) return;
      continue;
    }
    if (op.group->member(rank).local < 0) parts_.detector.ping(op, rank);
  }
}

void Watchdog::check_left(Op& op) {
  // A frame may still be on its way. So if it waits for frames, only the connection's end counts.
  const bool by_message = Interpreter::waits_for_frames(op);
  Interpreter::blocked_on(op, waiting_);
  for (const int rank : waiting_) {
    Member& member = op.group->member(rank);
    bool left = false;
    if (member.local >= 0 && !by_message) {
      const transport::RegionPeer& peer =
          world_.regions->peers[static_cast<std::size_t>(member.local)];
      left = peer.words().left.load(std::memory_order_acquire) != 0;  // pairs with Host::leave
    } else {
      left = parts_.channel.has_left(member.global);
    }
    left = left || parts_.propagation.has_given_up(*op.group, member);
    if (op.state != Op::State::running) return;  // has_given_up has read frames that ended it
    if (!left) continue;
    // It may have published something just before it left. We have seen `left`, so we see that too.
    if (parts_.operations.advance(op); op.state != Op::State::running) return;
    const std::vector<int> still = Interpreter::blocked_on(op);
    if (std::find(still.begin(), still.end(), rank) == still.end()) continue;
    parts_.propagation.break_group(*op.group, parts_.detector.gone(op, rank));
    return;
  }
}

}  // namespace tutti::engine
