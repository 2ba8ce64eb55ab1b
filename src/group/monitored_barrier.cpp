#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/index.hpp"
#include "group/process_group_impl.hpp"

// Made of empty messages with a reserved tag: each rank sends one to rank 0, and gets one back when
// all have arrived. Collectives are numbered and compared, but a rank in another operation must be
// named here, not compared. Errors begin with torch's words, which programs and tools search for.
namespace tutti {
inline namespace v0 {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

/// An error gives the hosts of at most this many missing ranks, because the text that reaches other
/// ranks has 1020 bytes.
constexpr std::size_t kMostPlaces = 4;

/// How long the other ranks wait. Rank 0 waits `limit` and may arrive `limit` later than they do.
/// The second more lets the error of rank 0 arrive first.
nanoseconds patience(nanoseconds limit) {
  return limit < nanoseconds::max() / 4 ? 2 * limit + std::chrono::seconds(1) : limit;
}

Collective sign(Kind kind, int peer, nanoseconds timeout) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = kLibraryTag;
  call.timeout = timeout;
  return call;
}

/// Torch's words for rank 0: "Ranks" if all missing ranks are collected.
std::string failed(std::span<const int> ranks, bool all, nanoseconds limit) {
  return base::format(
      "[Rank 0]: Rank{} {} failed to pass monitoredBarrier in {} ms: ", all ? "s" : "",
      fmt::join(ranks, ", "), std::chrono::ceil<std::chrono::milliseconds>(limit).count());
}

/// Torch's words for the others.
std::string reached(int rank) {
  return base::format(
      "Rank {} successfully reached monitoredBarrier, but received errors while waiting for "
      "send/recv from rank 0. Please check rank 0 logs for faulty rank. ",
      rank);
}

/// Throws `why` with `words` before its text. Reads the errors of all works, so that none is
/// logged.
[[noreturn]] void raise_behind(const std::string& words, const Outcome& why,
                               std::span<const Work> works) {
  for (const Work& work : works) (void)work.error();
  Outcome told(why.code(), base::format("{}{}", words, why.message()));
  if (why.culprit()) told.with_culprit(*why.culprit());
  raise(told);
}

/// "monitored_barrier in group 'world' of 4 ranks"
std::string call_in(const ProcessGroup& group) {
  return base::format("monitored_barrier in group '{}' of {} rank{}", group.name(), group.size(),
                      group.size() == 1 ? "" : "s");
}

}  // namespace

void ProcessGroup::monitored_barrier(const MonitoredBarrierOptions& options) {
  const nanoseconds limit = options.timeout.value_or(get_timeout());
  if (limit <= nanoseconds(0))
    raise(Outcome(Errc::invalid_argument, call_in(*this) + ": the timeout must be positive"));
  std::vector<Work> signs;
  const auto sign_of = [&](Kind kind, int peer) {
    signs.push_back(impl_->start_transfer(sign(kind, peer, patience(limit)), false));
  };
  if (rank() != 0) {
    sign_of(Kind::send, 0);
    sign_of(Kind::recv, 0);
    for (std::size_t i = signs.size(); i-- > 0;) {
      (void)signs[i].wait_for(kUntilDone);
      if (const Outcome why = signs[i].error(); !why.ok())
        raise_behind(reached(rank()), why, signs);
    }
    return;
  }
  const auto check = [&](const Work& work) {
    const Outcome why = work.error();
    if (why.ok()) return;
    const int culprit = why.culprit().value_or(0);
    raise_behind(
        culprit != 0 ? failed({&culprit, 1}, options.wait_all_ranks, limit) : call_in(*this) + ": ",
        why, signs);
  };
  const Clock::time_point begin = Clock::now();
  for (int one = 1; one < size(); ++one) sign_of(Kind::recv, one);
  std::vector<int> missing;
  for (int one = 1; one < size() && (missing.empty() || options.wait_all_ranks); ++one) {
    Work& work = base::at(signs, one - 1);
    const nanoseconds passed = Clock::now() - begin;
    if (work.wait_for(std::max(limit - passed, nanoseconds(0))))
      check(work);
    else
      missing.push_back(one);
  }
  if (!missing.empty()) {
    std::string who;
    for (const int one : std::span(missing).first(std::min(missing.size(), kMostPlaces))) {
      who += base::format("{}rank {}", who.empty() ? "" : ", ", one);
      if (global_rank(one) != one) who += base::format(" (global rank {})", global_rank(one));
      who += " on " + impl_->entry().location(one);
    }
    if (missing.size() > kMostPlaces)
      who += base::format(" and {} more", missing.size() - kMostPlaces);
    const bool single = missing.size() == 1;
    Outcome cause(
        Errc::timeout,
        base::format("{}{} {} not called {}; see where {}{}. The group is broken.",
                     failed(missing, options.wait_all_ranks, limit), who, single ? "has" : "have",
                     call_in(*this), single ? "that rank is" : "those ranks are",
                     options.wait_all_ranks ? "" : " (others may be missing, too)"));
    cause.with_culprit(missing.front());
    impl_->entry().abort(cause);  // the others wait for us; an earlier cause stays the cause
    for (const Work& work : signs) (void)work.error();
    raise(health());
  }
  for (int one = 1; one < size(); ++one) sign_of(Kind::send, one);
  for (Work& work : signs) {
    (void)work.wait_for(kUntilDone);
    check(work);
  }
}

}  // namespace v0
}  // namespace tutti
