#include "gpu/host_path.hpp"

#include <vector>

#include "cuda/packer.hpp"

namespace tutti::gpu {
namespace {

/// Queues copies on a stream, and the mark behind them. After a failure the mark shows when earlier
/// copies have ended. False: `on` has the failure.
bool copy_all(GpuScope& on, const std::vector<HostCall::Copy>& copies, Mark& mark,
              cuda::Stream stream, bool packs) {
  cuda::Packer packer(on.calls, on.cuda, stream, packs);
  bool copied = true;
  for (const HostCall::Copy& one : copies)
    copied = copied && packer.run(one.gpu, reinterpret_cast<cuda::Address>(one.host));
  return on.record(mark, stream) && copied;
}

}  // namespace

Step HostPath::copy_in(GpuOperation& op, GpuScope& on, cuda::Stream stream) {
  op.arrived = false;
  const std::size_t bytes = op.host_call.bytes();
  if (!on.calls.ok() || (bytes != 0 && !op.gpu->pool->acquire(on.calls, bytes, op.block)))
    return op.failed(on.calls.failure());
  op.host_call.place(op.block.data());
  if (!copy_all(on, op.host_call.to_host(), op.ready, stream, true))
    return op.failed(on.calls.failure());
  return {Step::To::again};
}

Step HostPath::copy_out(GpuOperation& op) {
  if (op.host_call.to_gpu().empty()) return {Step::To::ends};
  GpuScope on(op);
  if (!on.calls.ok()) return op.failed(on.calls.failure());
  op.state = GpuOperation::State::returning;
  if (!copy_all(on, op.host_call.to_gpu(), op.end, op.gpu->out, false))
    return op.failed(on.calls.failure());
  return {Step::To::runs};
}

Step HostPath::start(GpuOperation& op, GpuScope& on, bool passed) {
  return copy_in(op, on, passed ? op.gpu->out : op.stream);
}

Step HostPath::step(GpuOperation& op) {
  if (op.state == GpuOperation::State::waiting) {
    if (!op.may_submit()) return {Step::To::waits};
    return op.submit(op.host_call.call(), true);
  }
  if (const auto step = op.look_at_host_call()) return *step;
  if (!op.arrived) return {Step::To::waits};
  op.note_received();
  return copy_out(op);
}

}  // namespace tutti::gpu
