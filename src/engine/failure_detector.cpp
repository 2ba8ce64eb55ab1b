#include "engine/failure_detector.hpp"

#include <algorithm>
#include <utility>

#include "base/deadline.hpp"
#include "engine/detector_times.hpp"
#include "engine/names.hpp"

// docs/errors.md tells what ranks are told.
namespace tutti::engine {

namespace shm = transport::shm;

namespace {

std::uint64_t last_call_of(const shm::GroupBlock& block) noexcept {
  std::uint64_t last = 0;
  for (const shm::OperationSlot& slot : block.slots) {
    last = std::max(last, slot.line.epoch.load(std::memory_order_acquire));  // pairs with publish
  }
  return last;
}

}  // namespace

FailureDetector::FailureDetector(const World& world, ControlChannel& channel)
    : world_(world), channel_(channel), answers_(static_cast<std::size_t>(world.size)) {}

void FailureDetector::ping(const Op& op, int rank) {
  channel_.control(
      op.group->member(rank).global,
      encode(transport::PingFrame{op.group->id, op.seq, op.fingerprint, op.plan->code}));
}

void FailureDetector::ping(const Group& group, int rank) {
  channel_.control(group.member(rank).global, encode(transport::PingFrame{group.id}));
}

/// False: all are on our host.
bool FailureDetector::ping_other_hosts(const Op& op) {
  bool asked = false;
  for (int rank = 0; rank < op.group->size; ++rank) {
    if (op.group->member(rank).local >= 0) continue;
    ping(op, rank);
    asked = true;
  }
  return asked;
}

bool FailureDetector::is_ping_due(Op& op, TimePoint now) noexcept {
  if (now < op.timer.pinged_blocking + kPingAgain) return false;
  op.timer.pinged_blocking = now;
  return true;
}

void FailureDetector::ping_unconnected(Op& op, TimePoint now) {
  const auto ahead = std::min<std::chrono::nanoseconds>(op.call.timeout / 2, kAskAhead);
  if (op.timer.pinged_unconnected || now < op.timer.deadline - ahead || now >= op.timer.deadline)
    return;
  op.timer.pinged_unconnected = true;
  (void)ping_other_hosts(op);
}

void FailureDetector::on_pong(int peer, const transport::PongFrame& pong) noexcept {
  answers_[static_cast<std::size_t>(peer)] = {world_.now(), pong.last_seq};
}

bool FailureDetector::has_answered(int peer, TimePoint since) const noexcept {
  return answers_[static_cast<std::size_t>(peer)].at >= since;
}

std::string FailureDetector::state_of(const Member& member) const {
  if (member.local < 0 || world_.process_state == nullptr) return {};
  const int pid = world_.pids.empty()
                      ? world_.regions->peers[static_cast<std::size_t>(member.local)].header().pid
                      : world_.pids[static_cast<std::size_t>(member.global)];
  return pid == 0 ? std::string() : world_.process_state(pid);
}

/// How far a rank has come in an operation, as well as can be known from here.
void FailureDetector::observe(const Op& op, int rank, Blame& blame) const {
  Group& group = *op.group;
  Member& member = group.members[static_cast<std::size_t>(rank)];
  blame.process(rank, state_of(member));
  if (member.local < 0) {
    if (has_answered(member.global, op.timer.asked))
      blame.pong(rank, answers_[static_cast<std::size_t>(member.global)].last_seq);
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

std::optional<Status> FailureDetector::time_out(Op& op, TimePoint now,
                                                std::span<const int> waited) {
  Group& group = *op.group;
  if (op.timer.asked == TimePoint{}) {
    op.timer.asked = now;
    // A process that answers nothing for 200 ms is the one to blame
    if (ping_other_hosts(op)) {
      op.timer.deadline = now + kAnswerTime;
      return std::nullopt;
    }
  }
  Blame blame(op_text(op), op.seq, group.size,
              [&](int rank) { return name_of(world_, group, rank); });
  for (const int rank : waited) blame.waits_for(rank);
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank != group.rank) observe(op, rank, blame);
  }
  return blame.timed_out(now - op.timer.started, op.call.timeout);
}

std::optional<Status> FailureDetector::check_queue(Group& group, TimePoint now) const {
  const std::uint64_t seq = group.window.started() + 1;
  QueueTimer& timer = group.queue_timer;
  if (group.broken || !group.window.has_queued() ||
      group.window.at(seq).state == Op::State::running)
    return std::nullopt;
  if (std::exchange(timer.seq, seq) != seq) {
    timer.since = now;
    timer.waiting_for = -1;
    return std::nullopt;
  }
  const Collective& call = group.window.first_queued().call();
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
  if (culprit < 0) return std::nullopt;
  const RankProgress& progress = blame.progress_of(culprit);
  if (!progress.left) {
    TimePoint until = base::deadline_after(timer.since, call.timeout);
    const Member& member = group.members[static_cast<std::size_t>(culprit)];
    if (std::exchange(timer.waiting_for, culprit) != culprit) timer.begun_since = TimePoint{};
    if (progress.runs && member.block != nullptr && last_call_of(*member.block) > progress.seq) {
      // It waits itself, perhaps for a rank of another host that we see nothing of, and names that
      // one when its own time is up: it asks before.
      if (timer.begun_since == TimePoint{}) timer.begun_since = now;
      until =
          std::max(until, base::deadline_after(timer.begun_since + 2 * kAnswerTime, call.timeout));
    }
    if (now < until) return std::nullopt;
  }
  return blame.cannot_begin(now - timer.since, shm::kWindow);
}

Status FailureDetector::gone(const Op& op, int rank) const {
  return Status(Errc::peer_left,
                op_text(op) + ": " + name_of(world_, *op.group, rank) +
                    " has ended, or destroyed the group, without taking part. Every rank must make "
                    "this call before it does; the group is broken.")
      .with_culprit(rank);
}

}  // namespace tutti::engine
