#include "work_tutti.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <ATen/core/ivalue.h>

#include "failures.hpp"
#include "interpreter_end.hpp"
#include "views.hpp"
#include "without_gil.hpp"

namespace tutti::torch_plugin {
namespace {

using Clock = std::chrono::steady_clock;

thread_local bool runs_chain = false;

}  // namespace

bool in_chain() noexcept { return runs_chain; }

/// An operation that nobody holds any more, and the memory that it reads and writes.
struct WorkTutti::Kept {
  tutti::Work work;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;

  static void drop(void* context, const Status& status) noexcept {
    const InterpreterUse use;
    if (!use) return;  // the tensors leak
    auto* const kept = static_cast<Kept*>(context);
    kept->work.detach();
    if (!status.tensors_in_use()) delete kept;
  }
};

WorkTutti::WorkTutti(int rank, Operation operation, std::uint64_t sequence)
    : c10d::Work(rank, operation.type, operation.title, operation.inputs),
      inputs_(std::move(operation.inputs)),
      outputs_(std::move(operation.outputs)),
      sequence_(sequence) {}

// Callbacks of a future hold a reference, so none is to come.
WorkTutti::~WorkTutti() {
  if (settled_.load()) {
    for (tutti::Work& work : works_) work.detach();
    return;
  }
  const WithoutGil unlocked;  // the last reference to a world may go
  for (tutti::Work& work : works_) {
    if (work.done()) {
      keep_if_in_use(work.error(), inputs_);
      keep_if_in_use(work.error(), outputs_);
      work.detach();
      continue;
    }
    auto* const kept = new Kept{std::move(work), inputs_, outputs_};
    kept->work.on_done({&Kept::drop, kept});
  }
  settle();
}

void WorkTutti::add(tutti::Work work, bool asynchronous) {
  if (asynchronous) (void)work.done();  // a look wakes the progress thread
  works_.push_back(std::move(work));
}

void WorkTutti::add(tutti::Work work, Operation operation) {
  (void)work.done();
  const std::lock_guard lock(waiting_);
  works_.push_back(std::move(work));
  for (at::Tensor& tensor : operation.inputs) inputs_.push_back(std::move(tensor));
  for (at::Tensor& tensor : operation.outputs) outputs_.push_back(std::move(tensor));
}

/// Under the mutex, or where nobody else knows us: all operations are done. Tells the base.
void WorkTutti::settle() const {
  if (settled_.exchange(true)) return;
  std::exception_ptr problem;
  for (const tutti::Work& work : works_) {
    if (!work.valid()) continue;  // kept elsewhere
    const Status status = work.error();
    if (!status.ok() && !problem) problem = exception_of(status);
    keep_if_in_use(status, inputs_);
    keep_if_in_use(status, outputs_);
  }
  const_cast<WorkTutti*>(this)->finish(problem);
}

bool WorkTutti::poll() const {
  if (settled_.load()) return true;
  const std::unique_lock lock(waiting_, std::try_to_lock);
  if (!lock) return settled_.load();  // somebody waits, so it was not done a moment ago
  for (const tutti::Work& work : works_) {
    if (!work.done()) return false;
  }
  settle();
  return true;
}

bool WorkTutti::isCompleted() { return poll(); }

bool WorkTutti::isSuccess() const {
  (void)poll();
  return c10d::Work::isSuccess();
}

std::exception_ptr WorkTutti::exception() const {
  (void)poll();
  return c10d::Work::exception();
}

int WorkTutti::sourceRank() const {
  const WithoutGil unlocked;
  const std::lock_guard lock(waiting_);
  for (const tutti::Work& work : works_) {
    if (const int rank = work.source_rank(); rank >= 0) return rank;
  }
  throw C10_BUILD_ERROR(ValueError, "Work.source_rank: only a recv that is done has one");
}

bool WorkTutti::wait(std::chrono::milliseconds timeout) {
  if (!settled_.load()) {
    const bool limited = timeout > kNoTimeout;
    const auto deadline = limited ? Clock::now() + bounded(timeout) : Clock::time_point::max();
    const auto check_in_time = [&](bool in_time) {
      TORCH_CHECK_WITH(DistBackendError, in_time, "Work.wait: not done within ", timeout.count(),
                       " ms; the operation goes on, and can be waited for again");
    };
    std::unique_lock lock(waiting_, std::defer_lock);
    if (limited)
      check_in_time(lock.try_lock_until(deadline));
    else
      lock.lock();
    for (tutti::Work& work : works_) {
      if (limited) {
        check_in_time(work.wait_for(std::max<Clock::duration>(deadline - Clock::now(), {})));
        continue;
      }
      try {
        work.wait();
      } catch (const Error&) {  // `settle` tells it
      }
    }
    settle();
    inputs_.clear();
  }
  if (const std::exception_ptr problem = c10d::Work::exception()) std::rethrow_exception(problem);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkTutti::getFuture() {
  const WithoutGil unlocked;  // the mutex is held by a thread that waits, perhaps for long
  {
    const std::lock_guard lock(waiting_);
    if (future_) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (in_chain()) {  // which may wait for this future, as PowerSGD's hook does
      try {
        std::thread(&WorkTutti::complete_apart, c10::intrusive_ptr<WorkTutti>::reclaim_copy(this))
            .detach();
      } catch (const std::system_error&) {
        future_.reset();
        throw;
      }
      return future_;
    }
    if (!InterpreterUse::ended() && complete_later()) return future_;
  }
  wait_quietly();
  complete_future();
  return future_;
}

/// Under the mutex: the progress thread shall complete the future. False if all is done.
bool WorkTutti::complete_later() {
  running_ = works_.size() + 1;
  for (tutti::Work& work : works_) {
    auto held = c10::intrusive_ptr<WorkTutti>::reclaim_copy(this);
    try {
      work.on_done({&WorkTutti::done, held.get()});
      (void)held.release();
    } catch (const InvalidArgument&) {  // it was waited for
      --running_;
    }
  }
  return --running_ != 0;
}

void WorkTutti::wait_quietly() {
  try {
    (void)wait(kNoTimeout);
  } catch (...) {
    // The future tells it.
  }
}

void WorkTutti::done(void* context, const Status& status) noexcept {
  const InterpreterUse use;
  if (!use) return;  // the tensors leak, and the future never completes
  const auto self = c10::intrusive_ptr<WorkTutti>::reclaim(static_cast<WorkTutti*>(context));
  // Callbacks come one after the other, and only the last one reads it.
  if (!status.ok() && self->failure_.ok()) self->failure_ = status;
  if (--self->running_ == 0) self->complete_future();
}

/// On a thread of its own.
void WorkTutti::complete_apart(c10::intrusive_ptr<WorkTutti> self) {
  self->wait_quietly();
  const InterpreterUse use;
  if (!use) {
    (void)self.release();
    return;
  }
  self->complete_future();
  self.reset();
}

/// On the progress thread, which holds no lock: what is chained to the future runs here.
void WorkTutti::complete_future() {
  const bool before = std::exchange(runs_chain, true);
  try {
    (void)poll();
    if (const std::exception_ptr problem =
            failure_.ok() ? c10d::Work::exception() : exception_of(failure_))
      future_->setError(problem);
    else
      future_->markCompleted(c10::IValue(outputs_));
  } catch (...) {
    // A callback of the user's threw: torch has logged it, and our thread goes on.
  }
  runs_chain = before;
}

}  // namespace tutti::torch_plugin
