#include "engine/failure_detector.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/shown.hpp"
#include "engine/detector_times.hpp"
#include "engine/names.hpp"

// docs/reference/errors.md says which rank an error names.
namespace tutti::engine {

namespace shm = transport::shm;

void FailureDetector::ping(const Op& op, int rank) {
  channel_.control(
      op.group->member(rank).global,
      encode(transport::PingFrame{op.group->id, op.seq, op.fingerprint, op.plan->code}));
}

void FailureDetector::ping(const Group& group, int rank) {
  channel_.control(group.member(rank).global, encode(transport::PingFrame{group.id}));
}

void FailureDetector::ask_doing(Group& group, int rank) {
  group.answer_of(rank).asked_doing = world_.now();
  transport::PingFrame ping{group.id};
  ping.asks_doing = true;
  channel_.control(group.member(rank).global, encode(ping));
}

/// Asks them what they are doing, too. False: all are on our host.
bool FailureDetector::ping_other_hosts(const Op& op) {
  bool asked = false;
  for (int rank = 0; rank < op.group->size; ++rank) {
    const Member& member = op.group->member(rank);
    if (member.local >= 0) continue;
    transport::PingFrame ping{op.group->id, op.seq, op.fingerprint, op.plan->code};
    ping.asks_doing = true;
    channel_.control(member.global, encode(ping));
    asked = true;
  }
  return asked;
}

bool FailureDetector::is_ping_due(Op& op, TimePoint now) noexcept {
  if (now < op.timer.pinged_blocking + kPingAgain) return false;
  op.timer.pinged_blocking = now;
  return true;
}

bool FailureDetector::is_time_to_ask(TimePoint& asked, TimePoint deadline,
                                     std::chrono::nanoseconds timeout, TimePoint now) noexcept {
  const auto ahead = std::min<std::chrono::nanoseconds>(timeout / 2, kAskAhead);
  if (asked != TimePoint{} || now < deadline - ahead || now >= deadline) return false;
  asked = now;
  return true;
}

void FailureDetector::ask_ahead(Op& op, TimePoint now) {
  if (!is_time_to_ask(op.timer.asked_ahead, op.timer.deadline, op.call.timeout, now)) return;
  (void)ping_other_hosts(op);
  Group& group = *op.group;
  std::vector<std::pair<std::uint64_t, int>> late;  // those that are furthest behind first
  for (const int rank : group.local_members) {
    Member& member = group.member(rank);
    const bool made = member.block != nullptr || find_block(group, member);
    const std::uint64_t last = made ? last_call_of(*member.block) : 0;
    if (rank != group.rank && last < op.seq && !is_through(group, rank, op.seq))
      late.emplace_back(last, rank);
  }
  std::ranges::sort(late);
  for (std::size_t i = 0; i < late.size() && i < Blame::kMostTold; ++i)
    ask_doing(group, late[i].second);
}

std::optional<std::string> FailureDetector::doing_of(const Group& group, int rank,
                                                     TimePoint asked) const {
  if (group.answer(rank).told_doing >= asked) return group.answer(rank).doing;
  const Member& member = group.member(rank);
  if (member.local >= 0 && state_of(member).empty()) return std::string();
  return std::nullopt;
}

std::optional<std::string> FailureDetector::told_ahead(const Group& group, int rank,
                                                       TimePoint asked, TimePoint now) const {
  if (asked == TimePoint{}) return std::nullopt;
  const RankAnswer& answer = group.answer(rank);
  if (answer.told_doing < asked && (answer.asked_doing < asked || now < asked + kDoingTime))
    return std::nullopt;
  return doing_of(group, rank, asked);
}

void FailureDetector::answer(int peer, const transport::PingFrame& ping, Group* group,
                             bool is_closed, std::string doing) {
  transport::PongFrame pong{ping.group};
  if (group != nullptr) {
    pong.last_seq = group->window.submitted();
    pong.passed = group->window.done_upto();
    const Op& op = group->window.at(pong.passed + 1);
    if (op.seq == pong.passed + 1 && op.state == Op::State::running) pong.moved = op.moved();
  }
  pong.given_up = is_closed;
  pong.tells_doing = ping.asks_doing;
  if (doing.size() > transport::kMostDoing) doing.resize(transport::kMostDoing);
  channel_.control(peer, encode(pong), std::move(doing));
}

void FailureDetector::on_pong(Group& group, int rank, const transport::PongFrame& pong,
                              std::span<const std::byte> doing) {
  RankAnswer& answer = group.answer_of(rank);
  answer.at = world_.now();
  answer.last_seq = pong.last_seq;
  answer.passed = pong.passed;
  answer.moved = pong.moved;
  // Frames come in order, so all its frames of this group have come before.
  if (pong.given_up) group.member(rank).given_up = true;
  if (!pong.tells_doing) return;
  answer.told_doing = answer.at;
  answer.doing = base::shown_on_line({reinterpret_cast<const char*>(doing.data()), doing.size()},
                                     transport::kMostDoing);
}

bool FailureDetector::is_through(Group& group, int rank, std::uint64_t seq) const noexcept {
  Member& member = group.member(rank);
  if (member.given_up || channel_.has_left(member.global)) return true;
  if (member.local < 0) return group.answer(rank).passed >= seq;
  const transport::RegionPeer& peer = world_.regions->peers[static_cast<std::size_t>(member.local)];
  // acquire: pairs with Host::leave.
  if (peer.words().left.load(std::memory_order_acquire) != 0) return true;
  if (member.block == nullptr && !find_block(group, member)) return false;
  return passed_by(*member.block) >= seq;
}

std::string FailureDetector::state_of(const Member& member) const {
  if (member.local < 0 || world_.process_state == nullptr) return {};
  const int pid = world_.pids.empty()
                      ? world_.regions->peers[static_cast<std::size_t>(member.local)].words().pid
                      : world_.pids[static_cast<std::size_t>(member.global)];
  return pid == 0 ? std::string() : world_.process_state(pid);
}

/// How far a rank has come in an operation, as well as can be known from here.
bool FailureDetector::observe(const Op& op, int rank, TimePoint asked, Blame& blame) const {
  Group& group = *op.group;
  Member& member = group.members[static_cast<std::size_t>(rank)];
  if (!blame.progress_of(rank).waited && is_through(group, rank, op.seq)) return false;
  blame.process(rank, state_of(member));
  const RankAnswer& answer = group.answer(rank);
  // Also from an earlier answer: the ranks that are waited for are pinged all the time.
  if (answer.at != TimePoint{} && answer.passed + 1 == op.seq) blame.moved(rank, answer.moved);
  if (member.local < 0) {
    if (answer.at >= asked)
      blame.pong(rank, answer.last_seq);
    else if (op.streams.received_since(rank))
      blame.pong(rank, op.seq);  // its answer stands behind its bytes, on a slow way
    else
      blame.silent(rank);
    return true;
  }
  if (member.block == nullptr && !find_block(group, member)) return true;
  std::uint64_t count = 0;
  for (int i = 0; i < shm::kCounters; ++i) {
    const std::uint64_t value = shm::value_of(member.block->counter(op.seq, i));
    if (value >> shm::kCounterShift == op.seq) count += value;
  }
  blame.lines(rank, last_call_of(*member.block), count);
  return true;
}

void FailureDetector::observe_own(const Op& op, Blame& blame) {
  if (op.streams.is_open()) blame.moved(op.group->rank, op.moved());
}

std::optional<Outcome> FailureDetector::time_out(Op& op, TimePoint now,
                                                 std::span<const int> waited) {
  Group& group = *op.group;
  if (op.timer.asked == TimePoint{}) {
    op.timer.asked = now;
    op.streams.note_received();
    // A process that does not answer within kAnswerTime is the one to blame.
    if (ping_other_hosts(op)) {
      op.timer.deadline = now + kAnswerTime;
      return std::nullopt;
    }
  }
  Blame blame(op_text(op), op.seq, group.size,
              [&](int rank) { return name_of(world_, group, rank); });
  for (const int rank : waited) blame.waits_for(rank);
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank || !observe(op, rank, op.timer.asked, blame)) continue;
    if (auto doing = told_ahead(group, rank, op.timer.asked_ahead, now))
      blame.doing(rank, std::move(*doing));
  }
  observe_own(op, blame);
  return blame.timed_out(now - op.timer.started, op.call.timeout);
}

Blame FailureDetector::observe_queue(Group& group) const {
  const std::uint64_t seq = group.window.started() + 1;
  const Collective& call = group.window.first_queued().call();
  Blame blame(
      "group '" + group.name + "', operation " + std::to_string(seq) + " " + tutti::describe(call),
      seq, group.size, [&](int rank) { return name_of(world_, group, rank); });
  const std::uint64_t passed =
      seq - std::min(seq, static_cast<std::uint64_t>(most_under_way(group)));
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    const bool known = member.block != nullptr || find_block(group, member);
    const std::uint64_t done = known ? passed_by(*member.block) : 0;
    if (done >= passed) continue;
    const transport::RegionPeer& peer =
        world_.regions->peers[static_cast<std::size_t>(member.local)];
    blame.lines(rank, done, 0);
    blame.process(rank, state_of(member));
    // acquire: pairs with Host::leave.
    if (peer.words().left.load(std::memory_order_acquire) != 0) blame.left(rank);
  }
  return blame;
}

std::optional<Outcome> FailureDetector::check_queue(Group& group, TimePoint now) {
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
  const std::chrono::nanoseconds timeout = group.window.first_queued().call().timeout;
  Blame blame = observe_queue(group);
  const int culprit = blame.culprit();
  if (culprit < 0) return std::nullopt;
  const RankProgress& progress = blame.progress_of(culprit);
  if (!progress.left) {
    TimePoint until = base::deadline_after(timer.since, timeout);
    const Member& member = group.members[static_cast<std::size_t>(culprit)];
    if (std::exchange(timer.waiting_for, culprit) != culprit)
      timer.begun_since = timer.asked_ahead = TimePoint{};
    if (progress.runs && member.block != nullptr && last_call_of(*member.block) > progress.seq) {
      // It may itself wait for a rank of another host, of which we see nothing. It has time to ask
      // that rank, and to name it when its own timeout is over.
      if (timer.begun_since == TimePoint{}) timer.begun_since = now;
      until = std::max(until, base::deadline_after(timer.begun_since + 2 * kAnswerTime, timeout));
    }
    if (is_time_to_ask(timer.asked_ahead, until, timeout, now)) ask_doing(group, culprit);
    if (now < until) return std::nullopt;
    if (auto doing = told_ahead(group, culprit, timer.asked_ahead, now))
      blame.doing(culprit, std::move(*doing));
  }
  return blame.cannot_begin(now - timer.since, most_under_way(group));
}

Outcome FailureDetector::gone(const Op& op, int rank) const {
  return Outcome(
             Errc::peer_left,
             op_text(op) + ": " + name_of(world_, *op.group, rank) +
                 " has ended, or destroyed the group, without taking part. Every rank must make "
                 "this call before it does; the group is broken.")
      .with_culprit(rank);
}

}  // namespace tutti::engine
