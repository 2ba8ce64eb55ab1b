#include "engine/blame.hpp"

#include <algorithm>
#include <utility>

#include "base/deadline.hpp"

namespace tutti::engine {

namespace {

constexpr std::size_t kMostNamed = 8;  // how many ranks "waiting for rank ..." names

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

void Blame::doing(int rank, std::string what) { told_of(rank).doing = std::move(what); }

void Blame::moved(int rank, const MovedBytes& bytes) { moved_[rank] = bytes; }

void Blame::left(int rank) { told_of(rank).left = true; }

void Blame::lost(int rank, const Outcome& why, int culprit) {
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

/// "rank 2 on node-1, pid 503 is stopped; has not made this call yet (...)". `behind`: the text for
/// a rank that has made it.
std::string Blame::text_of(int rank, const char* behind) const {
  const RankProgress& progress = progress_of(rank);
  std::string text = name_(rank);
  if (!progress.state.empty()) text += " is " + progress.state + ";";
  if (!progress.runs && progress.state.empty()) {
    text += " answers nothing: it is stopped, or cut off";
  } else if (progress.seq < seq_) {
    text += " has not made this call yet (its last one here was operation " +
            std::to_string(progress.seq) + ")";
  } else {
    text += std::string(" has made the call but is ") + behind;
  }
  return text;
}

std::string Blame::doing_text(const std::optional<std::string>& doing) {
  if (!doing) return {};
  if (doing->empty()) return " and is in no call: it computes, or waits for something else";
  return " and is in " + *doing;
}

/// False also if the rank to blame does not run.
bool Blame::all_have_come() const {
  const int worst = culprit();
  return worst >= 0 && progress_of(worst).runs && progress_of(worst).seq >= seq_;
}

/// "; rank 1 has sent 4096 bytes and received 0, 512 a second; ...", those with the fewest first.
/// Empty: nobody has moved any, or a rank of which nothing is known is to blame.
std::string Blame::moved_text() const {
  std::vector<std::pair<std::uint64_t, int>> ranks;
  for (const auto& [rank, moved] : moved_) ranks.emplace_back(moved.sent + moved.received, rank);
  std::ranges::sort(ranks);
  std::string text;
  if (ranks.empty() || ranks.back().first == 0) return text;
  for (std::size_t i = 0; i < ranks.size() && i < kMostTold; ++i) {
    const MovedBytes& moved = moved_.at(ranks[i].second);
    text += "; rank " + std::to_string(ranks[i].second) + " has sent " +
            std::to_string(moved.sent) + " bytes and received " + std::to_string(moved.received) +
            pace_text(moved.per_second);
  }
  return text;
}

/// ": rank 1 ...; rank 3 ...; and 2 more ranks": those that have not made the call or do not run,
/// the one to blame first; else the one to blame.
std::string Blame::late_text(const char* behind) const {
  const int worst = culprit();
  std::vector<int> late;
  if (worst >= 0) late.push_back(worst);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto& one = ranks_[rank];
    if (one && (!one->runs || one->seq < seq_) && static_cast<int>(rank) != worst)
      late.push_back(static_cast<int>(rank));
  }
  std::string text;
  for (std::size_t i = 0; i < late.size() && i < kMostTold; ++i) {
    const RankProgress& progress = progress_of(late[i]);
    text += (i == 0 ? ": " : "; ") + text_of(late[i], behind);
    if (progress.runs && progress.seq < seq_) text += doing_text(progress.doing);
  }
  if (late.size() > kMostTold) {
    const std::size_t more = late.size() - kMostTold;
    text += "; and " + std::to_string(more) + (more == 1 ? " more rank" : " more ranks");
  }
  return text;
}

std::string Blame::waiting(std::chrono::nanoseconds waited) const {
  std::string text = call_ + " has waited for " + base::seconds_text(waited);
  text += late_text("not through with it");
  return text + (all_have_come() ? moved_text() : std::string());
}

Outcome Blame::timed_out(std::chrono::nanoseconds waited, std::chrono::nanoseconds limit) const {
  if (loss_) return loss();
  const int rank = culprit();
  std::string text = call_ + " timed out after " + base::seconds_text(waited) + " (timeout " +
                     base::seconds_text(limit) + ")";
  text += late_text("furthest behind in it");
  if (!waited_.empty()) {
    text += "; waiting for rank";
    for (std::size_t i = 0; i < waited_.size() && i < kMostNamed; ++i)
      text += (i == 0 ? " " : ", ") + std::to_string(waited_[i]);
    if (waited_.size() > kMostNamed) text += ", ...";
  }
  if (all_have_come()) text += moved_text();
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  Outcome cause(Errc::timeout, std::move(text));
  if (rank >= 0) cause.with_culprit(rank);
  return cause;
}

/// "rank 2 on node-1, pid 503 is at operation 4, and at most 8 may be under way".
std::string Blame::place_of(int rank, int most_under_way) const {
  const RankProgress& worst = progress_of(rank);
  std::string text = name_(rank);
  if (worst.left)
    text += " has ended with";
  else
    text += worst.runs ? " is at" : " is " + worst.state + " at";
  return text + " operation " + std::to_string(worst.seq + 1) + ", and at most " +
         std::to_string(most_under_way) + " may be under way";
}

std::string Blame::waiting_to_begin(std::chrono::nanoseconds waited, int most_under_way) const {
  const int rank = culprit();
  std::string text = call_ + " has waited for " + base::seconds_text(waited) + " to begin";
  if (rank < 0) return text;
  text += ": " + place_of(rank, most_under_way);
  if (progress_of(rank).runs) text += doing_text(progress_of(rank).doing);
  return text;
}

Outcome Blame::cannot_begin(std::chrono::nanoseconds waited, int most_under_way) const {
  if (loss_) return loss();
  const int rank = culprit();
  const RankProgress& worst = progress_of(rank);
  std::string text = call_ + " cannot begin: " + place_of(rank, most_under_way);
  if (worst.runs && !worst.left) text += doing_text(worst.doing);
  if (!worst.left) text += " (waited " + base::seconds_text(waited) + ")";
  text += ". See where that rank is, or raise the timeout; the group is broken.";
  return Outcome(worst.left ? Errc::peer_left : Errc::timeout, std::move(text)).with_culprit(rank);
}

Outcome Blame::loss() const {
  std::string text =
      call_ + ": lost " + name_(loss_->rank) + ": " + std::string(loss_->why.message());
  // Where the reason asks for the network or the like, nothing of it is in the rank's output.
  text +=
      text.ends_with('?') ? " The group" : ". Look at that rank's output for the cause; the group";
  text += " is broken, the survivors can make a new one.";
  return Outcome(loss_->why.code(), std::move(text)).with_culprit(loss_->culprit);
}

}  // namespace tutti::engine
