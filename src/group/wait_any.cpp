#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <tutti/backend/group_access.hpp>
#include <tutti/backend/operations.hpp>
#include <tutti/process_group.hpp>

#include "base/deadline.hpp"

namespace tutti {
inline namespace v0 {
namespace {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;

/// How long a wait sleeps in one of several engines before it looks at the others, at first and at
/// most.
constexpr nanoseconds kShortSlice = std::chrono::microseconds(20);
constexpr nanoseconds kLongSlice = std::chrono::milliseconds(1);

}  // namespace

/// The Works of a list that are to be waited for.
class AnyOf {
 public:
  explicit AnyOf(std::span<const Work> works) {
    for (std::size_t i = 0; i < works.size(); ++i) add(i, works[i]);
  }
  explicit AnyOf(std::span<Work* const> works) {
    for (std::size_t i = 0; i < works.size(); ++i) add(i, *works[i]);
  }

  /// Waits until one is done, at most `limit`; gives the places of those that are done.
  [[nodiscard]] std::vector<std::size_t> wait(std::optional<nanoseconds> limit) {
    if (!ended_.empty() || pending_.empty()) return ended_;
    ended_.reserve(pending_.size());
    if (!pending_.front().operations->wait_any(pending_, limit, ended_)) look_in_turn(limit);
    for (std::size_t& place : ended_) place = places_[place];
    return ended_;
  }

 private:
  void add(std::size_t place, const Work& work) {
    if (work.operations_ == nullptr || work.succeeded_ || work.told_) return;
    if (work.forked()) return ended_.push_back(place);
    places_.push_back(place);
    pending_.push_back({work.operations_, work.ticket_});
  }
  /// Waits for Works of several engines, or of one that can only wait for one of them.
  void look_in_turn(std::optional<nanoseconds> limit) {
    const Clock::time_point end = base::deadline_after(Clock::now(), limit.value_or(kUntilDone));
    nanoseconds slice = kShortSlice;
    for (std::size_t turn = 0;; ++turn) {
      for (std::size_t i = 0; i < pending_.size(); ++i) {
        if (pending_[i].poll()) ended_.push_back(i);
      }
      const nanoseconds left = end - Clock::now();
      if (!ended_.empty() || left.count() <= 0) return;
      Outcome outcome;
      (void)pending_[turn % pending_.size()].wait(std::min(slice, left), outcome);
      slice = std::min(2 * slice, kLongSlice);
    }
  }

  std::vector<std::size_t> places_;  ///< in the list, of those that are to be waited for
  std::vector<Pending> pending_;     ///< these
  std::vector<std::size_t> ended_;
};

void GroupAccess::wait_any(std::span<Work* const> works, nanoseconds limit) {
  (void)AnyOf(works).wait(limit);
}

std::optional<std::size_t> wait_any(std::span<Work> works, std::optional<nanoseconds> limit) {
  const std::vector<std::size_t> ended = AnyOf(works).wait(limit);
  if (ended.empty()) return std::nullopt;
  works[ended.front()].synchronize();
  return ended.front();
}

std::vector<std::size_t> wait_some(std::span<Work> works, std::optional<nanoseconds> limit) {
  std::vector<std::size_t> ended = AnyOf(works).wait(limit);
  // A failure first: it must not hide which of the others have ended.
  for (const std::size_t place : ended) {
    if (const Outcome outcome = works[place].error(); !outcome.ok()) raise(outcome);
  }
  for (const std::size_t place : ended) works[place].synchronize();
  return ended;
}

}  // namespace v0
}  // namespace tutti
