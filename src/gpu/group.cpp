#include "gpu/group.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "base/deadline.hpp"
#include "cuda/pause.hpp"
#include "os/cpu.hpp"

namespace tutti::gpu {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a waiting caller polls without a pause; small copies take less.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::chrono::nanoseconds kShortPause = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongPause = std::chrono::microseconds(300);
/// How long the end of a group waits for copies that have begun.
constexpr auto kLastCopies = std::chrono::seconds(5);
/// How often the host backend is asked whether the group is broken, for operations that it does not
/// have yet.
constexpr auto kHealthEvery = std::chrono::microseconds(200);
/// How long a caller sleeps in the host backend before it looks at the GPU again.
constexpr std::chrono::nanoseconds kOnHost = std::chrono::milliseconds(20);

int lane_of(const Collective& call) noexcept {
  if (call.kind == Kind::recv) return PeerGroup::kNone;
  return call.kind == Kind::send ? call.root : PeerGroup::kCollectives;
}

void pause_unlocked(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds time) {
  lock.unlock();
  cuda::pause(time);
  lock.lock();
}

/// Settles what nobody uses any more.
void settle(std::vector<GpuOperation*>& closing) {
  for (GpuOperation* const op : std::exchange(closing, {})) {
    if (!op->settle()) closing.push_back(op);
  }
}

}  // namespace

// ---- From submit to the end

Pending GpuGroup::submit(const Collective& call, bool asynchronous) noexcept {
  std::unique_lock lock(gpus_.mutex(), std::defer_lock);
  if (router_.nccl.opened() == nullptr) {
    lock.lock();
    // A captured call can run only on NCCL. Earlier calls may still wait on some ranks and not on
    // others, so it waits for them on every rank.
    if (router_.needs_choice(call)) {
      const TimePoint until = base::deadline_after(Clock::now(), call.timeout);
      for (progress(); router_.nccl.has_waiting() && Clock::now() < until; progress())
        pause_unlocked(lock, kShortPause);
    }
  }
  // Once NCCL is opened, later calls go there at once, and would overtake a call that waits here.
  if (Backend* const nccl = router_.nccl_for(call); nccl != nullptr) {
    if (lock) lock.unlock();
    return nccl->submit(call, asynchronous);
  }
  if (!lock) lock.lock();
  GpuOperation& op = operations_.add(call);
  op.state = GpuOperation::State::waiting;
  op.host_call.take(call, ranks_.host->rank());
  op.call.details = op.host_call.call().details;
  ranks_.enter(op, lane_of(call));
  const Pending pending{this, operations_.ticket_of(op)};
  go_on(op, router_.start(op, call), op.started);
  gpus_.wake();  // the timeout must count even if no caller waits
  return pending;
}

/// Advances one operation as far as it can go without waiting.
void GpuGroup::go_on(GpuOperation& op, Step step, TimePoint now) {
  const std::uint32_t before = op.advanced;
  while (step.to == Step::To::again || step.to == Step::To::passes)
    step = step.to == Step::To::again ? op.step() : router_.pass_on(op);
  steps_ += op.advanced - before;
  if (step.to == Step::To::waits && now >= op.deadline) step = op.late(now);
  if (step.to != Step::To::ends && step.to != Step::To::breaks) return;
  if (step.outcome.ok()) return end(op, Outcome());
  const bool breaks = step.to == Step::To::breaks || op.ranks != &ranks_;
  const Outcome cause = op.ranks->error_of(op, std::move(step.outcome));
  end(op, cause);
  if (breaks) break_with(cause);
}

void GpuGroup::end(GpuOperation& op, Outcome outcome) {
  if (op.state == GpuOperation::State::done) return;
  ++steps_;
  if (op.path != nullptr && !outcome.ok()) op.path->cancel(op);
  op.ranks->remove(op);
  operations_.end(op, std::move(outcome));
  closing_.push_back(&op);
}

/// Ends the operations that their host group does not have. The others get the error from it.
void GpuGroup::break_with(const Outcome& cause) {
  ranks_.host->abort(cause);
  const Outcome first = ranks_.host->health();
  operations_.each_running([&](GpuOperation& op) {
    if (op.state == GpuOperation::State::waiting || op.state == GpuOperation::State::moving)
      end(op, first);
  });
  router_.pairs.each([&](PeerGroup& pair) { pair.host->abort(first); });
}

void GpuGroup::progress() {
  if (left_) return;
  const TimePoint now = Clock::now();
  // NCCL ends its operations in their order, and each question makes it look at all of them.
  bool nccl_runs = false;
  operations_.each_running([&](GpuOperation& op) {
    if (nccl_runs && op.on_nccl && !op.driven) return;
    go_on(op, {Step::To::again}, now);
    nccl_runs = nccl_runs || (op.on_nccl && op.state != GpuOperation::State::done);
  });
  // The host backend does not report its failures to messages that it has matched.
  const auto is_matched = [&](const GpuOperation* op) {
    return op->ranks != &ranks_ || op->state == GpuOperation::State::waiting;
  };
  const bool unseen = has_waiting() || std::ranges::any_of(operations_.running(), is_matched);
  if (unseen && now >= next_health_) {
    next_health_ = now + kHealthEvery;
    if (const Outcome health = ranks_.host->health(); !health.ok()) break_with(health);
  }
  settle(closing_);
  operations_.tidy();
  router_.nccl.open_if_none_waits();
}

cuda::Progressable::Progress GpuGroup::make_progress(std::vector<cuda::Due>& due) {
  const std::lock_guard lock(gpus_.mutex());
  progress();
  std::ranges::move(std::exchange(due_, {}), std::back_inserter(due));
  if (std::exchange(steps_seen_, steps_) != steps_) return Progress::moved;
  return operations_.idle() && closing_.empty() ? Progress::idle : Progress::waiting;
}

void GpuGroup::submit_all() {
  std::unique_lock lock(gpus_.mutex(), std::defer_lock);
  for (auto time = kShortPause; has_waiting(); time = std::min(2 * time, kLongPause)) {
    lock.lock();
    progress();
    lock.unlock();
    if (has_waiting()) cuda::pause(time);
  }
}

// ---- The caller's questions

bool GpuGroup::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                    Outcome& outcome) noexcept {
  const TimePoint until = limit ? base::deadline_after(Clock::now(), *limit) : TimePoint::max();
  const Path* last_path = nullptr;
  TimePoint spins_until;
  std::chrono::nanoseconds time = kShortPause;
  while (true) {
    GpuOperation* waited_in = nullptr;  // the operation whose host call this caller waits in
    bool orders_caller = false;         // that wait, without a limit, orders the caller's stream
    bool in_parts = false;
    Pending pending;
    {
      const std::lock_guard lock(gpus_.mutex());
      GpuOperation* const op = operations_.find(ticket);
      if (op == nullptr) {
        outcome = Outcome(Errc::aborted, "the operation is not known any more");
        return true;
      }
      op->driven = true;
      progress();
      op->driven = false;
      if (!limit && op->state == GpuOperation::State::returning) {
        Step step = op->order_caller();
        if (step.to == Step::To::ends) {
          outcome = Outcome();
          return true;
        }
        go_on(*op, std::move(step), Clock::now());
      }
      if (op->state == GpuOperation::State::done) {
        outcome = op->outcome;
        return true;
      }
      if (std::exchange(last_path, op->path.get()) != op->path.get())
        spins_until = Clock::now() + kSpin;
      in_parts = op->path->in_parts();
      if (op->state == GpuOperation::State::running && !op->submitted_outcome) {
        waited_in = op;
        pending = op->pending;
        orders_caller = op->on_nccl && !limit;
        ++op->waiters;
      }
    }
    const TimePoint now = Clock::now();
    if (waited_in != nullptr) {
      // Even if no time is left: a wait moves the operation.
      const auto most = std::clamp<std::chrono::nanoseconds>(until - now, {}, kOnHost);
      Outcome its;
      const bool over = pending.wait(orders_caller ? std::nullopt : std::optional(most), its);
      const std::lock_guard lock(gpus_.mutex());
      --waited_in->waiters;
      if (orders_caller) {
        outcome = its;
        return over;
      }
    }
    if (now >= until) return false;
    if (waited_in != nullptr) continue;
    if (now < spins_until) {
      oversubscribed_ ? std::this_thread::yield() : os::relax();
    } else {
      cuda::pause(std::min<std::chrono::nanoseconds>(time, until - now));
      time = std::min(2 * time, in_parts ? kShortPause : kLongPause);
    }
  }
}

std::optional<Outcome> GpuGroup::poll(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  progress();
  return operations_.outcome(ticket);
}

void GpuGroup::on_done(std::uint64_t ticket, Callback callback) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  operations_.on_done(ticket, callback);
  gpus_.wake();
}

Result<bool> GpuGroup::cancel(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  const GpuOperation* const op = operations_.find(ticket);
  if (op == nullptr || op->call.kind != Kind::recv) return false;
  return Outcome(Errc::invalid_argument,
                 "Work::cancel: a recv into the memory of a GPU cannot be cancelled");
}

Received GpuGroup::received(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  return operations_.received(ticket);
}

Received GpuGroup::release(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  return operations_.release(ticket);
}

// ---- The group as a whole

void GpuGroup::abort(const Outcome& cause) {
  std::unique_lock lock(gpus_.mutex());
  if (left_) return;
  break_with(cause);
  Backend* const nccl = router_.nccl.nccl();
  lock.unlock();  // NCCL may take long
  if (nccl != nullptr) nccl->abort(cause);
  gpus_.wake();
}

Outcome GpuGroup::health() {
  const std::lock_guard lock(gpus_.mutex());
  if (has_waiting()) progress();
  const Outcome first = ranks_.host->health();
  return first.ok() && router_.nccl.nccl() != nullptr ? router_.nccl.nccl()->health() : first;
}

void GpuGroup::set_owner(Backend& owner) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  set_group(owner);
  ranks_.host->set_owner(owner);
  router_.nccl.set_owner(owner);
}

void GpuGroup::leave() noexcept {
  const TimePoint until = Clock::now() + kLastCopies;
  std::unique_lock lock(gpus_.mutex());
  const auto returns = [](const GpuOperation* op) {
    return op->state == GpuOperation::State::returning;
  };
  for (progress(); std::ranges::any_of(operations_.running(), returns) && Clock::now() < until;
       progress())
    pause_unlocked(lock, kLongPause);
  const Outcome gone = foreign::destroyed(ranks_.name);
  operations_.each_running([&](GpuOperation& op) { end(op, gone); });
  settle(closing_);
  // With their last references what runs in the host groups ends, and uses our memory no more.
  for (GpuOperation* const op : closing_) op->drop_all_host_calls();
  left_ = true;
  router_.pairs.each([](PeerGroup& pair) { pair.leave(); });
  ranks_.leave();
  for (settle(closing_); !closing_.empty() && Clock::now() < until; settle(closing_))
    pause_unlocked(lock, kLongPause);
  for (GpuOperation* const op : closing_) {  // a stream still has a copy to make
    op->block.keep_for_ever();
    op->ranks->peers.keep_for_ever();
  }
  router_.pairs.each([](PeerGroup& pair) { pair.release(); });
  ranks_.release();
  operations_.tidy();
  gpus_.deliver(std::exchange(due_, {}));
  lock.unlock();
  router_.nccl.release();
}

}  // namespace tutti::gpu
