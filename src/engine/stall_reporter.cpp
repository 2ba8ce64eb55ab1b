#include "engine/stall_reporter.hpp"

#include <algorithm>
#include <utility>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "engine/blame.hpp"
#include "engine/detector_times.hpp"
#include "engine/interpreter.hpp"
#include "engine/names.hpp"

// docs/reference/errors.md says which rank writes which line.
namespace tutti::engine {

namespace {

/// The ranks that are asked next, as a half-open interval: ranks just below ours, each time twice
/// as many, until one of them reports or kMostAsked do not. Then we report, and ask all ranks.
std::pair<int, int> asked_by(const Group& group, const StallTimer& timer) noexcept {
  if (timer.cleared >= std::min(group.rank, kMostAsked)) return {0, group.size};
  const int end = group.rank - timer.cleared;
  return {std::max(0, end - timer.count), end};
}

}  // namespace

void StallReporter::tell(const std::string& what, const StallTimer& timer, TimePoint now) {
  base::log(base::Level::warning,
            what + ". It goes on waiting; the next line in " + base::seconds_text(timer.due - now));
}

/// True if, as far as we can see, that rank waits in operation `seq` and its process runs, so that
/// it can report it.
bool StallReporter::waits_in(Group& group, int rank, std::uint64_t seq) const {
  Member& member = group.member(rank);
  const RankAnswer& answer = group.answer(rank);
  bool waits = group.stall.asked != TimePoint{} && answer.at >= group.stall.asked &&
               answer.last_seq >= seq && answer.passed < seq;
  if (member.local >= 0 && (member.block != nullptr || find_block(group, member)))
    waits =
        waits || (last_call_of(*member.block) >= seq && !detector_.is_through(group, rank, seq));
  return waits && detector_.state_of(member).empty();
}

void StallReporter::ask(Group& group, const StallTimer& timer, bool local) {
  const auto [from, end] = asked_by(group, timer);
  if (Op& op = group.window.at(timer.number); op.seq == timer.number) op.streams.note_received();
  for (int rank = from; rank < end; ++rank) {
    if (rank != group.rank && (local || group.member(rank).local < 0))
      detector_.ask_doing(group, rank);
  }
}

bool StallReporter::all_have_answered(const Group& group, const StallTimer& timer,
                                      bool local) const noexcept {
  const auto [from, end] = asked_by(group, timer);
  for (int rank = from; rank < end; ++rank) {
    if (rank == group.rank || (!local && group.member(rank).local >= 0)) continue;
    if (group.answer(rank).told_doing < timer.asked) return false;
  }
  return true;
}

/// Looks for a lower rank that waits in the operation: that one reports it, or finds a lower rank
/// that does. Ranks of our host show it in shared memory once the operation has begun there; others
/// are asked.
bool StallReporter::is_ours_to_tell(Group& group, std::uint64_t seq, bool began, TimePoint now) {
  StallTimer& timer = group.stall;
  if (!timer.is_due(seq, now, world_.stall_warning)) return false;
  const auto tells = [&](int rank) { return rank < group.rank && waits_in(group, rank, seq); };
  bool other = std::ranges::any_of(group.local_members, tells);
  while (!other) {
    const bool ours = timer.cleared >= std::min(group.rank, kMostAsked);
    const bool local = ours || !began;
    if (timer.asked == TimePoint{}) {
      timer.asked = now;
      ask(group, timer, local);
    }
    const auto answer_time =
        ours ? kDoingTime : 2 * kDoingTime;  // two ranks that report are worse than a late report
    if (!all_have_answered(group, timer, local) && now < timer.asked + answer_time) return false;
    if (ours) return true;
    const auto [from, end] = asked_by(group, timer);
    for (int rank = from; rank < end && !other; ++rank) other = tells(rank);
    if (other) break;
    timer.cleared = group.rank - from;
    timer.count *= 2;
    timer.asked = {};
  }
  timer.set_next(now);
  return false;
}

void StallReporter::look(const Op& op, TimePoint now) {
  Group& group = *op.group;
  if (!is_ours_to_tell(group, op.seq, true, now)) return;
  Blame blame(op_text(op), op.seq, group.size,
              [&](int rank) { return name_of(world_, group, rank); });
  for (const int rank : Interpreter::blocked_on(op)) blame.waits_for(rank);
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank) continue;
    if (!detector_.observe(op, rank, group.stall.asked, blame)) continue;
    if (auto doing = detector_.doing_of(group, rank, group.stall.asked)) blame.doing(rank, *doing);
  }
  FailureDetector::observe_own(op, blame);
  const std::string text = blame.waiting(now - group.stall.since);
  group.stall.set_next(now);
  tell(text, group.stall, now);
}

void StallReporter::look_at_queue(Group& group, TimePoint now) {
  const std::uint64_t seq = group.window.started() + 1;
  if (!is_ours_to_tell(group, seq, false, now)) return;
  Blame blame = detector_.observe_queue(group);
  const int culprit = blame.culprit();
  if (culprit >= 0) {
    if (auto doing = detector_.doing_of(group, culprit, group.stall.asked))
      blame.doing(culprit, *doing);
  }
  const std::string text =
      blame.waiting_to_begin(now - group.stall.since, FailureDetector::most_under_way(group));
  group.stall.set_next(now);
  tell(text, group.stall, now);
}

bool StallReporter::is_due(Group& group, StallTimer& timer, std::uint64_t ticket, int rank,
                           TimePoint now) {
  if (!timer.is_due(ticket, now, world_.stall_warning)) return false;
  const bool first = timer.asked == TimePoint{};
  if (first) timer.asked = now;
  bool all = true;
  for (int one = 0; one < group.size; ++one) {
    if (one == group.rank || (rank != any_source && one != rank)) continue;
    if (first) detector_.ask_doing(group, one);
    all = all && group.answer(one).told_doing >= timer.asked;
  }
  return all || now >= timer.asked + kDoingTime;
}

}  // namespace tutti::engine
