#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "base/deadline.hpp"
#include "cuda/pause.hpp"
#include "gpu/group.hpp"

// Failures of CUDA, timeouts, and the end of the group.
namespace tutti::gpu {
namespace {

constexpr std::chrono::nanoseconds kPause = std::chrono::microseconds(200);
/// How long the end of a group waits for copies that have begun.
constexpr auto kLastCopies = std::chrono::seconds(5);

}  // namespace

std::string Group::text_of(const Operation& op) const {
  return describe(op.call.call()) + " in group '" + name_ + "'";
}

std::string Group::name_of_rank() const {
  return "rank " + std::to_string(cpus_->rank()) + " on " + cpus_->location(cpus_->rank());
}

void Group::end(Operation& op, Outcome outcome) {
  if (op.state == Operation::State::done || op.state == Operation::State::handed) return;
  ++steps_;
  gives_no_more(op);
  // Our work on the GPU may still run: the caller's stream waits for it, so that it may free the
  // tensors.
  if (op.gpu != nullptr && !outcome.ok()) {
    cuda::Calls calls(gpus_.cuda());
    const cuda::Current current(gpus_.cuda(), *op.gpu->device, calls);
    for (const Mark& mark : {op.ready, op.end}) {
      if (calls.ok() && mark.pending) (void)gpus_.cuda().wait_event(op.stream, mark.event);
    }
  }
  if (op.state == Operation::State::paired) {
    Group& pair = *op.message->pair;
    // Orders the caller's stream behind the copies that still run, before the caller gets the
    // error.
    if (Operation* const its = pair.operations_.find(op.message->ticket);
        its != nullptr && !outcome.ok())
      pair.end(*its, outcome);
    (void)pair.give_up(op.message->ticket);
  }
  op.state = Operation::State::done;
  op.outcome = std::move(outcome);
  for (const Callback& callback : std::exchange(op.callbacks, {}))
    due_.push_back({callback, op.outcome});
  closing_.push_back(&op);
}

/// What the CPUs had of it.
void Group::release_calls(Operation& op) {
  if (std::exchange(op.given, false)) (void)op.inner.release();
  for (const Pending& one : std::exchange(op.spent, {})) (void)one.release();
}

/// Gives back what a done operation has, as soon as nobody uses it. False: somebody still does.
bool Group::settle(Operation& op) {
  if (op.inside != 0) return false;
  if (op.given) {
    if (!op.on_cpus) op.on_cpus = op.inner.poll();
    if (!op.on_cpus) return false;
  }
  if (op.gpu != nullptr) {
    cuda::CudaApi& cuda = gpus_.cuda();
    cuda::Calls calls(cuda);
    const cuda::Current current(cuda, *op.gpu->device, calls);
    for (Mark* const mark : {&op.ready, &op.end}) {
      if (calls.ok() && mark->pending && cuda.query_event(mark->event) == cuda::kCudaNotReady)
        return false;
      mark->pending = false;
    }
    op.gpu->device->give_back(op.ready.event);
    op.gpu->device->give_back(op.end.event);
    if (op.outcome.tensors_in_use()) op.block.keep_for_ever();
    op.block.give_back();
  }
  release_calls(op);
  op.settled = true;
  if (op.released) {
    std::erase(active_, &op);
    recycle(op);
  }
  return true;
}

/// Ends the operations that the host backend will never get. The others get the error from the host
/// backend.
void Group::fail(const Outcome& cause) {
  if (left_) return;  // a pair's group leaves before its parent
  cpus_->abort(cause);
  const Outcome first = cpus_->health();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Operation& one = *active_[i];
    if ((one.gives && one.state != Operation::State::running) || has_matched(&one)) end(one, first);
  }
  for (const auto& [ranks, pair] : pairs_) pair.group->fail(first);
}

void Group::fail_calls(Operation& op, const std::string& failure) {
  const Outcome cause =
      Outcome(Errc::internal, text_of(op) + " on " + name_of_rank() + ": " + failure +
                                  ". The group is broken, make a new one.")
          .with_culprit(cpus_->rank());
  end(op, cause);
  fail(cause);
}

void Group::fail_late(Operation& op, TimePoint now) {
  std::string text = text_of(op) + " on " + name_of_rank() + " timed out after " +
                     base::seconds_text(now - op.started) + " (timeout " +
                     base::seconds_text(op.timeout) + "): ";
  const bool copies =
      (op.state == Operation::State::moving && op.arrived) || (op.message && op.message->by_host);
  if (copies)
    text += "the GPU has not ended its copies";
  else if (has_matched(&op))
    text += "a message before it has not begun to be moved";
  else
    text += op.arrived ? "an operation before it still waits for its stream"
                       : "its stream has not come to it, and still does what it was given before";
  text += ". Look at what runs on the GPU, or raise the timeout; the group is broken.";
  const Outcome cause = Outcome(Errc::timeout, std::move(text)).with_culprit(cpus_->rank());
  end(op, cause);
  fail(cause);
}

void Group::abort(const Outcome& cause) {
  const std::lock_guard lock(gpus_.mutex());
  if (left_) return;
  fail(cause);
  if (choice_.nccl() != nullptr) choice_.nccl()->abort(cause);
  gpus_.wake();
}

void Group::join(Backend& whole) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  cpus_->join(whole);
  choice_.join(whole);
}

Outcome Group::health() {
  const std::lock_guard lock(gpus_.mutex());
  if (has_waiting()) progress();
  const Outcome first = cpus_->health();
  return first.ok() && choice_.nccl() != nullptr ? choice_.nccl()->health() : first;
}

void Group::leave() noexcept { leave(std::chrono::steady_clock::now() + kLastCopies); }

void Group::leave(TimePoint until) noexcept {
  std::unique_lock lock(gpus_.mutex());
  if (left_) return;
  const auto pause_unlocked = [&] {
    lock.unlock();
    cuda::pause(kPause);
    lock.lock();
  };
  progress();
  const auto returns = [&](const Operation* op) { return is_returning(*op); };
  while (std::ranges::any_of(active_, returns) && std::chrono::steady_clock::now() < until) {
    pause_unlocked();
    progress();
  }
  const Outcome gone(Errc::aborted, "group '" + name_ + "' was destroyed while the operation ran");
  for (Operation* const op : active_) end(*op, gone);
  active_.clear();
  std::vector<std::shared_ptr<Group>> pairs;
  for (const auto& [ranks, pair] : pairs_) pairs.push_back(pair.group);
  lock.unlock();
  for (const auto& pair : pairs) pair->leave(until);
  lock.lock();
  for (Operation* const op : std::exchange(closing_, {})) {
    if (!settle(*op)) closing_.push_back(op);
  }
  // With its last reference what runs there ends, and uses our memory no more.
  for (Operation* const op : closing_) release_calls(*op);
  left_ = true;
  std::exchange(cpus_, nullptr)->drop_reference();
  while (!closing_.empty()) {
    for (Operation* const op : std::exchange(closing_, {})) {
      if (!settle(*op)) closing_.push_back(op);
    }
    if (closing_.empty()) break;
    if (std::chrono::steady_clock::now() >= until) {
      // A stream still has a copy to make.
      for (Operation* const op : closing_) op->block.keep_for_ever();
      peers_.keep_for_ever();
      break;
    }
    pause_unlocked();
  }
  if (peers_.gpu() == nullptr) return;
  cuda::Calls calls(gpus_.cuda());
  const cuda::Current current(gpus_.cuda(), *peers_.gpu()->device, calls);
  peers_.give_back();
}

}  // namespace tutti::gpu
