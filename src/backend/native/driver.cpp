#include "backend/native/driver.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "backend/native/driver_pause.hpp"
#include "backend/native/progress_thread.hpp"
#include "os/cpu.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/host.hpp"

namespace tutti::native {

namespace shm = transport::shm;
using engine::TimePoint;
using std::chrono::nanoseconds;

namespace {

constexpr auto kQuiet = std::chrono::seconds(1);  // without an operation: then nobody looks
constexpr nanoseconds kMostSleep = std::chrono::seconds(10);
// Where ranks are many for the CPUs, so many of them look as often as elsewhere, and wake the
// others when one has died.
constexpr int kWatchers = 8;
constexpr int kMostRarely = 20;
/// Callers that wait for longer do not come and go: what they leave, they tell the progress thread.
constexpr nanoseconds kLongWait = 2 * kLookEvery;

}  // namespace

Driver::Driver(engine::Engine& engine, shm::Host& host, Options options)
    : engine_(engine),
      host_(host),
      options_(std::move(options)),
      contention_(options_.cpus, options_.processes, os::process_cpu_time, os::voluntary_switches) {
  if (!options_.remote && host_.regions().self >= kWatchers)
    rarely_ = std::clamp(options_.ranks_on_host / (kWatchers * options_.cpus), 1, kMostRarely);
  if (options_.remote) has_thread_ = ProgressThread::add(*this);
}

Driver::~Driver() { ProgressThread::remove(*this); }

std::uint64_t Driver::submit(engine::Group& group, const Collective& call, bool waits) noexcept {
  driver_lock_.lock();
  ++submits_;
  std::uint64_t ticket = engine_.submit(group, call);
  const bool kick = (!waits && wants_thread()) || engine_.has_finished();
  if (kick) [[unlikely]]
    need_thread();
  if (engine::is_p2p(ticket))
    wake_sleepers();  // it may end another, from this rank to itself
  else if (engine_.has_succeeded(group, ticket))
    ticket = engine::kDoneTicket;
  driver_lock_.unlock();
  if (kick) [[unlikely]]
    ProgressThread::kick();
  return ticket;
}

std::optional<Outcome> Driver::poll(engine::Group& group, std::uint64_t ticket) noexcept {
  std::optional<Outcome> ended = with([&] {
    if (!engine_.is_done(group, ticket)) engine_.progress();
    return engine_.outcome(group, ticket);
  });
  if (!ended) give_way();
  return ended;
}

void Driver::give_way() const noexcept {
  if (options_.ranks_on_host > options_.cpus) ::sched_yield();
}

/// The state that a wait keeps between its looks at the clock.
struct Driver::Waiting {
  bool first_park = true;
  bool moved_any = false;  ///< since the other callers were told
};

/// A look of a wait at the clock and at everything that runs; it may sleep. False: the limit has
/// passed.
bool Driver::look(Pause& pause, Waiting& waiting) noexcept {
  const TimePoint now = engine_.world().now();
  if (std::exchange(waiting.moved_any, false)) wake_sleepers();
  if (pause.expired(now)) return false;
  if (now - last_look_ >= kLookEvery) look_around();
  waiting.moved_any = engine_.progress();
  if (!waiting.moved_any && pause.time_to_park(now))
    waiting.moved_any = park(pause.left(now), std::exchange(waiting.first_park, false));
  return true;
}

bool Driver::wait_any(std::span<const std::pair<engine::Group*, std::uint64_t>> ones,
                      std::optional<nanoseconds> limit, std::vector<std::size_t>& ended) noexcept {
  if (!driver_lock_.lock_unless_ours()) {
    ended.push_back(0);  // its wait says that a signal handler has interrupted a call
    return true;
  }
  // relaxed: as in `wait_and_unlock`.
  callers_.store(callers_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  Pause pause(*this, limit, std::nullopt);
  Waiting waiting;
  const auto find_ended = [&] {
    for (std::size_t i = 0; i < ones.size(); ++i) {
      if (engine_.is_done(*ones[i].first, ones[i].second)) ended.push_back(i);
    }
    return !ended.empty();
  };
  while (!find_ended()) {
    const bool moved = engine_.progress();
    waiting.moved_any |= moved;
    if ((moved ? pause.moved() : pause.idle()) == Pause::Next::again) continue;
    if (!look(pause, waiting)) {
      (void)find_ended();
      break;
    }
  }
  wait_ended(true);
  // relaxed: as in `wait_and_unlock`.
  callers_.store(callers_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  let_go();
  return true;
}

bool Driver::wait(engine::Group& group, std::uint64_t ticket, std::optional<nanoseconds> limit,
                  Outcome& outcome, Received* released) noexcept {
  if (!driver_lock_.lock_unless_ours()) [[unlikely]] {
    outcome = Outcome(Errc::unsupported,
                      "a signal handler has interrupted a call of this thread on the same world: "
                      "no operation can be waited for in it");
    return true;
  }
  return wait_and_unlock(group, ticket, limit, outcome, released);
}

bool Driver::wait_and_unlock(engine::Group& group, std::uint64_t ticket,
                             std::optional<nanoseconds> limit, Outcome& outcome,
                             Received* released) noexcept {
  // relaxed: the driver lock orders writers; readers take it as a hint.
  callers_.store(callers_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const bool again = in_vain_.group == &group && in_vain_.ticket == ticket;
  Pause pause(*this, limit, again ? std::optional(in_vain_.since) : std::nullopt);
  bool done = true;
  Waiting waiting;
  while (!engine_.is_done(group, ticket)) {
    const bool moved = engine_.progress_one(group, ticket);
    waiting.moved_any |= moved;
    if ((moved ? pause.moved() : pause.idle()) == Pause::Next::again) continue;
    if (!look(pause, waiting)) {
      done = engine_.is_done(group, ticket);
      break;
    }
  }
  wait_ended(done || !again);
  // relaxed: as above.
  callers_.store(callers_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (!done) [[unlikely]]
    in_vain_ = {&group, ticket, pause.waits_since()};
  else if (again) [[unlikely]]
    in_vain_ = {};
  if (done && engine_.may_have_failed(group, ticket)) [[unlikely]]
    outcome = engine_.outcome(group, ticket).value_or(Outcome());
  if (released != nullptr && done && outcome.ok()) *released = engine_.release(group, ticket);
  let_go(!done && again);
  return done;
}

void Driver::on_done(engine::Group& group, std::uint64_t ticket, Callback callback) noexcept {
  driver_lock_.lock();
  const bool noted = engine_.on_done(group, ticket, callback);
  // No memory to note it: the operation has ended by that, and this thread calls back.
  const Outcome ended = noted ? Outcome() : engine_.outcome(group, ticket).value_or(Outcome());
  if (noted) need_thread();
  const bool sleepers =
      !noted && parked_.load(std::memory_order_relaxed) > 0;  // the driver lock is ours
  driver_lock_.unlock();
  if (noted) return ProgressThread::kick();
  if (sleepers) shm::wake(host_.regions().peers[static_cast<std::size_t>(host_.regions().self)]);
  callback.function(callback.context, ended);
}

Received Driver::release(engine::Group& group, std::uint64_t ticket) noexcept {
  if (!driver_lock_.lock_unless_ours()) return {};  // at exit: nobody will miss the slot
  // The message of a probe that is put back may end what another caller waits for.
  const bool puts_back = engine::Engine::holds_message(group, ticket);
  const Received received = engine_.release(group, ticket);
  if (puts_back) [[unlikely]]
    let_go();
  else
    driver_lock_.unlock();  // nothing has moved: nobody is to be woken
  return received;
}

/// Callbacks, and operations that nobody waits for, belong to the progress thread. Those that are
/// not urgent wait until it looks. Under the driver lock.
bool Driver::wants_thread() const noexcept {
  // relaxed: the driver lock is ours.
  const bool undriven = engine_.busy() && callers_.load(std::memory_order_relaxed) == 0;
  return undriven && (!looks_.load(std::memory_order_relaxed) || engine_.has_urgent());
}

void Driver::let_go(bool comes_again) noexcept {
  const bool kick = (!comes_again && wants_thread()) || engine_.has_finished();
  if (kick) need_thread();
  // relaxed: as above. Another caller of this rank may sleep for an operation that has moved on.
  const bool sleepers = parked_.load(std::memory_order_relaxed) > 0;
  driver_lock_.unlock();
  if (kick) ProgressThread::kick();
  if (sleepers) shm::wake(host_.regions().peers[static_cast<std::size_t>(host_.regions().self)]);
}

/// Another of our callers may sleep for what was moved on. Under the driver lock, which
/// each of them needs to look.
void Driver::wake_sleepers() noexcept {
  // relaxed: the driver lock is ours.
  if (parked_.load(std::memory_order_relaxed) > 0) [[unlikely]]
    shm::wake(host_.regions().peers[static_cast<std::size_t>(host_.regions().self)]);
}

void Driver::need_thread() noexcept {
  if (!has_thread_) {
    const TimePoint now = engine_.world().now();
    if (now - last_try_ < kLookEvery) return;
    last_try_ = now;
    has_thread_ = ProgressThread::add(*this);
  }
  looks_.store(has_thread_, std::memory_order_relaxed);  // the kick, which follows, orders it
}

void Driver::look_around() noexcept {
  last_look_ = engine_.world().now();
  bool died = false;
  for (const int local : host_.ended()) {
    const transport::RegionPeer& peer = host_.regions().peers[static_cast<std::size_t>(local)];
    // acquire: pairs with Host::leave. The end of a rank that has left is no news.
    died = died || peer.words().left.load(std::memory_order_acquire) == 0;
    engine_.local_peer_died(local);
  }
  if (died) wake_others();
  engine_.tick();
}

void Driver::wake_others() noexcept {
  const transport::Regions& regions = host_.regions();
  for (const transport::RegionPeer& peer : regions.peers) {
    if (&peer != &regions.peers[static_cast<std::size_t>(regions.self)]) shm::wake_if_parked(peer);
  }
}

void Driver::look_around_if_due() noexcept {
  if (engine_.world().now() - last_look_ >= kLookEvery) look_around();
}

bool Driver::park(nanoseconds most, bool first) noexcept {
  shm::RankWords& words = host_.regions().control().words();
  const auto look = [&] {
    if (engine_.progress()) return true;
    const bool calls_back = engine_.has_finished();
    if (has_thread_ && (first || calls_back)) {
      // From here on it watches the sockets, if there are any; told once per wait.
      ProgressThread::caller_sleeps(options_.remote || calls_back);
    }
    return false;
  };
  const auto sleep = [&](std::uint32_t word) {
    driver_lock_.unlock();
    os::futex_wait(words.park, word, most, true);
    driver_lock_.lock();
  };
  const bool moved = shm::park_caller<os::Fences>(words.park, parked_, sleeps_,
                                                  options_.sleepers_fence, look, sleep);
  look_around();
  return moved;
}

bool Driver::drive(std::vector<engine::Finished>& due) noexcept {
  if (!driver_lock_.try_lock()) return false;
  shm::stop_listening(host_.regions().control().words().park);
  bool moved = false;
  // Bounded, so that a caller that wants the driver lock gets it within one pass.
  for (int pass = 0; pass < 16 && engine_.progress() && !driver_lock_.wanted(); ++pass)
    moved = true;
  const TimePoint now = engine_.world().now();
  if (now - last_look_ >= kLookEvery || now >= engine_.next_deadline()) look_around();
  try {
    due.reserve(due.size() + engine_.finished());  // before any of them is taken
    for (engine::Finished& one : engine_.take_finished()) due.push_back(std::move(one));
  } catch (const std::bad_alloc&) {  // the next time
  }
  moved_ = moved;
  starved_ = engine_.has_finished();
  // relaxed: the driver lock is ours.
  const bool parked = parked_.load(std::memory_order_relaxed) > 0;
  driver_lock_.unlock();
  if (moved && parked)
    shm::wake(host_.regions().peers[static_cast<std::size_t>(host_.regions().self)]);
  return true;
}

Driver::Sleep Driver::prepare_sleep() noexcept {
  if (!driver_lock_.try_lock()) {
    // The caller that had it at the last look still waits: it wakes us if it leaves something. With
    // a thousand ranks on few CPUs each look keeps another rank from its work. relaxed: a hint; the
    // wait after this one is short.
    const bool waits = std::exchange(calls_missed_, calls()) == calls();
    if (waits) looks_.store(false, std::memory_order_relaxed);
    return {waits ? 10 * kLookEvery : kLookEvery, options_.remote};
  }
  Sleep sleep{kMostSleep, options_.remote};
  const TimePoint now = engine_.world().now();
  // relaxed: the driver lock is ours.
  const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
  const bool called = std::exchange(calls_seen_, calls) != calls;
  if (called) last_called_ = now;
  if (engine_.busy() || called) last_busy_ = now;
  if (engine_.busy()) {
    // A caller that sleeps looks around itself; two clocks would cost twice. If it has slept for
    // long, and then leaves something, it wakes the thread. relaxed: the driver lock is ours.
    const bool looks =
        parked_.load(std::memory_order_relaxed) == 0 || now - last_called_ < kLongWait;
    looks_.store(looks, std::memory_order_relaxed);
    sleep.most = looks ? kLookEvery : in_vain_.group != nullptr ? 10 * kLookEvery : kMostSleep;
    // Where callers come and go, they move what is not urgent.
    if ((engine_.has_urgent() || (moved_ && !called)) &&
        shm::mark_listening(host_.regions().control().words().park)) {
      sleep.listens = true;
      shm::fence_before_sleep<os::Fences>(options_.sleepers_fence);
      if (engine_.progress()) sleep.most = nanoseconds(0);
    }
    const TimePoint deadline = engine_.next_deadline();
    if (deadline != TimePoint::max()) {
      sleep.most = std::clamp(nanoseconds(deadline - now), nanoseconds(0), sleep.most);
    }
  } else if (engine_.has_finished() || engine_.progress()) {
    // An encrypted connection may hold bytes that no descriptor tells of. Without memory to call
    // back there is nothing to do at once.
    sleep.most = starved_ ? kLookEvery : nanoseconds(0);
  } else if (looks_.load(std::memory_order_relaxed)) {
    const bool looks = now - last_busy_ < kQuiet;
    looks_.store(looks, std::memory_order_relaxed);
    if (looks) sleep.most = kLookEvery;
  }
  driver_lock_.unlock();
  return sleep;
}

std::vector<int> Driver::wait_fds() const {
  std::vector<int> fds{host_.event_fd()};
  for (transport::Transport* const transport : engine_.transports()) {
    if (transport->wait_fd() >= 0) fds.push_back(transport->wait_fd());
  }
  return fds;
}

}  // namespace tutti::native
