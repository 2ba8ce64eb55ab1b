#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend.hpp>
#include <tutti/process_group.hpp>

// Made of empty messages with a tag of its own: each rank sends rank 0 a sign, and gets one back
// when all have come. Messages, because they are not numbered: a rank that is in the middle of
// something else shall be named, not compared.
namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

Collective sign(Kind kind, int peer, nanoseconds timeout) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = kMonitoredBarrierTag;
  call.timeout = timeout;
  return call;
}

std::string in_milliseconds(nanoseconds time) {
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(time).count()) + " ms";
}

/// Throws what ended the wait for one of them badly, in the words of a monitored_barrier.
void raise_for(const std::string& what, const Work& ended, std::span<const Work> all) {
  const Status why = ended.error();
  if (why.ok()) return;
  for (const Work& work : all) (void)work.error();  // told herewith: not to be logged
  Status told(why.code(), what + std::string(why.message()));
  if (why.culprit()) told.with_culprit(*why.culprit());
  raise(told);
}

}  // namespace

void ProcessGroup::monitored_barrier(const MonitoredBarrierOptions& options) {
  const std::string what = "monitored_barrier in group '" + std::string(name()) + "' of " +
                           std::to_string(size()) + (size() == 1 ? " rank: " : " ranks: ");
  const nanoseconds limit = options.timeout.value_or(timeout());
  if (limit <= nanoseconds(0))
    raise(Status(Errc::invalid_argument, what + "the timeout must be positive"));
  const nanoseconds others = std::max(limit, timeout());
  std::vector<Work> signs;
  const auto sign_of = [&](Kind kind, int peer, nanoseconds its_limit) {
    signs.push_back(start_transfer(sign(kind, peer, its_limit), false));
  };
  if (rank() != 0) {
    sign_of(Kind::send, 0, others);
    sign_of(Kind::recv, 0, others);
    for (std::size_t i = signs.size(); i-- > 0;) {
      (void)signs[i].wait_for(nanoseconds::max());
      raise_for(what + "this rank has called it, but got no leave from rank 0: ", signs[i], signs);
    }
    return;
  }
  // What is said about ranks that do not come is said here, not by the timeout of one message.
  const nanoseconds backstop = others < nanoseconds::max() / 2 ? 2 * others : nanoseconds::max();
  const Clock::time_point begin = Clock::now();
  for (int one = 1; one < size(); ++one) sign_of(Kind::recv, one, backstop);
  std::vector<int> missing;
  for (int one = 1; one < size() && (missing.empty() || options.wait_all_ranks); ++one) {
    Work& work = signs[static_cast<std::size_t>(one - 1)];
    const nanoseconds passed = Clock::now() - begin;
    if (work.wait_for(std::max(limit - passed, nanoseconds(0))))
      raise_for(what, work, signs);
    else
      missing.push_back(one);
  }
  if (!missing.empty()) {
    std::string who;
    for (const int one : missing)
      who += (who.empty() ? "rank " : ", rank ") + std::to_string(one) + " on " +
             impl().whereabouts(one);
    const bool single = missing.size() == 1;
    Status cause(Errc::timeout,
                 what + who + (single ? " has" : " have") + " not called it within " +
                     in_milliseconds(limit) + " of rank 0's call; see where " +
                     (single ? "that rank is" : "those ranks are") +
                     (options.wait_all_ranks ? "" : " (others may be missing, too)") +
                     ". The group is broken.");
    cause.with_culprit(missing.front());
    impl().abort(cause);  // the others wait for us; what broke the group before us goes first
    for (const Work& work : signs) (void)work.error();
    raise(health());
  }
  for (int one = 1; one < size(); ++one) sign_of(Kind::send, one, others);
  for (Work& work : signs) {
    (void)work.wait_for(nanoseconds::max());
    raise_for(what, work, signs);
  }
}

}  // namespace tutti
