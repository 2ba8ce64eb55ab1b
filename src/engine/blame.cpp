#include "engine/blame.hpp"

#include <algorithm>
#include <utility>

#include "engine/detector_times.hpp"

namespace tutti::engine {

namespace {

constexpr std::size_t kMostNamed = 8;  // of the ranks that are waited for

}  // namespace

bool RankProgress::operator<(const RankProgress& other) const noexcept {
  if (left != other.left) return left;
  if (runs != other.runs) return !runs;
  if (!runs && waited != other.waited) return waited;
  if (seq != other.seq) return seq < other.seq;
  if (waited != other.waited) return waited;
  const auto done = [](const RankProgress& rank) {
    return rank.count.value_or(rank.waited ? 0 : ~std::uint64_t{0});
  };
  return done(*this) < done(other);
}

Blame::Blame(std::string call, std::uint64_t seq, int size, std::function<std::string(int)> name)
    : call_(std::move(call)),
      seq_(seq),
      name_(std::move(name)),
      ranks_(static_cast<std::size_t>(size)) {}

RankProgress& Blame::told_of(int rank) {
  std::optional<RankProgress>& one = ranks_[static_cast<std::size_t>(rank)];
  if (!one) one.emplace();
  return *one;
}

void Blame::waits_for(int rank) {
  told_of(rank).waited = true;
  waited_.push_back(rank);
}

void Blame::lines(int rank, std::uint64_t last_call, std::uint64_t count) {
  RankProgress& one = told_of(rank);
  one.seq = std::max(one.seq, std::min(last_call, seq_));
  one.count = count;
}

void Blame::pong(int rank, std::uint64_t last_call) {
  RankProgress& one = told_of(rank);
  one.seq = std::max(one.seq, std::min(last_call, seq_));
}

void Blame::silent(int rank) { told_of(rank).runs = false; }

void Blame::process(int rank, std::string state) {
  RankProgress& one = told_of(rank);
  one.state = std::move(state);
  if (!one.state.empty()) one.runs = false;
}

void Blame::left(int rank) { told_of(rank).left = true; }

void Blame::lost(int rank, const Status& why, int culprit) {
  if (!loss_) loss_ = Loss{rank, why, culprit < 0 ? rank : culprit};
}

int Blame::culprit() const noexcept {
  if (loss_) return loss_->culprit;
  int least = -1;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank]) continue;
    if (least < 0 || *ranks_[rank] < *ranks_[static_cast<std::size_t>(least)])
      least = static_cast<int>(rank);
  }
  return least;
}

const RankProgress& Blame::progress_of(int rank) const {
  static const RankProgress kNothing;
  const std::optional<RankProgress>& one = ranks_[static_cast<std::size_t>(rank)];
  return one ? *one : kNothing;
}

Status Blame::timed_out(std::chrono::nanoseconds waited, std::chrono::nanoseconds limit) const {
  if (loss_) return loss();
  const int rank = culprit();
  std::string text =
      call_ + " timed out after " + seconds_text(waited) + " (timeout " + seconds_text(limit) + ")";
  if (rank >= 0) {
    const RankProgress& worst = progress_of(rank);
    text += ": " + name_(rank);
    if (!worst.state.empty()) text += " is " + worst.state + ";";
    if (!worst.runs && worst.state.empty()) {
      text += " answers nothing: it is stopped, or cut off";
    } else if (worst.seq < seq_) {
      text += " has not made this call yet (its last one here was operation " +
              std::to_string(worst.seq) + ")";
    } else {
      text += " has made the call but is furthest behind in it";
    }
  }
  if (!waited_.empty()) {
    text += "; waiting for rank";
    for (std::size_t i = 0; i < waited_.size() && i < kMostNamed; ++i)
      text += (i == 0 ? " " : ", ") + std::to_string(waited_[i]);
    if (waited_.size() > kMostNamed) text += ", ...";
  }
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  Status cause(Errc::timeout, std::move(text));
  if (rank >= 0) cause.with_culprit(rank);
  return cause;
}

Status Blame::cannot_begin(std::chrono::nanoseconds waited, int most_under_way) const {
  if (loss_) return loss();
  const int rank = culprit();
  const RankProgress& worst = progress_of(rank);
  std::string text = call_ + " cannot begin: " + name_(rank);
  if (worst.left)
    text += " has ended with";
  else
    text += worst.runs ? " is at" : " is " + worst.state + " at";
  text += " operation " + std::to_string(worst.seq + 1) + ", and at most " +
          std::to_string(most_under_way) + " may be under way";
  if (!worst.left) text += " (waited " + seconds_text(waited) + ")";
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  return Status(worst.left ? Errc::peer_left : Errc::timeout, std::move(text)).with_culprit(rank);
}

Status Blame::loss() const {
  return Status(loss_->why.code(),
                call_ + ": lost " + name_(loss_->rank) + ": " + std::string(loss_->why.message()) +
                    ". Look at that rank's output for the cause; the group is broken, the "
                    "survivors can make a new one.")
      .with_culprit(loss_->culprit);
}

}  // namespace tutti::engine
