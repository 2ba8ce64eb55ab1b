#include <algorithm>
#include <chrono>
#include <utility>

#include "base/deadline.hpp"
#include "cuda/pause.hpp"
#include "gpu/group.hpp"

// Collectives that may run on NCCL: the agreement, and handing them over.
namespace tutti::gpu {
namespace {

constexpr auto kChoicePause = std::chrono::microseconds(50);

}  // namespace

Backend* Group::nccl_for(const Collective& call) {
  if (Backend* const nccl = choice_.opened(); nccl != nullptr)
    return choice_.may_take(call) ? nccl : nullptr;
  // A captured call can run only on NCCL. Earlier calls may still wait on some ranks and not on
  // others, so it waits for them on every rank.
  const TimePoint until = base::deadline_after(std::chrono::steady_clock::now(), call.timeout);
  std::unique_lock lock(gpus_.mutex());
  if (!choice_.may_take(call)) return nullptr;
  Result<Gpu*> gpu = gpus_.gpu(call::reference_view(call).device().index);
  if (!gpu) return nullptr;
  {
    cuda::Calls calls(gpus_.cuda());
    const cuda::Current current(gpus_.cuda(), *(*gpu)->device, calls);
    const auto stream =
        call.details == nullptr ? cuda::Stream{} : static_cast<cuda::Stream>(call.details->stream);
    if (cuda::capture_of(calls, gpus_.cuda(), stream) != cuda::Capture::this_stream) return nullptr;
  }
  while (chooses() && std::chrono::steady_clock::now() < until) {
    progress();
    if (!chooses()) break;
    lock.unlock();
    cuda::pause(kChoicePause);
    lock.lock();
  }
  return choice_.opened();
}

/// True while an operation waits that may still go to NCCL.
bool Group::chooses() const noexcept {
  return choice_.opened() == nullptr && std::ranges::any_of(active_, [](const Operation* op) {
           return op->asks && op->state != Operation::State::done &&
                  op->state != Operation::State::handed;
         });
}

/// Continues an operation that is the next of its lane (`is_next`).
void Group::begin_choice(Operation& op) {
  switch (choice_.state()) {
    case NcclChoice::State::unknown:
      // The ranks compare the call first: a rank with another call would not join the agreement.
      return give(
          op, rendezvous_call_of(op.call.call(), call::extent_of(op.call.call(), cpus_->size())),
          false);
    case NcclChoice::State::host: break;
    case NcclChoice::State::nccl:
      if (choice_.may_take(op.call.call())) return hand_over(op);
      break;
    default: return;  // an earlier operation runs the agreement
  }
  op.asks = false;
  op.direct ? begin_direct(op) : go_by_host(op);
}

/// A host collective of the agreement has succeeded.
void Group::go_on_choosing(Operation& op) {
  if (choice_.state() != NcclChoice::State::unknown) {
    if (const Outcome taken = choice_.take(name_); !taken.ok())
      return fail_calls(op, std::string(taken.message()));
  }
  if (choice_.state() == NcclChoice::State::host || choice_.state() == NcclChoice::State::nccl) {
    op.state = Operation::State::waiting;
    return begin_choice(op);
  }
  Result<Collective> call = choice_.next(gpus_.cuda(), *op.gpu, name_);
  if (!call) return fail_calls(op, std::string(call.status().message()));
  give(op, *call, false);
}

/// Gives the operation to NCCL, which orders it behind the caller's stream. Its ticket is NCCL's
/// from now on.
void Group::hand_over(Operation& op) {
  Collective call = op.call.call();
  Details details = call.details == nullptr ? Details() : *call.details;
  details.stream = static_cast<std::uintptr_t>(op.stream);
  call.details = &details;
  call.timeout = left_of(op);
  {
    cuda::Calls calls(gpus_.cuda());
    const cuda::Current current(gpus_.cuda(), *op.gpu->device, calls);
    const cuda::Capture capture = cuda::capture_of(calls, gpus_.cuda(), op.stream);
    if (capture != cuda::Capture::none)
      (void)calls.fail(
          "handing it to NCCL",
          cuda::text_of(capture) + " since the call; synchronize collectives before a capture");
    if (!calls.ok()) return fail_calls(op, calls.failure());
  }
  op.inner = choice_.nccl()->submit(call, true);
  op.state = Operation::State::handed;
  gives_no_more(op);
  for (const Callback& callback : std::exchange(op.callbacks, {})) op.inner.on_done(callback);
  op.gpu->device->give_back(op.ready.event);
  op.gpu->device->give_back(op.end.event);
  op.settled = true;
}

/// Stop routing calls through this object when no waiting operation may still go to NCCL.
void Group::open_choice() {
  if (choice_.nccl() == nullptr || choice_.opened() != nullptr) return;
  for (const Operation* const op : active_) {
    if (op->asks && op->state == Operation::State::waiting) return;
  }
  choice_.open();
}

}  // namespace tutti::gpu
