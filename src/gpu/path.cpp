#include "gpu/path.hpp"

#include "gpu/operation.hpp"

namespace tutti::gpu {

Step Path::start(GpuOperation& op, GpuScope& on, bool passed) {
  op.arrived = passed;
  if (!passed && !on.record(op.ready, op.stream)) return op.failed(on.calls.failure());
  return {Step::To::again};
}

void Path::cancel(GpuOperation& op) noexcept {
  if (op.gpu == nullptr) return;
  GpuScope gpu(op);
  for (const Mark& mark : {op.ready, op.end}) {
    if (gpu.calls.ok() && mark.pending) (void)gpu.cuda.wait_event(op.stream, mark.event);
  }
}

std::string_view Path::waits_for(const GpuOperation& op) const noexcept {
  if (!op.arrived) return "its stream has not come to it, and still does what it was given before";
  if (op.state == GpuOperation::State::moving) return "the GPU has not ended its copies";
  return "an operation before it still waits for its stream";
}

}  // namespace tutti::gpu
