#include "backend/mpi/notes.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backend/mpi/group.hpp"
#include "base/kept.hpp"
#include "base/received_errc.hpp"
#include "base/shown.hpp"

namespace tutti::mpi {
namespace {

constexpr int kTag = 1;
/// Notes of groups that are not made yet, or gone; the oldest are forgotten.
constexpr std::size_t kMostEarly = 256;
constexpr int kBytes = static_cast<int>(sizeof(Note));

}  // namespace

Notes::~Notes() {
  close();
  // MPI may still read what has not left: those notes stay where they are.
  if (!sent_.empty()) base::keep_for_good(std::move(sent_));
}

bool Notes::close() noexcept {
  bool done = true;
  Received note;
  // If it cannot be cancelled MPI may still write it.
  if (receives_ && (api_.cancel(receiving_, done, note) != 0 || !done))
    base::keep_for_good(std::move(incoming_));
  const bool quiet = done && !broken_ && !asked_ && sent_.empty();
  receives_ = false;
  broken_ = true;
  return quiet;
}

void Notes::add(std::uint64_t id, MpiGroup& group) {
  groups_[id] = &group;
  for (std::size_t i = 0; i < early_.size();) {
    if (early_[i].note.group != id) {
      ++i;
      continue;
    }
    group.on_note(early_[i].note, early_[i].from);
    early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Notes::send(int to, const Note& note) noexcept {
  if (broken_) return;
  asked_ = asked_ || note.kind == Note::Kind::asks || note.kind == Note::Kind::answer;
  try {
    sent_.push_back({note, {}});
  } catch (const std::bad_alloc&) {
    return;  // the others learn it by their own deadline
  }
  Sent& one = sent_.back();
  if (api_.isend(&one.note, kBytes, api_.byte(), to, kTag, comm_, one.request) != 0) {
    sent_.pop_back();
    broken_ = true;
  }
}

bool Notes::receive(Note& note, int& from) noexcept {
  if (broken_) return false;
  if (!receives_) {
    if (api_.ireceive(incoming_.get(), kBytes, api_.byte(), -1, kTag, comm_, receiving_) != 0) {
      broken_ = true;
      return false;
    }
    receives_ = true;
  }
  bool done = false;
  Received received;
  if (api_.test(receiving_, done, &received) != 0) {
    broken_ = true;  // and MPI may still write what it receives
    return false;
  }
  if (!done) return false;
  receives_ = false;
  note = *incoming_;
  from = received.source;
  return received.bytes == kBytes;
}

void Notes::deliver(const Note& note, int from) {
  const auto group = groups_.find(note.group);
  if (group != groups_.end()) {
    group->second->on_note(note, from);
  } else if (note.kind == Note::Kind::asks) {
    Note answer;  // it has begun nothing there
    answer.kind = Note::Kind::answer;
    answer.group = note.group;
    send(from, answer);
  } else if (note.kind == Note::Kind::broken || note.kind == Note::Kind::left) {
    if (early_.size() == kMostEarly) early_.erase(early_.begin());
    early_.push_back({note, from});
  }
}

void Notes::progress() {
  if (broken_) return;
  Note note;
  int from = 0;
  while (receive(note, from)) deliver(note, from);
  for (auto one = sent_.begin(); one != sent_.end();) {
    bool done = false;
    if (api_.test(one->request, done, nullptr) != 0) {
      broken_ = true;  // and MPI may still read what it sends
      return;
    }
    one = done ? sent_.erase(one) : std::next(one);
  }
}

Note note_of(const Outcome& cause) {
  Note note;
  note.kind = Note::Kind::broken;
  note.code = static_cast<std::int32_t>(cause.code());
  note.culprit = cause.culprit().value_or(-1);
  const std::string_view text = base::cut(cause.message(), sizeof(note.text));
  note.length = static_cast<std::uint32_t>(text.size());
  std::memcpy(note.text, text.data(), text.size());
  return note;
}

Outcome cause_of(const Note& note, int size) {
  const std::size_t length = std::min<std::size_t>(note.length, sizeof(note.text));
  Outcome cause(base::received_errc(note.code), base::shown(std::string_view(note.text, length)));
  if (note.culprit >= 0 && note.culprit < size) cause.with_culprit(note.culprit);
  return cause;
}

}  // namespace tutti::mpi
