#include "backend/native/driver.hpp"

#include <sched.h>

#include <algorithm>

#include "backend/native/progress_thread.hpp"
#include "os/cpu.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/host.hpp"

namespace tutti::native {

namespace shm = transport::shm;
using engine::TimePoint;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

constexpr int kSpinsPerLook = 512;   // passes between two looks at the clock, about 20-50 us
constexpr int kMovesPerLook = 1024;  // the same while something moves all the time
constexpr int kYieldsPerLook = 32;   // the same with a yield (0.3-1 us) in each pass
constexpr auto kParkAfter = std::chrono::microseconds(750);  // without progress
constexpr auto kLookEvery = milliseconds(20);                // liveness and deadlines
constexpr int kPenalty = 64;  // waits that yield, after one was pushed off its CPU
constexpr auto kQuiet = std::chrono::seconds(1);  // without an operation: then nobody looks

std::uint32_t number(shm::Park park) { return static_cast<std::uint32_t>(park); }

}  // namespace

/// How one wait spends its time: spins, yields, then says that it is time to park.
class Driver::Pause {
 public:
  /// `waited_in_vain`: so did the last wait for the same operation; this one sleeps at its first
  /// look.
  Pause(Driver& driver, std::optional<nanoseconds> limit, bool waited_in_vain) noexcept
      : driver_(driver),
        waited_in_vain_(waited_in_vain),
        yields_(driver.options_.ranks_on_host > driver.options_.cpus || driver.spin_penalty_ > 0),
        oversubscribed_(yields_ && driver.contention_.oversubscribed()),
        limit_(limit) {}

  enum class Next { again, look };
  Next moved() noexcept {
    idle_ = 0;
    waited_in_vain_ = false;
    give_way();
    return ++moves_ % kMovesPerLook == 0 ? Next::look : Next::again;
  }

  Next idle() noexcept {
    ++idle_;
    if (give_way()) {
    } else if (yields_) {
      if (oversubscribed_ || !yield()) return Next::look;
    } else {
      os::relax();
    }
    const int every = yields_ ? kYieldsPerLook : kSpinsPerLook;
    return idle_ % every == 0 ? Next::look : Next::again;
  }

  /// Notes the time. True if the limit has passed.
  bool expired(TimePoint now) noexcept {
    if (first_look_ == TimePoint{}) {
      first_look_ = now;
      switches_ = os::involuntary_switches();
    }
    if (idle_ <= (yields_ ? kYieldsPerLook : kSpinsPerLook)) idle_since_ = now;
    if (!yields_) {
      const std::int64_t switches = os::involuntary_switches();
      if (switches - switches_ > 1) {  // we are pushed off the CPU: somebody else needs it
        yields_ = true;
        driver_.spin_penalty_ = kPenalty;
      }
    }
    return limit_ && now - first_look_ >= *limit_;
  }

  [[nodiscard]] bool time_to_park(TimePoint now) const noexcept {
    return waited_in_vain_ || oversubscribed_ || now - idle_since_ >= kParkAfter;
  }

  [[nodiscard]] nanoseconds left(TimePoint now) const noexcept {
    // Without a process to watch on this host the sockets tell of deaths; a long wait then only
    // looks at deadlines.
    const bool alone = driver_.has_thread_ && driver_.host_.regions().peers.size() == 1;
    nanoseconds most = alone && now - first_look_ > 10 * kLookEvery ? 5 * kLookEvery : kLookEvery;
    if (limit_) most = std::min(most, *limit_ - (now - first_look_));
    const TimePoint deadline = driver_.engine_.next_deadline();
    if (deadline != TimePoint::max()) most = std::min(most, nanoseconds(deadline - now));
    return std::max(most, nanoseconds(0));
  }

 private:
  bool give_way() noexcept {
    if (!driver_.driver_lock_.wanted()) return false;
    driver_.driver_lock_.unlock();
    ::sched_yield();
    driver_.driver_lock_.lock();
    return true;
  }

  /// False: other processes have had the CPU meanwhile.
  bool yield() noexcept {
    // Time slices end at the timer's ticks, at which this clock goes on. It is read in some 16 ns.
    const nanoseconds before = os::time_of_last_tick();
    ::sched_yield();
    if (os::time_of_last_tick() == before) return true;
    oversubscribed_ = driver_.contention_.after_long_yield(driver_.engine_.world().now());
    return !oversubscribed_;
  }

  Driver& driver_;
  int moves_ = 0;
  bool waited_in_vain_;
  bool yields_;
  bool oversubscribed_;  ///< others need the CPU: yields would give it to them for long
  int idle_ = 0;
  std::int64_t switches_ = 0;
  std::optional<nanoseconds> limit_;
  TimePoint first_look_{};
  TimePoint idle_since_{};
};

Driver::Driver(engine::Engine& engine, shm::Host& host, Options options)
    : engine_(engine),
      host_(host),
      options_(std::move(options)),
      contention_(options_.cpus, options_.processes, os::process_cpu_time, os::voluntary_switches) {
  if (options_.remote) has_thread_ = ProgressThread::add(*this);
}

Driver::~Driver() { ProgressThread::remove(*this); }

std::uint64_t Driver::submit(engine::Group& group, const Collective& call) noexcept {
  driver_lock_.lock();
  const std::uint64_t ticket = engine_.submit(group, call);
  const bool kick = wants_thread() || engine_.has_finished();
  if (kick) [[unlikely]]
    need_thread();
  if (engine::is_p2p(ticket)) wake_sleepers();  // it may end another, from this rank to itself
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

bool Driver::wait(engine::Group& group, std::uint64_t ticket, std::optional<nanoseconds> limit,
                  Outcome& outcome) noexcept {
  if (!driver_lock_.lock_unless_ours()) [[unlikely]] {
    outcome = Outcome(Errc::unsupported,
                      "a signal handler has interrupted a call of this thread on the same world: "
                      "no operation can be waited for in it");
    return true;
  }
  // relaxed: the driver lock orders writers; readers take it as a hint.
  callers_.store(callers_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  Pause pause(*this, limit,
              waited_in_vain_ == std::pair<const engine::Group*, std::uint64_t>(&group, ticket));
  bool done = true;
  bool first_park = true;
  bool moved_any = false;  // since the other callers were told
  while (!engine_.is_done(group, ticket)) {
    const bool moved = engine_.progress_one(group, ticket);
    moved_any |= moved;
    if ((moved ? pause.moved() : pause.idle()) == Pause::Next::again) continue;
    const TimePoint now = engine_.world().now();
    if (std::exchange(moved_any, false)) wake_sleepers();
    if (pause.expired(now)) {
      done = engine_.is_done(group, ticket);
      break;
    }
    if (now - last_look_ >= kLookEvery) look_around();
    moved_any = engine_.progress();
    if (!moved_any && pause.time_to_park(now))
      moved_any = park(pause.left(now), std::exchange(first_park, false));
  }
  if (spin_penalty_ > 0) --spin_penalty_;
  contention_.wait_ended();
  // relaxed: the driver lock orders writers; readers take both as hints.
  calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  callers_.store(callers_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (!done) [[unlikely]]
    waited_in_vain_ = {&group, ticket};
  if (done && engine_.may_have_failed(group, ticket)) [[unlikely]]
    outcome = engine_.outcome(group, ticket).value_or(Outcome());
  let_go();
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

int Driver::release(engine::Group& group, std::uint64_t ticket) noexcept {
  if (!driver_lock_.lock_unless_ours()) return -1;  // at exit: nobody will miss the slot
  // The message of a probe that is put back may end what another caller waits for.
  const bool puts_back = engine::Engine::holds_message(group, ticket);
  const int source = engine_.release(group, ticket);
  if (puts_back) [[unlikely]]
    let_go();
  else
    driver_lock_.unlock();  // nothing has moved: nobody is to be woken
  return source;
}

/// Callbacks, and operations that nobody waits for, belong to the progress thread. Those that are
/// not urgent wait until it looks. Under the driver lock.
bool Driver::wants_thread() const noexcept {
  // relaxed: the driver lock is ours.
  const bool undriven = engine_.busy() && callers_.load(std::memory_order_relaxed) == 0;
  return undriven && (!looks_ || engine_.has_urgent());
}

void Driver::let_go() noexcept {
  const bool kick = wants_thread() || engine_.has_finished();
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
  looks_ = has_thread_;
}

void Driver::look_around() noexcept {
  last_look_ = engine_.world().now();
  for (const int local : host_.ended()) engine_.local_peer_died(local);
  engine_.tick();
}

void Driver::look_around_if_due() noexcept {
  if (engine_.world().now() - last_look_ >= kLookEvery) look_around();
}

/// Between the store of the park word and the last look. Publishers read the park word without a
/// fence; our membarrier is their fence. Without membarrier both sides fence: on ARM a later
/// acquire load may else be done before an earlier sequential store is seen.
void Driver::fence_before_sleep() const noexcept {
  if (options_.sleepers_fence) (void)os::global_fence();
  os::full_fence();
}

bool Driver::park(nanoseconds most, bool first) noexcept {
  shm::Page& page = host_.regions().page();
  parked_.fetch_add(1, std::memory_order_relaxed);  // the driver lock orders writers
  // relaxed: a wake that comes between makes the word differ from ours, and we do not sleep.
  std::uint32_t word = page.park.load(std::memory_order_relaxed);
  if (shm::state_of(word) != shm::Park::futex) {
    word = shm::sleep_word(++sleeps_);
    page.park.store(word, std::memory_order_seq_cst);
  }
  fence_before_sleep();
  const bool moved = engine_.progress();
  if (!moved) {
    const bool calls_back = engine_.has_finished();
    if (has_thread_ && (first || calls_back)) {
      // From here on it watches the sockets, if there are any; told once per wait.
      ProgressThread::caller_sleeps(options_.remote || calls_back);
    }
    driver_lock_.unlock();
    os::futex_wait(page.park, word, most, true);
    driver_lock_.lock();
  }
  // relaxed: the driver lock is ours; a publisher that still sees the old word wakes nobody.
  if (parked_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    page.park.store(number(shm::Park::awake), std::memory_order_relaxed);
  }
  look_around();
  return moved;
}

bool Driver::drive(std::vector<engine::Finished>& due) noexcept {
  if (!driver_lock_.try_lock()) return false;
  shm::Page& page = host_.regions().page();
  std::uint32_t eventfd = number(shm::Park::eventfd);
  // relaxed: only our own process writes `eventfd` here, and publishers only clear it.
  page.park.compare_exchange_strong(eventfd, number(shm::Park::awake), std::memory_order_relaxed);
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
  if (!driver_lock_.try_lock()) return {kLookEvery, true};
  Sleep sleep{std::chrono::seconds(10), options_.remote};
  const TimePoint now = engine_.world().now();
  // relaxed: the driver lock is ours.
  const std::uint64_t calls = calls_.load(std::memory_order_relaxed);
  const bool called = std::exchange(calls_seen_, calls) != calls;
  if (called) last_called_ = now;
  if (engine_.busy() || called) last_busy_ = now;
  if (engine_.busy()) {
    // A caller that sleeps looks around itself; two clocks would cost twice. If it has slept for
    // long, and then leaves something, it wakes the thread. relaxed: the driver lock is ours.
    looks_ = parked_.load(std::memory_order_relaxed) == 0 || now - last_called_ < kQuiet;
    sleep.most = looks_ ? kLookEvery : 10 * kLookEvery;
    shm::Page& page = host_.regions().page();
    std::uint32_t awake = number(shm::Park::awake);
    // Where callers come and go, they move what is not urgent.
    if ((engine_.has_urgent() || (moved_ && !called)) &&
        page.park.compare_exchange_strong(awake, number(shm::Park::eventfd),
                                          std::memory_order_seq_cst)) {
      sleep.listens = true;
      fence_before_sleep();
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
  } else if (looks_) {
    looks_ = now - last_busy_ < kQuiet;
    if (looks_) sleep.most = kLookEvery;
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
