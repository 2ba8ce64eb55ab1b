#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/deadline.hpp"
#include "engine/engine.hpp"
#include "engine/mailbox.hpp"
#include "engine/watch_times.hpp"

// What is looked at now and then while sends and recvs wait: deadlines, who has left, and whom to
// blame (decisions E6; docs/errors.md).
namespace tutti::engine {

using transport::FrameHeader;
using transport::FrameType;

std::string Mailbox::text_of(const Transfer& transfer) const {
  Collective call;
  call.kind = transfer.kind;
  call.root = transfer.any ? kAnySource : transfer.rank;
  call.tag = transfer.tag;
  call.input = transfer.view;
  call.output = transfer.view;
  return "group '" + group_.name + "' of " + std::to_string(group_.size) +
         (group_.size == 1 ? " rank, " : " ranks, ") + tutti::describe(call);
}

std::string Mailbox::running_text() {
  for (const Transfer& transfer : transfers_) {
    if (transfer.state == Transfer::State::running) return text_of(transfer);
  }
  return {};
}

/// It has ended or destroyed the group, and everything that it had to say has come.
bool Mailbox::has_left(int rank) const noexcept {
  const Member& member = group_.members[static_cast<std::size_t>(rank)];
  return rank != group_.rank &&
         (member.given_up || engine_.peers_[static_cast<std::size_t>(member.global)].left);
}

/// Looks for ranks of our host that have destroyed the group: what they had sent then comes in.
void Mailbox::find_given_up() {
  for (const int rank : group_.local_members) {
    (void)engine_.has_given_up(group_, group_.members[static_cast<std::size_t>(rank)]);
    if (group_.broken) return;
  }
}

/// True if the group was broken.
bool Mailbox::check_left(const Transfer& transfer) {
  int who = -1;
  if (transfer.rank != kAnySource) {
    if (has_left(transfer.rank)) who = transfer.rank;
  } else if (group_.size > 1) {
    for (int rank = 0; rank < group_.size; ++rank) {
      if (rank == group_.rank) continue;
      if (!has_left(rank)) return false;
      who = rank;
    }
  }
  if (who < 0) return false;
  std::string text = text_of(transfer) + ": ";
  const bool anybody = transfer.rank == kAnySource;
  text += anybody ? "all other ranks have ended, or destroyed the group, and sent nothing for it, "
                    "the last of them "
                  : "";
  text += engine_.name_of(group_, who);
  if (!anybody) {
    text += " has ended, or destroyed the group, ";
    text += transfer.kind == Kind::send ? "without receiving it" : "and sent nothing for it";
  }
  text += ". Every send needs its recv before either rank does; the group is broken.";
  engine_.break_group(group_, Status(Errc::peer_left, std::move(text)).with_culprit(who));
  return true;
}

void Mailbox::ping(int rank) {
  const int global = group_.members[static_cast<std::size_t>(rank)].global;
  if (rank == group_.rank) return;
  FrameHeader header;  // of no collective: nothing is compared
  header.type = static_cast<std::uint8_t>(FrameType::ping);
  header.group = group_.id;
  engine_.control(global, header);
}

void Mailbox::note_waited(const Transfer& transfer) noexcept {
  if (transfer.rank == kAnySource)
    std::fill(waited_.begin(), waited_.end(), true);
  else
    waited_[static_cast<std::size_t>(transfer.rank)] = true;
}

void Mailbox::tick(TimePoint now) {
  next_deadline_ = TimePoint::max();
  if (running_ == 0 || engine_.hear_of_break(group_)) return;
  find_given_up();
  if (running_ == 0 || group_.broken) return;
  std::fill(waited_.begin(), waited_.end(), false);
  for (Transfer& transfer : transfers_) {
    if (transfer.state != Transfer::State::running) continue;
    if (transfer.deadline == TimePoint{}) {
      transfer.started = now;
      transfer.deadline = base::deadline_after(now, transfer.timeout);
    }
    if (check_left(transfer)) return;
    if (now >= transfer.deadline) time_out(transfer, now);
    if (group_.broken) return;
    note_waited(transfer);
    next_deadline_ = std::min(next_deadline_, transfer.deadline);
  }
  if (inquired_ == TimePoint{}) inquired_ = now + kInquireAfter - kInquireAgain;
  if (now < inquired_ + kInquireAgain) return;
  // So that something is on the way to those that are waited for: then a dead network shows.
  inquired_ = now;
  for (int rank = 0; rank < group_.size; ++rank) {
    // A rank of our host that computes has nobody who would answer, and its process tells more.
    const bool local = group_.members[static_cast<std::size_t>(rank)].local >= 0;
    if (waited_[static_cast<std::size_t>(rank)] && !local) ping(rank);
  }
}

void Mailbox::time_out(Transfer& transfer, TimePoint now) {
  if (transfer.asked == TimePoint{}) {
    transfer.asked = now;
    bool asked = false;
    for (int rank = 0; rank < group_.size; ++rank) {
      if (transfer.rank != kAnySource && transfer.rank != rank) continue;
      if (rank == group_.rank) continue;
      if (group_.members[static_cast<std::size_t>(rank)].local >= 0) continue;
      ping(rank);
      asked = true;
    }
    if (asked) {  // decisions E6: a process that answers nothing for 200 ms is the one to blame
      transfer.deadline = now + kAnswerTime;
      return;
    }
  }
  // Of anybody's, only one that does not run is to blame.
  int culprit = transfer.rank;
  std::string state;
  bool silent = false;
  for (int rank = 0; rank < group_.size && state.empty() && !silent; ++rank) {
    if (rank == group_.rank || (transfer.rank != kAnySource && transfer.rank != rank)) continue;
    const Member& member = group_.members[static_cast<std::size_t>(rank)];
    const auto global = static_cast<std::size_t>(member.global);
    state = engine_.state_of(member);
    silent = state.empty() && member.local < 0 && engine_.peers_[global].pong < transfer.asked;
    if (!state.empty() || silent) culprit = rank;
  }
  std::string text = text_of(transfer) + " timed out after " +
                     seconds_text(now - transfer.started) + " (timeout " +
                     seconds_text(transfer.timeout) + "): ";
  text += culprit == kAnySource ? "no rank" : engine_.name_of(group_, culprit);
  if (!state.empty())
    text += " is " + state;
  else if (silent)
    text += " answers nothing: it is stopped, or cut off";
  else if (transfer.matched)
    text += " has not come to an end with it: " + std::to_string(transfer.moved) + " of " +
            std::to_string(transfer.bytes) + " bytes have passed";
  else if (transfer.kind == Kind::send)
    text += " has not called the recv for it";
  else
    text += culprit == kAnySource ? " has sent it" : " has not sent it";
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  Status cause(Errc::timeout, std::move(text));
  if (culprit != kAnySource) cause.with_culprit(culprit);
  engine_.break_group(group_, cause);
}

}  // namespace tutti::engine
