#include "work_tutti.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <ATen/core/ivalue.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

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

  static void drop(void* context, const Outcome& status) noexcept {
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
      sequence_(sequence) {
  add_stream(std::move(operation.stream));
}

// Callbacks of a future hold a reference, so none is to come.
WorkTutti::~WorkTutti() {
  const WithoutGil unlocked;  // the last reference to a world may go
  if (settled_.load()) {
    for (tutti::Work& work : works_) work.detach();
    return;
  }
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

void WorkTutti::add(tutti::Work work) { works_.push_back(std::move(work)); }

void WorkTutti::add(tutti::Work work, Operation operation) {
  const std::lock_guard lock(waiting_);
  works_.push_back(std::move(work));
  for (at::Tensor& tensor : operation.inputs) inputs_.push_back(std::move(tensor));
  for (at::Tensor& tensor : operation.outputs) outputs_.push_back(std::move(tensor));
  add_stream(std::move(operation.stream));
}

void WorkTutti::add_stream(std::optional<CallStream> stream) {
  if (!stream) return;
  const auto same = [&](const CallStream& one) {
    return one.device() == stream->device() && one.handle() == stream->handle();
  };
  if (std::ranges::none_of(streams_, same)) streams_.push_back(std::move(*stream));
}

/// Under the mutex, or where nobody else knows us: all operations are done. Tells the base.
void WorkTutti::settle() const {
  if (settled_.exchange(true)) return;
  std::exception_ptr problem;
  for (const tutti::Work& work : works_) {
    if (!work.valid()) continue;  // kept elsewhere
    const Outcome status = work.error();
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

bool WorkTutti::isCompleted() {
  return poll() && std::ranges::all_of(streams_, &CallStream::passed);
}

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
    if (limited) {
      for (tutti::Work& work : works_)
        check_in_time(work.wait_for(std::max<Clock::duration>(deadline - Clock::now(), {})));
      settle();
    } else {
      settle_in_order();
    }
    inputs_.clear();
  }
  rethrow();
  for (const CallStream& stream : streams_) stream.order_current();
  return true;
}

/// Under the mutex: waits on the host until the CPUs are done, and marks where the streams of the
/// calls are ordered behind the results.
void WorkTutti::settle_in_order() {
  if (settled_.load()) return;
  for (tutti::Work& work : works_) {
    try {
      work.wait();
      work.detach();          // the streams tell the rest, and a kept Work must not keep its world
    } catch (const Error&) {  // `settle` tells it
    }
  }
  for (CallStream& stream : streams_) stream.mark();
  settle();
}

void WorkTutti::rethrow() const {
  if (const std::exception_ptr problem = c10d::Work::exception()) std::rethrow_exception(problem);
}

void WorkTutti::synchronize() {
  const WithoutGil unlocked;  // torch keeps it, and what ends the operation may need it
  wait_on_host();
  rethrow();
}

/// Until all is over; nothing is ordered.
void WorkTutti::wait_on_host() {
  {
    const std::lock_guard lock(waiting_);
    if (!settled_.load()) {
      for (tutti::Work& work : works_) {
        try {
          work.synchronize();
        } catch (const Error&) {  // `settle` tells it
        }
      }
      settle();
      inputs_.clear();
    }
  }
  for (const CallStream& stream : streams_) stream.synchronize();
}

c10::intrusive_ptr<c10::ivalue::Future> WorkTutti::getFuture() {
  const WithoutGil unlocked;  // the mutex is held by a thread that waits, perhaps for long
  {
    const std::lock_guard lock(waiting_);
    if (future_) return future_;
    std::vector<c10::Device> devices;
    for (const CallStream& stream : streams_) devices.push_back(stream.device());
    future_ = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::move(devices));
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
  wait_on_host();
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

void WorkTutti::done(void* context, const Outcome& status) noexcept {
  const InterpreterUse use;
  if (!use) return;  // the tensors leak, and the future never completes
  const auto self = c10::intrusive_ptr<WorkTutti>::reclaim(static_cast<WorkTutti*>(context));
  // Only the last callback reads it. Those of a GPU and those of the CPU come on two threads.
  if (!status.ok() && !self->has_failed_.test_and_set()) self->failure_ = status;
  if (--self->running_ == 0) self->complete_future();
}

/// On a thread of its own.
void WorkTutti::complete_apart(c10::intrusive_ptr<WorkTutti> self) {
  self->wait_on_host();
  const InterpreterUse use;
  if (!use) {
    (void)self.release();
    return;
  }
  self->complete_future();
  self.reset();
}

void WorkTutti::fail_future(const std::exception_ptr& problem) {
  try {
    future_->setError(problem);
  } catch (...) {
    // A callback of the user's.
  }
}

/// On the progress thread, which holds no lock: what is chained to the future runs here.
///
/// The future orders its readers behind the current streams: some of torch's pool, because the
/// default streams may be busy, and the results are there already.
void WorkTutti::complete_future() {
  const bool before = std::exchange(runs_chain, true);
  try {
    (void)poll();
    c10::OptionalDeviceGuard device;
    std::vector<c10::Stream> idle;
    for (const CallStream& one : streams_) {
      if (idle.empty()) device.reset_device(one.device());
      idle.push_back(
          c10::impl::VirtualGuardImpl(one.device().type()).getStreamFromGlobalPool(one.device()));
    }
    const c10::MultiStreamGuard current(idle);
    if (const std::exception_ptr problem =
            failure_.ok() ? c10d::Work::exception() : exception_of(failure_))
      future_->setError(problem);
    else
      future_->markCompleted(c10::IValue(outputs_));
  } catch (...) {
    // A callback of the user's threw: torch has logged it, and our thread goes on.
    if (!future_->completed()) fail_future(std::current_exception());  // it was CUDA
  }
  runs_chain = before;
}

}  // namespace tutti::torch_plugin
