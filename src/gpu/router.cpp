#include "gpu/router.hpp"

#include <string>
#include <utility>

#include "call/call_side.hpp"
#include "call/extent.hpp"
#include "gpu/host_path.hpp"
#include "gpu/ipc_path.hpp"
#include "gpu/nccl_path.hpp"
#include "gpu/parts_path.hpp"

namespace tutti::gpu {
namespace {

cuda::Stream stream_of(const Collective& call) noexcept {
  return call.details == nullptr ? cuda::Stream{} : static_cast<cuda::Stream>(call.details->stream);
}

}  // namespace

bool Router::needs_choice(const Collective& call) {
  if (!nccl.may_take(call)) return false;
  GpuSet& gpus = ranks_.gpus;
  Result<Gpu*> gpu = gpus.gpu(call::reference_view(call).device().index);
  if (!gpu) return false;
  cuda::Calls calls(gpus.cuda());
  const cuda::Current current(gpus.cuda(), *(*gpu)->device, calls);
  return cuda::capture_of(calls, gpus.cuda(), stream_of(call)) == cuda::Capture::this_stream;
}

Step Router::start(GpuOperation& op, const Collective& call) {
  if (!is_on_gpu(call)) {
    op.path = std::make_unique<HostPath>();
    op.arrived = true;
    return {Step::To::again};
  }
  const Outcome started = ranks_.gpus.start();  // first: failures below need its callbacks
  Result<Gpu*> gpu = ranks_.gpus.gpu(call::reference_view(call).device().index);
  if (const Outcome wrong = started.ok() && !gpu ? gpu.status() : started; !wrong.ok())
    return {Step::To::ends,
            Outcome(wrong.code(), op.text_with_rank() + ": " + std::string(wrong.message()))};
  op.gpu = *gpu;
  op.stream = stream_of(call);
  GpuScope on(op);
  const cuda::Capture capture = cuda::capture_of(on.calls, on.cuda, op.stream);
  if (capture != cuda::Capture::none) {
    std::string text = op.text() + ": " + cuda::text_of(capture) +
                       ", and the CPUs take part in this operation; call it outside of the capture";
    if (nccl.may_take(call))
      text +=
          ". Operations that go to NCCL can be captured, once this group has called a "
          "collective and synchronized all earlier ones";
    return {Step::To::ends, Outcome(Errc::unsupported, std::move(text))};
  }
  if (!on.calls.ok() || !op.gpu->device->acquire_event(on.calls, op.ready.event) ||
      !op.gpu->device->acquire_event(on.calls, op.end.event))
    return op.failed(on.calls.failure());
  if (nccl.may_take(call))
    op.path = std::make_unique<NcclPath>(nccl);
  else if (pairs.may_take(op, call))
    op.path = std::make_unique<PairPath>(call, pairs);
  else
    op.path = path_without_nccl(op);
  return op.path->start(op, on, false);
}

Step Router::pass_on(GpuOperation& op) {
  op.state = GpuOperation::State::waiting;
  op.path = path_without_nccl(op);
  GpuScope on(op);
  return on.calls.ok() ? op.path->start(op, on, true) : op.failed(on.calls.failure());
}

/// All ranks choose alike, because they compare what this depends on.
std::unique_ptr<Path> Router::path_without_nccl(const GpuOperation& op) {
  PeerGroup& ranks = *op.ranks;
  const Collective& call = op.host_call.call();
  if (!ranks.gpus.direct().on) return std::make_unique<HostPath>();
  const call::Extent extent = call::extent_of(call, ranks.peers.rank(), ranks.peers.size());
  if (!IpcPeers::may_be_split(call, extent)) return std::make_unique<HostPath>();
  if (ranks.peers.takes(call.kind))
    return std::make_unique<IpcPath>(op.host_call, extent, ranks.peers);
  // The factors of PREMUL_SUM are not divided.
  if (call.op != ReduceOp::premul_sum) {
    auto parts = std::make_unique<PartsPath>(op.host_call, extent, ranks.peers.size(),
                                             ranks.gpus.direct().host_part_bytes);
    if (parts->parts() > 1) return parts;
  }
  return std::make_unique<HostPath>();
}

}  // namespace tutti::gpu
