#include <algorithm>
#include <utility>

#include "base/deadline.hpp"
#include "engine/detector_times.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"

// The checks of each tick while sends and recvs wait: deadlines, ranks that have left, and which
// rank to blame (docs/reference/errors.md).
namespace tutti::engine {

std::string P2PMatcher::text_of(const P2PRequest& request) const {
  Collective call;
  call.kind = request.kind;
  call.root = request.any ? any_source : request.rank;
  call.tag = request.every_tag ? any_tag : request.tag;
  call.input = request.view;
  call.output = request.view;
  return "group '" + group_.name + "' of " + std::to_string(group_.size) +
         (group_.size == 1 ? " rank, " : " ranks, ") + tutti::describe(call);
}

std::string P2PMatcher::running_text() {
  for (const auto& request : requests_) {
    if (request->state == P2PRequest::State::running) return text_of(*request);
  }
  return {};
}

/// True if the rank has ended or destroyed the group, and all its frames have come.
bool P2PMatcher::has_left(int rank) const noexcept {
  const Member& member = group_.members[static_cast<std::size_t>(rank)];
  return rank != group_.rank && (member.given_up || channel_.has_left(member.global));
}

/// Looks for ranks of our host that have destroyed the group, and reads the frames that they had
/// sent.
void P2PMatcher::find_given_up() {
  for (const int rank : group_.local_members) {
    (void)shared_.propagation.has_given_up(group_, group_.members[static_cast<std::size_t>(rank)]);
    if (group_.broken) return;
  }
}

/// True if the group was broken.
bool P2PMatcher::check_left(const P2PRequest& request) {
  // All of the message is here, and only the memory for it is awaited, of our own caller.
  const bool came = request.kind == Kind::recv && request.unasked == request.bytes;
  if (request.matched && came && request.moved == request.bytes) return false;
  int who = -1;
  if (request.rank != any_source) {
    if (has_left(request.rank)) who = request.rank;
  } else if (group_.size > 1) {
    for (int rank = 0; rank < group_.size; ++rank) {
      if (rank == group_.rank) continue;
      if (!has_left(rank)) return false;
      who = rank;
    }
  }
  if (who < 0) return false;
  std::string text = text_of(request) + ": ";
  const bool anybody = request.rank == any_source;
  text += anybody ? "all other ranks have ended, or destroyed the group, and sent nothing for it, "
                    "the last of them "
                  : "";
  text += name_of(shared_.world, group_, who);
  const bool sends = request.kind == Kind::send;
  if (!anybody) text += " has ended, or destroyed the group, ";
  if (request.matched) {  // the other rank has called its send or recv
    text += sends ? "while it was receiving it: " : "while it was sending it: ";
    text += std::to_string(request.moved) + " of " + std::to_string(request.bytes) +
            " bytes have passed. Wait for the Work of a send or recv before its rank does";
  } else {
    if (!anybody) text += sends ? "without receiving it" : "and sent nothing for it";
    text += ". Every send needs its recv before either rank does";
  }
  text += "; the group is broken.";
  shared_.propagation.break_group(group_,
                                  Outcome(Errc::peer_left, std::move(text)).with_culprit(who));
  return true;
}

void P2PMatcher::ping(int rank) {
  if (rank == group_.rank) return;
  shared_.detector.ping(group_, rank);
}

void P2PMatcher::note_waited(const P2PRequest& request) noexcept {
  if (request.rank == any_source)
    std::fill(waited_.begin(), waited_.end(), true);
  else
    waited_[static_cast<std::size_t>(request.rank)] = true;
}

void P2PMatcher::tick(TimePoint now) {
  next_deadline_ = TimePoint::max();
  if (running_ == 0 || shared_.propagation.hear_of_break(group_)) return;
  find_given_up();
  if (running_ == 0 || group_.broken) return;
  std::fill(waited_.begin(), waited_.end(), false);
  const P2PRequest* first = nullptr;  // of those that run
  for (const auto& one : requests_) {
    P2PRequest& request = *one;
    if (request.state != P2PRequest::State::running) continue;
    if (request.deadline == TimePoint{}) {
      request.started = now;
      request.deadline = base::deadline_after(now, request.timeout);
      request.asked_ahead = TimePoint{};
      request.pace = {};
    }
    request.pace.note(request.moved, now);
    if (check_left(request)) return;
    if (waits_for_caller(request)) {  // which checks the deadline; no other rank is late
      note_waited(request);
      continue;
    }
    ask_ahead(request, now);
    if (now >= request.deadline) time_out(request, now);
    if (group_.broken) return;
    note_waited(request);
    if (first == nullptr || request.started < first->started) first = &request;
    next_deadline_ = std::min(next_deadline_, request.deadline);
  }
  if (first != nullptr && shared_.stalls.is_on()) look_for_stall(*first, running_ - 1, now);
  if (pinged_blocking_ == TimePoint{}) pinged_blocking_ = now + kPingAfter - kPingAgain;
  if (now < pinged_blocking_ + kPingAgain) return;
  // Pings keep bytes under way to the ranks that requests wait for, so that a cut network is found.
  pinged_blocking_ = now;
  for (int rank = 0; rank < group_.size; ++rank) {
    // A rank of our host that computes has nobody who would answer, and its process tells more.
    const bool local = group_.members[static_cast<std::size_t>(rank)].local >= 0;
    if (waited_[static_cast<std::size_t>(rank)] && !local) ping(rank);
  }
}

/// The part of an error text that says what the other rank, whose process runs, has not done.
/// `anybody`: the text begins with "no rank". `doing`: Blame::doing_text of that rank.
std::string P2PMatcher::missing_text(const P2PRequest& request, bool anybody,
                                     const std::string& doing) const {
  if (request.matched)
    return " has not come to an end with it" + (doing.empty() ? ": " : doing + "; ") +
           std::to_string(request.moved) + " of " + std::to_string(request.bytes) +
           " bytes have passed" + pace_text(request.pace.per_second);
  if (request.kind == Kind::send && request.gpu != nullptr)
    return " has not called the recv for it, or its stream has not come to the recv" + doing;
  if (request.kind == Kind::send) {
    const bool facing = unexpected_.first({request.rank, request.tag}) != MatchQueues::kNone;
    return " has not called the recv for it" + doing +
           (facing ? "; nor has this rank received what that rank sends to it: where two ranks "
                     "send to each other, one receives first, or both use isend or "
                     "batch_isend_irecv"
                   : "");
  }
  return (anybody ? " has sent it" : " has not sent it") + doing;
}

/// Logs that `request` waits. It is the first request that runs, and `behind` others run. Ranks
/// that wait for each other each log their own call.
void P2PMatcher::look_for_stall(const P2PRequest& request, std::size_t behind, TimePoint now) {
  const bool asks = stall_.asked == TimePoint{};
  const bool due = shared_.stalls.is_due(group_, stall_, request.ticket, request.rank, now);
  if (asks && stall_.asked != TimePoint{}) stall_moved_ = request.moved;
  if (!due) return;
  const bool anybody = request.rank == any_source;
  std::string text =
      text_of(request) + " has waited for " + base::seconds_text(now - request.started) + ": ";
  text += anybody ? "no rank" : name_of(shared_.world, group_, request.rank);
  const Member* const member = anybody ? nullptr : &group_.member(request.rank);
  const std::string state = anybody ? std::string() : shared_.detector.state_of(*member);
  if (!state.empty()) text += " is " + state + ";";
  std::string doing;
  if (!anybody && request.rank != group_.rank && state.empty())
    doing = Blame::doing_text(shared_.detector.doing_of(group_, request.rank, stall_.asked));
  // On a slow way its answer stands behind its bytes.
  if (!anybody && member->local < 0 && request.rank != group_.rank &&
      group_.answer(request.rank).at < stall_.asked && request.moved == stall_moved_)
    text += " answers nothing: it is stopped, or cut off";
  else
    text += missing_text(request, anybody, doing);
  if (behind > 0) text += " (and " + std::to_string(behind) + " more of this rank wait)";
  stall_.set_next(now);
  StallReporter::tell(text, stall_, now);
}

/// Asks the other rank what it is doing; once for all requests of one time.
void P2PMatcher::ask_ahead(P2PRequest& request, TimePoint now) {
  if (request.rank == any_source || request.rank == group_.rank ||
      !FailureDetector::is_time_to_ask(request.asked_ahead, request.deadline, request.timeout, now))
    return;
  const TimePoint asked = group_.answer(request.rank).asked_doing;
  const bool again = asked == TimePoint{} || now >= asked + kPingAgain;
  if (again) shared_.detector.ask_doing(group_, request.rank);
  request.asked_ahead = again ? now : asked;
}

void P2PMatcher::time_out(P2PRequest& request, TimePoint now) {
  if (request.asked == TimePoint{}) {
    request.asked = now;
    request.moved_before = request.moved;
    bool asked = false;
    for (int rank = 0; rank < group_.size; ++rank) {
      if (request.rank != any_source && request.rank != rank) continue;
      if (rank == group_.rank) continue;
      if (group_.members[static_cast<std::size_t>(rank)].local >= 0) continue;
      ping(rank);
      asked = true;
    }
    if (asked) {  // a process that does not answer within kAnswerTime is the one to blame
      request.deadline = now + kAnswerTime;
      return;
    }
  }
  Blame blame(text_of(request), 0, group_.size,
              [&](int rank) { return name_of(shared_.world, group_, rank); });
  for (int rank = 0; rank < group_.size; ++rank) {
    if (rank == group_.rank || (request.rank != any_source && request.rank != rank)) continue;
    if (has_left(rank)) continue;  // a recv with any_source can still get another rank's message
    const Member& member = group_.members[static_cast<std::size_t>(rank)];
    blame.process(rank, shared_.detector.state_of(member));
    // On a slow way its answer stands behind its bytes.
    if (member.local < 0 && group_.answer(rank).at < request.asked &&
        request.moved == request.moved_before)
      blame.silent(rank);
  }
  // With any_source only a rank whose process does not run is to blame.
  const int worst = blame.culprit();
  const bool runs = worst < 0 || blame.progress_of(worst).runs;
  const int culprit = runs ? request.rank : worst;
  const bool may_wait_itself =
      runs && culprit != any_source && culprit != group_.rank && group_.size > 2;
  if (may_wait_itself && !std::exchange(request.spared, true)) {
    // The other rank may itself wait for a third one that is stopped. It has time to name that one
    // when its own timeout is over.
    request.deadline = now + 2 * kAnswerTime;
    return;
  }
  const std::string state = runs ? std::string() : blame.progress_of(worst).state;
  const bool silent = !runs && state.empty();
  const std::string doing = culprit == any_source || culprit == group_.rank
                                ? std::string()
                                : Blame::doing_text(shared_.detector.told_ahead(
                                      group_, culprit, request.asked_ahead, now));
  std::string text = text_of(request) + " timed out after " +
                     base::seconds_text(now - request.started) + " (timeout " +
                     base::seconds_text(request.timeout) + "): ";
  text += culprit == any_source ? "no rank" : name_of(shared_.world, group_, culprit);
  if (!state.empty())
    text += " is " + state;
  else if (silent)
    text += " answers nothing: it is stopped, or cut off";
  else
    text += missing_text(request, culprit == any_source, doing);
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  Outcome cause(Errc::timeout, std::move(text));
  if (culprit != any_source) cause.with_culprit(culprit);
  shared_.propagation.break_group(group_, cause);
}

}  // namespace tutti::engine
