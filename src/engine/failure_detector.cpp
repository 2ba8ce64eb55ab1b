#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/deadline.hpp"
#include "engine/detector_times.hpp"
#include "engine/engine.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"

// What is looked at now and then while operations wait: deadlines, who has left, who does something
// else, and whom to blame (decisions E6; docs/errors.md).
namespace tutti::engine {

namespace shm = transport::shm;
using plan::StepKind;
using transport::FrameType;

namespace {

std::uint64_t last_call_of(const shm::GroupBlock& block) noexcept {
  std::uint64_t last = 0;
  for (const shm::OperationSlot& slot : block.slots) {
    last = std::max(last, slot.line.epoch.load(std::memory_order_acquire));  // pairs with publish
  }
  return last;
}

}  // namespace

void Engine::tick() noexcept {
  if (propagation_.untold()) propagation_.tell_the_rest();
  guarded(nullptr, [&] { look_at_all(); });
}

void Engine::look_at_all() {
  propagation_.check_breaks();
  const TimePoint now = world_.now();
  if (queued_ > 0) {
    std::vector<Group*> groups;
    for (const auto& [id, group] : by_id_) groups.push_back(group);
    for (Group* const group : groups) check_queue(*group, now);
  }
  tick_p2p(now);
  // A copy, as an operation that ends leaves the list; kept, as it must not ask for memory.
  ticked_.assign(active_.begin(), active_.end());
  for (Op* const op : ticked_) {
    if (op->state != Op::State::running) continue;
    if (op->timer.deadline == TimePoint{}) {
      op->timer.started = now;
      op->timer.asked = TimePoint{};
      op->timer.pinged_unconnected = false;
      op->timer.pinged_blocking = now + kPingAfter - kPingAgain;
      op->timer.deadline = base::deadline_after(now, op->call.timeout);
    }
    if (op->agreement.disagreeing_rank >= 0) check_history(*op, now);
    if (op->state == Op::State::running && op->agreement.disagreeing_rank < 0) check_calls(*op);
    if (op->agreement.disagreeing_rank >= 0) continue;
    if (op->state == Op::State::running) check_left(*op);
    if (op->state == Op::State::running) ping_blocking(*op, now);
    if (op->state == Op::State::running) ping_unconnected(*op, now);
    if (op->state == Op::State::running && now >= op->timer.deadline) time_out(*op, now);
  }
}

/// A call may wait for its slot because a rank of our host does not pass the operation before it.
/// Such a call has no line yet, and its time runs all the same.
void Engine::check_queue(Group& group, TimePoint now) {
  const std::uint64_t seq = group.started + 1;
  if (group.broken || group.queue.empty() || group.op_at(seq).state == Op::State::running) return;
  if (std::exchange(group.waiting_seq, seq) != seq) {
    group.waiting_since = now;
    group.waiting_for = -1;
    return;
  }
  const Collective& call = group.queue.front().call();
  Blame blame(
      "group '" + group.name + "', operation " + std::to_string(seq) + " " + tutti::describe(call),
      seq, group.size, [&](int rank) { return name_of(world_, group, rank); });
  const std::uint64_t passed = seq - std::min<std::uint64_t>(seq, shm::kWindow);
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    const bool known = member.block != nullptr || find_block(group, member);
    // acquire: pairs with the release in finish.
    const std::uint64_t done = known ? member.block->done.value.load(std::memory_order_acquire) : 0;
    if (done >= passed) continue;
    const transport::RegionPeer& peer =
        world_.regions->peers[static_cast<std::size_t>(member.local)];
    blame.lines(rank, done, 0);
    blame.process(rank, state_of(member));
    // acquire: pairs with leaving.
    if (peer.header().left.load(std::memory_order_acquire) != 0) blame.left(rank);
  }
  const int culprit = blame.culprit();
  if (culprit < 0) return;
  const RankProgress& progress = blame.progress_of(culprit);
  if (!progress.left) {
    TimePoint until = base::deadline_after(group.waiting_since, call.timeout);
    const Member& member = group.members[static_cast<std::size_t>(culprit)];
    if (std::exchange(group.waiting_for, culprit) != culprit) group.begun_since = TimePoint{};
    if (progress.runs && member.block != nullptr && last_call_of(*member.block) > progress.seq) {
      // It waits itself, perhaps for a rank of another host that we see nothing of, and names that
      // one when its own time is up: it asks before.
      if (group.begun_since == TimePoint{}) group.begun_since = now;
      until =
          std::max(until, base::deadline_after(group.begun_since + 2 * kAnswerTime, call.timeout));
    }
    if (now < until) return;
  }
  break_group(group, blame.cannot_begin(now - group.waiting_since, shm::kWindow));
}

TimePoint Engine::next_deadline() const noexcept {
  TimePoint least = TimePoint::max();
  for (const Op* const op : active_) {
    if (op->timer.deadline != TimePoint{}) least = std::min(least, op->timer.deadline);
  }
  for (const P2PMatcher* const matcher : matchers_)
    least = std::min(least, matcher->next_deadline());
  return least;
}

/// What nobody may have told us: a local rank has broken the group, or calls something else.
/// One rank's call may go by messages and another's by shared memory: each then waits for what the
/// other never sends. So both ways are looked at now and then.
void Engine::check_calls(Op& op) {
  if (hear_of_break(*op.group)) return;
  for (const int rank : op.group->local_members) {
    Member& member = op.group->members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(*op.group, member)) continue;
    const shm::Arrival& line = member.block->slots[op.seq % shm::kWindow].line;
    // acquire: pairs with the release in publish.
    if (line.epoch.load(std::memory_order_acquire) != op.seq) continue;
    if (line.fingerprint == op.fingerprint) continue;
    disagreement_in_lines(op, rank);
    return;
  }
  if (op.plan->schedule->messages) return;  // frames are compared as they are used
  for (int rank = 0; rank < op.group->size; ++rank) {
    const transport::FrameHeader* const held =
        channel_.find_held(op.group->member(rank).global, FrameType::data, op.group->id, op.seq);
    if (held == nullptr) continue;
    const CallCode theirs = transport::decode<transport::DataFrame>(*held).call;
    disagreement(op, rank, &theirs, op.seq);
    return;
  }
}

void Engine::ping(const Op& op, int rank) {
  channel_.control(
      op.group->member(rank).global,
      encode(transport::PingFrame{op.group->id, op.seq, op.fingerprint, op.plan->code}));
}

/// Not those of our host: one that computes may have nobody who would answer, and its lines and the
/// state of its process tell more. False: there are no others.
bool Engine::ping_other_hosts(const Op& op) {
  bool asked = false;
  for (int rank = 0; rank < op.group->size; ++rank) {
    if (op.group->members[static_cast<std::size_t>(rank)].local >= 0) continue;
    ping(op, rank);
    asked = true;
  }
  return asked;
}

/// Connects us with all whose answers time_out may want, so that they have kAnswerTime to answer in
/// and not to get to know us.
void Engine::ping_unconnected(Op& op, TimePoint now) {
  const auto ahead = std::min<std::chrono::nanoseconds>(op.call.timeout / 2, kAskAhead);
  if (op.timer.pinged_unconnected || now < op.timer.deadline - ahead || now >= op.timer.deadline)
    return;
  op.timer.pinged_unconnected = true;
  (void)ping_other_hosts(op);
}

/// Two ranks that disagree may each wait for a frame that the other's call never sends. Ranks of
/// our host show their calls (check_calls).
void Engine::ping_blocking(Op& op, TimePoint now) {
  if ((!op.plan->schedule->messages && !op.agreement.strict) ||
      now < op.timer.pinged_blocking + kPingAgain)
    return;
  op.timer.pinged_blocking = now;
  Interpreter::blocked_on(op, waiting_);
  for (const int rank : waiting_) {
    if (next_call_differs(op, rank)) {
      if (ask_history(op, rank)) return;
      continue;
    }
    if (op.group->members[static_cast<std::size_t>(rank)].local < 0) ping(op, rank);
  }
}

/// A rank that needed nothing of us for its call may be far beyond it, and has forgotten the call
/// that a ping asks about. Of its next call a frame may be held here: what is mixed into that
/// fingerprint is this call.
bool Engine::next_call_differs(const Op& op, int rank) {
  const transport::FrameHeader* const held =
      channel_.find_held(op.group->member(rank).global, FrameType::data, op.group->id, op.seq + 1);
  if (held == nullptr) return false;
  const auto data = transport::decode<transport::DataFrame>(*held);
  return data.fingerprint != chain(op.fingerprint, agreed_part(data.call));
}

/// Has this member destroyed its end of the group? Then all that it had sent in it has come here.
/// Of a rank of another host a pong tells it.
bool Engine::has_given_up(Group& group, Member& member) {
  if (member.given_up || member.local < 0 || member.local == world_.regions->self)
    return member.given_up;
  if (member.block == nullptr && !find_block(group, member)) return false;
  // acquire: pairs with remove_group.
  if (!has_closed(*member.block)) return false;
  if (hear_of_break(group)) return false;  // it may have closed the group for that
  // What it had sent lies in its ring before that word. A pass takes a part of a full one, and
  // some 20 take the longest (see local_peer_died).
  transport::Transport* const transport = world_.route[static_cast<std::size_t>(member.global)];
  for (int pass = 0; transport != nullptr && pass < 64 && transport->poll(); ++pass) {
  }
  member.given_up = true;
  return true;
}

void Engine::check_left(Op& op) {
  // What comes by message may be on its way still: the connection itself tells of its end.
  const bool by_message = Interpreter::waits_for_frames(op);
  Interpreter::blocked_on(op, waiting_);
  for (const int rank : waiting_) {
    Member& member = op.group->members[static_cast<std::size_t>(rank)];
    bool left = false;
    if (member.local >= 0 && !by_message) {
      const transport::RegionPeer& peer =
          world_.regions->peers[static_cast<std::size_t>(member.local)];
      left =
          peer.header().left.load(std::memory_order_acquire) != 0;  // pairs with leaving (host.cpp)
    } else {
      left = channel_.has_left(member.global);
    }
    left = left || has_given_up(*op.group, member);
    if (op.state != Op::State::running) return;  // of what had come meanwhile
    if (!left) continue;
    // It may have published just before it left: look once more behind the word.
    if (advance(op); op.state != Op::State::running) return;
    const std::vector<int> still = Interpreter::blocked_on(op);
    if (std::find(still.begin(), still.end(), rank) == still.end()) continue;
    break_group(*op.group,
                Status(Errc::peer_left,
                       op_text(op) + ": " + name_of(world_, *op.group, rank) +
                           " has ended, or destroyed the group, without taking part. Every rank "
                           "must make this call before it does; the group is broken.")
                    .with_culprit(rank));
    return;
  }
}

std::string Engine::state_of(const Member& member) const {
  if (member.local < 0 || world_.process_state == nullptr) return {};
  const int pid = world_.pids.empty()
                      ? world_.regions->peers[static_cast<std::size_t>(member.local)].header().pid
                      : world_.pids[static_cast<std::size_t>(member.global)];
  return pid == 0 ? std::string() : world_.process_state(pid);
}

/// How far a rank has come in an operation, as well as can be known from here (decisions E6).
void Engine::observe_progress(const Op& op, int rank, Blame& blame) {
  Group& group = *op.group;
  Member& member = group.members[static_cast<std::size_t>(rank)];
  blame.process(rank, state_of(member));
  if (member.local < 0) {
    const Peer& peer = peers_[static_cast<std::size_t>(member.global)];
    if (peer.pong >= op.timer.asked)
      blame.pong(rank, peer.pong_seq);
    else
      blame.silent(rank);
    return;
  }
  if (member.block == nullptr && !find_block(group, member)) return;
  std::uint64_t count = 0;
  for (const shm::Counter& counter : member.block->slots[op.seq % shm::kWindow].counters) {
    const std::uint64_t value = counter.value.load(std::memory_order_acquire);  // pairs with signal
    if (value >> shm::kCounterShift == op.seq) count += value;
  }
  blame.lines(rank, last_call_of(*member.block), count);
}

void Engine::time_out(Op& op, TimePoint now) {
  Group& group = *op.group;
  const std::vector<int> missing = Interpreter::blocked_on(op);
  if (op.timer.asked == TimePoint{}) {
    op.timer.asked = now;
    if (ping_other_hosts(
            op)) {  // decisions E6: a process that answers nothing for 200 ms is the one to blame
      op.timer.deadline = now + kAnswerTime;
      return;
    }
  }
  Blame blame(op_text(op), op.seq, group.size,
              [&](int rank) { return name_of(world_, group, rank); });
  for (const int rank : missing) blame.waits_for(rank);
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank != group.rank) observe_progress(op, rank, blame);
  }
  break_group(group, blame.timed_out(now - op.timer.started, op.call.timeout));
}

}  // namespace tutti::engine
