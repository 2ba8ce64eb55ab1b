#include "gpu/nccl_path.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "gpu/direct_call.hpp"

namespace tutti::gpu {

void NcclPath::stop_waiting() noexcept {
  if (std::exchange(waits_, false)) choice_.add_waiting(-1);
}

/// While NCCL still uses the tensors, only NCCL can tell that the operation is over.
void NcclPath::cancel(GpuOperation& op) noexcept {
  stop_waiting();
  if (op.on_nccl && !op.submitted_outcome) {
    for (const Callback& callback : std::exchange(op.callbacks, {})) op.pending.on_done(callback);
  }
  Path::cancel(op);
}

Step NcclPath::step(GpuOperation& op) {
  if (op.state == GpuOperation::State::waiting)
    return op.may_submit() ? begin(op) : Step{Step::To::waits};
  if (auto step = op.look_at_host_call()) return *step;
  if (op.on_nccl) return {Step::To::ends};
  op.drop_host_call();
  return agree(op);
}

/// Continues an operation that is the next of its lane.
Step NcclPath::begin(GpuOperation& op) {
  const Collective& call = op.host_call.call();
  switch (choice_.state()) {
    case NcclChoice::State::unknown:
      // The ranks compare the call first: a rank with another call would not join the agreement.
      return op.submit(rendezvous_call_of(call, call::extent_of(call, op.ranks->host->rank(),
                                                                op.ranks->host->size())),
                       false);
    case NcclChoice::State::host: return {Step::To::passes};
    case NcclChoice::State::nccl:
      return choice_.may_take(call) ? hand_over(op) : Step{Step::To::passes};
    default: return {Step::To::waits};  // the agreement has failed, and the group breaks
  }
}

/// A host collective of the agreement has succeeded.
Step NcclPath::agree(GpuOperation& op) {
  const std::string& group = op.ranks->name;
  if (choice_.state() != NcclChoice::State::unknown) {
    if (const Outcome taken = choice_.take(group); !taken.ok())
      return op.failed(std::string(taken.message()));
  }
  if (choice_.state() == NcclChoice::State::host || choice_.state() == NcclChoice::State::nccl)
    return begin(op);
  Result<Collective> next = choice_.next(op.ranks->gpus.cuda(), *op.gpu, group);
  if (!next) return op.failed(std::string(next.status().message()));
  return op.submit(*next, false);
}

/// Gives the operation to NCCL, which orders it behind the caller's stream.
Step NcclPath::hand_over(GpuOperation& op) {
  Collective call = op.host_call.call();
  Details details = call.details == nullptr ? Details() : *call.details;
  details.stream = static_cast<std::uintptr_t>(op.stream);
  call.details = &details;
  call.timeout = op.left();
  {
    GpuScope on(op);
    const cuda::Capture capture = cuda::capture_of(on.calls, on.cuda, op.stream);
    if (capture != cuda::Capture::none)
      (void)on.calls.fail(
          "handing it to NCCL",
          cuda::text_of(capture) + " since the call; synchronize collectives before a capture");
    if (!on.calls.ok()) return op.failed(on.calls.failure());
  }
  ++op.advanced;
  op.pending = choice_.nccl()->submit(call, true);
  op.state = GpuOperation::State::running;
  op.submitted = true;
  op.on_nccl = true;
  op.ranks->all_submitted(op);
  stop_waiting();
  return {Step::To::runs};
}

}  // namespace tutti::gpu
