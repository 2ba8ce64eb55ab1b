#include <algorithm>
#include <utility>

#include <tutti/backend/kinds.hpp>
#include "backend/mpi/driver.hpp"
#include "backend/mpi/group.hpp"
#include "backend/mpi/world.hpp"

// The failures of operations and groups, and the notes that tell the other ranks.
namespace tutti::mpi {
namespace {

/// Ranks that wait for an operation answer at once; a rank that computes does not.
constexpr auto kAnswerTime = std::chrono::milliseconds(500);
/// Messages that a rank had sent before it left may arrive after the note that it has left.
constexpr auto kLastMessages = std::chrono::milliseconds(200);

}  // namespace

std::string MpiGroup::text_of(const foreign::ForeignOperation& op) const {
  if (op.seq == 0) return describe(op.call) + " in group '" + name() + "'";
  return "operation " + std::to_string(op.seq) + " " + call::describe(op.code) + " in group '" +
         name() + "'";
}

std::string MpiGroup::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on " + world_.location(world_rank(rank));
}

void MpiGroup::tell_all(const Note& note) {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != this->rank()) world_.send(world_rank(rank), note);
  }
}

Outcome MpiGroup::drop_requests(MpiOperation& op, Outcome outcome) {
  if (op.call.kind == Kind::recv && !op.found) {
    std::erase_if(op.requests, [&](Request& request) {
      bool done = false;
      Received message;
      return place_.api.cancel(request, done, message) == 0 && done;
    });
  }
  if (op.requests.empty()) return outcome;
  // MPI cannot call a collective or a message back.
  unfinished_ = true;
  world_.driver().abandon_requests();
  const bool was_moving = op.state == MpiOperation::State::moving;
  if (!was_moving || !(op.in.callers() || op.out.callers())) return outcome;
  std::string text(outcome.message());
  text += text.ends_with('.') ? " " : ". ";
  text +=
      "MPI cannot call an operation back: it may still use the tensors of this call, so keep them "
      "until the process ends.";
  Outcome kept(outcome.code(), std::move(text));
  kept.with_tensors_in_use();
  if (const auto culprit = outcome.culprit()) kept.with_culprit(*culprit);
  return kept;
}

void MpiGroup::fail(const Outcome& cause, bool tell) {
  if (!operations_.break_with(cause)) return;
  queue_.clear();
  operations_.each_running([&](MpiOperation& op) { end(op, cause); });
  if (!tell) return;
  Note note = note_of(cause);
  note.group = id();
  tell_all(note);
}

void MpiGroup::mpi_failed(MpiOperation& op, const char* what, int code) {
  Outcome cause(Errc::internal, "MPI failed in " + text_of(op) + " (" + what +
                                    "): " + place_.api.error_text(code) +
                                    "; the group is broken, make a new one");
  cause.with_culprit(rank());
  fail(cause, true);
  end(op, cause);
}

void MpiGroup::wrong_length(MpiOperation& op, std::int64_t expected) {
  const auto element = static_cast<std::int64_t>(size_of(op.extent.dtype));
  fail(Outcome(Errc::disagreement,
               "ranks disagree in group '" + name() + "': " + name_of(op.source) + " has sent " +
                   std::to_string(op.received) + " bytes, and " + describe(op.call) + " expects " +
                   std::to_string(expected) + " (" + std::to_string(expected / element) + " x " +
                   std::string(to_string(op.extent.dtype)) +
                   "); the group is broken, make a new one"),
       true);
}

// ---- Late ranks

void MpiGroup::look_at_clock(MpiOperation& op, TimePoint now) {
  if (op.asked && op.seq != 0 && all_have_answered()) return fail(timeout_of(op, now), true);
  if (now < op.deadline) return;
  if (op.asked || op.seq == 0 || size() == 1) return fail(timeout_of(op, now), true);
  op.asked = true;
  op.deadline = now + kAnswerTime;
  std::fill(answers_.begin(), answers_.end(), -1);
  Note note;
  note.kind = Note::Kind::asks;
  note.group = id();
  tell_all(note);
}

bool MpiGroup::all_have_answered() const noexcept {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != this->rank() && answers_[static_cast<std::size_t>(rank)] < 0) return false;
  }
  return true;
}

Outcome MpiGroup::timeout_of(const MpiOperation& op, TimePoint now) const {
  std::string text = text_of(op) + op.timed_out(now);
  int culprit = -1;
  if (op.seq == 0) {
    if (op.call.root >= 0 && op.call.root != rank()) culprit = op.call.root;
    if (culprit >= 0)
      text += ": " + name_of(culprit) +
              (op.call.kind == Kind::send ? " has not taken it" : " has not sent it");
  } else {
    std::int64_t least = static_cast<std::int64_t>(op.seq);
    for (int rank = 0; rank < size(); ++rank) {
      const std::int64_t answer = answers_[static_cast<std::size_t>(rank)];
      if (rank != this->rank() && answer < least) {
        least = answer;
        culprit = rank;
      }
    }
    if (culprit >= 0 && least < 0)
      text += ": " + name_of(culprit) +
              " answers nothing: it is stopped, cut off, or busy outside of tutti";
    else if (culprit >= 0)
      text += ": " + name_of(culprit) +
              " has not made this call yet (its last one here was operation " +
              std::to_string(least) + ")";
    else
      text += ": all ranks have made the call, and MPI has not ended it";
  }
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  Outcome cause(Errc::timeout, std::move(text));
  if (culprit >= 0) cause.with_culprit(culprit);
  return cause;
}

// ---- Ranks that have left

void MpiGroup::check_left(MpiOperation& op, TimePoint now) {
  int gone = -1;
  for (int rank = 0; rank < size() && gone < 0; ++rank) {
    const auto& left = left_[static_cast<std::size_t>(rank)];
    if (!left) continue;
    const bool misses = op.seq != 0 ? left->first < op.seq
                                    : op.call.root == rank && now - left->second > kLastMessages;
    if (misses) gone = rank;
  }
  if (gone < 0) return;
  fail(Outcome(Errc::peer_left, name_of(gone) + " has destroyed its end of group '" + name() +
                                    "' (its last operation there was " +
                                    std::to_string(left_[static_cast<std::size_t>(gone)]->first) +
                                    "), so " + text_of(op) + " cannot end; the group is broken")
           .with_culprit(gone),
       true);
}

void MpiGroup::on_note(const Note& note, int from) {
  const auto member = std::find(spec_.members.begin(), spec_.members.end(), from);
  if (member == spec_.members.end()) return;  // no member: it is mistaken
  const auto rank = static_cast<std::size_t>(member - spec_.members.begin());
  switch (note.kind) {
    case Note::Kind::broken:
      fail(cause_of(note, size()), false);
      was_broken_ = true;
      return;
    case Note::Kind::left:
      left_[rank] = {note.seq, std::chrono::steady_clock::now()};
      sent_us_[rank] = note.messages;
      any_left_ = true;
      return;
    case Note::Kind::asks: {
      Note answer;
      answer.kind = Note::Kind::answer;
      answer.group = id();
      answer.seq = comparison_.last();
      world_.send(from, answer);
      return;
    }
    case Note::Kind::answer:
      // As numbers of operations go; more is a mistake.
      answers_[rank] =
          static_cast<std::int64_t>(std::min<std::uint64_t>(note.seq, comparison_.last() + 1));
      return;
  }
}

void MpiGroup::leave() {
  if (gone_) return;
  const Outcome gone = foreign::destroyed(name());
  operations_.each_running([&](MpiOperation& op) { end(op, gone); });
  operations_.tidy();
  queue_.clear();
  // Messages that MPI has set aside for us, and that nobody receives any more.
  if (!returned_.empty() || !held_.empty()) world_.driver().abandon_requests();
  was_broken_ = !operations_.break_with(gone);
  Note note;
  note.kind = Note::Kind::left;
  note.group = id();
  note.seq = comparison_.last();
  for (int rank = 0; rank < size(); ++rank) {
    note.messages = sent_[static_cast<std::size_t>(rank)];
    if (rank != this->rank()) world_.send(world_rank(rank), note);
  }
  gone_ = true;
  free_communicators();
}

void MpiGroup::free_communicators() {
  if (released_) return;
  if (!spec_.made) {
    released_ = true;
    return;
  }
  bool arrived = true;
  for (int rank = 0; rank < size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank != this->rank() && !left_[at]) return;  // later
    const std::uint64_t sent = rank == this->rank() ? sent_[at] : sent_us_[at];
    arrived = arrived && sent == received_[at];
  }
  released_ = true;
  // Messages may be on their way for ever.
  if (!arrived || was_broken_ || unfinished_) return;
  freed_ = place_.api.free(spec_.data) == 0;
  freed_ = place_.api.free(spec_.compare) == 0 && freed_;
}

}  // namespace tutti::mpi
