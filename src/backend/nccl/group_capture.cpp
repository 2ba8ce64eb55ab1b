#include <chrono>

#include <tutti/backend/kinds.hpp>
#include "backend/nccl/group.hpp"
#include "cuda/pause.hpp"

// Collectives whose stream is being captured into a CUDA graph. NCCL's work becomes a part of the
// graph, in the order of the caller's stream. The ranks compare their calls at the capture, and
// not each time that the graph runs.
namespace tutti::nccl {
namespace {

constexpr auto kCapturePause = std::chrono::microseconds(50);

}  // namespace

/// False: it has ended. The reasons are the same on all ranks that make the same calls.
bool NcclGroup::may_capture(NcclOperation& op, std::unique_lock<std::mutex>& lock) {
  const auto cannot = [&](const char* why) {
    refuse(op, cuda::text_of(cuda::Capture::this_stream) + ": " + why);
    return false;
  };
  if (!is_collective(op.call.kind))
    return cannot(
        "the CPUs agree on each message, which a graph cannot; call it outside of the capture");
  if (channel_ == nullptr)
    return cannot(
        "call a collective of this group before the capture, as NCCL's communicator is made at "
        "the first one");
  // NCCL takes the operations of a communicator in one order on all ranks.
  op.state = NcclOperation::State::queued;
  while (operations_.healthy() && op.state != NcclOperation::State::done && !channel_->accepts()) {
    lock.unlock();  // for an abort by another thread, and for the thread that makes passes
    cuda::pause(kCapturePause);
    lock.lock();
    progress();  // also looks at the deadline of this one
  }
  return operations_.healthy() && op.state != NcclOperation::State::done;
}

void NcclGroup::capture(NcclOperation& op, std::unique_lock<std::mutex>& lock) {
  if (!may_capture(op, lock) || !begin_numbered(op)) return;
  // False: the group has failed.
  const auto succeeds = [&](const auto& action) {
    Calls calls(nccl_, cuda_);
    const Current current(cuda_, *op.device, calls);
    if (calls.ok() && action(calls)) return true;
    fail_calls(op, calls);
    return false;
  };
  // NCCL makes connections at the first call of a kind, so it may be busy for a while. But the
  // capture may end when we return.
  bool busy = true;
  const auto look = [&](Calls& calls) { return channel_->check(calls, busy); };
  if (!succeeds([&](Calls& calls) { return channel_->begin_capture(op, calls); })) return;
  while (true) {
    if (!succeeds(look)) return;
    if (!busy) break;
    lock.unlock();
    cuda::pause(kCapturePause);
    lock.lock();
    progress();
    if (!operations_.healthy() || op.state == NcclOperation::State::done) return;
  }
  (void)succeeds([&](Calls& calls) { return channel_->end_capture(calls); });
}

}  // namespace tutti::nccl
