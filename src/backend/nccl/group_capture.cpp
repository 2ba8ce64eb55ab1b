#include <chrono>
#include <string>

#include <tutti/kinds.hpp>
#include "backend/nccl/group.hpp"
#include "cuda/pause.hpp"

// Collectives whose stream is being captured into a CUDA graph. NCCL's work becomes a part of the
// graph, in the order of the caller's stream. The ranks compare their calls at the capture, and
// not each time that the graph runs.
namespace tutti::nccl {
namespace {

constexpr auto kPause = std::chrono::microseconds(50);

}  // namespace

/// False: it has ended. The reasons are the same on all ranks that make the same calls.
bool Group::may_capture(Operation& op) {
  const auto cannot = [&](const char* why) {
    refuse(op, std::string("its stream is being captured into a CUDA graph: ") + why);
    return false;
  };
  if (op.caller == Stream{})
    return cannot("the default stream cannot be used meanwhile; call it outside of the capture");
  if (!is_collective(op.call.kind))
    return cannot(
        "the CPUs agree on each message, which a graph cannot; call it outside of the capture");
  if (channel_ == nullptr)
    return cannot(
        "call a collective of this group before the capture, as NCCL's communicator is made at "
        "the first one");
  // NCCL takes the operations of a communicator in one order on all ranks.
  op.state = Operation::State::queued;
  while (cause_.ok() && op.state != Operation::State::done && !channel_->accepts()) {
    cuda::pause(kPause);
    progress();  // also looks at the deadline of this one
  }
  return cause_.ok() && op.state != Operation::State::done;
}

void Group::capture(Operation& op) {
  if (!may_capture(op) || !begin_numbered(op)) return;
  Calls calls(nccl_, cuda_);
  const Current current(cuda_, *op.device, calls);
  if (!calls.ok() || !channel_->capture(op, calls)) fail_calls(op, calls);
}

}  // namespace tutti::nccl
