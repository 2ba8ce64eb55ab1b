#include <algorithm>
#include <chrono>
#include <utility>

#include "base/deadline.hpp"
#include "cuda/pause.hpp"
#include "gpu/group.hpp"

// Collectives that may go to a backend for GPUs beside that of the CPUs: agreeing, handing over.
namespace tutti::staged {
namespace {

constexpr auto kChoicePause = std::chrono::microseconds(50);

}  // namespace

Backend* Group::beside_for(const Collective& call) {
  if (Backend* const beside = choice_.opened(); beside != nullptr)
    return choice_.may_take(call) ? beside : nullptr;
  // A captured call can only go there. Whether calls before it are on their way still, differs from
  // rank to rank, so it waits for them.
  const TimePoint until = base::deadline_after(std::chrono::steady_clock::now(), call.timeout);
  std::unique_lock lock(gpus_.mutex());
  if (!choice_.may_take(call)) return nullptr;
  Result<Gpu*> gpu = gpus_.gpu(call::telling_view(call).device().index);
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

/// Collectives that may go to a backend for GPUs are on their way to it.
bool Group::chooses() const noexcept {
  return choice_.opened() == nullptr && std::ranges::any_of(active_, [](const Operation* op) {
           return op->asks && op->state != Operation::State::done &&
                  op->state != Operation::State::handed;
         });
}

/// All calls before it are over for the CPUs, or have been handed over.
void Group::begin_choice(Operation& op) {
  switch (choice_.state()) {
    case Choice::State::unknown:
      // The ranks compare the call first: one that has another would take no part in what follows.
      return give(op, meeting_of(op.call.call(), call::extent_of(op.call.call(), cpus_->size())),
                  false);
    case Choice::State::cpus: break;
    case Choice::State::beside:
      if (choice_.may_take(op.call.call())) return hand_over(op);
      break;
    default: return;  // one before it asks
  }
  op.asks = false;
  op.direct ? begin_direct(op) : go_by_host(op);
}

/// The CPUs have ended a call of the agreement well.
void Group::go_on_choosing(Operation& op) {
  if (choice_.state() != Choice::State::unknown) {
    if (const Outcome taken = choice_.take(name_); !taken.ok())
      return fail_calls(op, std::string(taken.message()));
  }
  if (choice_.state() == Choice::State::cpus || choice_.state() == Choice::State::beside) {
    op.state = Operation::State::waiting;
    return begin_choice(op);
  }
  Result<Collective> call = choice_.next(gpus_.cuda(), *op.gpu, name_);
  if (!call) return fail_calls(op, std::string(call.status().message()));
  give(op, *call, false);
}

/// The backend for GPUs orders it behind the caller's stream, and has its ticket from now on.
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
  op.inner = choice_.beside()->submit(call, true);
  op.state = Operation::State::handed;
  gives_no_more(op);
  for (const Callback& callback : std::exchange(op.callbacks, {})) op.inner.on_done(callback);
  op.gpu->device->give_back(op.ready.event);
  op.gpu->device->give_back(op.end.event);
  op.settled = true;
}

/// Later calls need not pass here once none of those that may go there waits.
void Group::open_choice() {
  if (choice_.beside() == nullptr || choice_.opened() != nullptr) return;
  for (const Operation* const op : active_) {
    if (op->asks && op->state == Operation::State::waiting) return;
  }
  choice_.open();
}

}  // namespace tutti::staged
