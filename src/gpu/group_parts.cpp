#include "gpu/group.hpp"

// Collectives that are staged through host memory in parts.
namespace tutti::gpu {

/// Chooses parts for a large collective. PREMUL_SUM has none, because its factors are not divided.
void Group::make_parts(Operation& op, const call::Extent& extent) {
  if (op.call.call().op == ReduceOp::premul_sum) return;
  const HostParts parts(op.call, extent, cpus_->size(), gpus_.direct().host_part_bytes);
  if (parts.parts() > 1) op.parts = parts;
}

/// Begins when the input is ready and the operation is the next of its lane (`is_next`).
void Group::begin_parts(Operation& op) {
  HostParts& parts = *op.parts;
  const Collective& whole = op.call.call();
  // The ranks compare the call first: a rank with another call would not join all parts.
  if (!parts.compared)
    return give(op, rendezvous_call_of(whole, call::extent_of(whole, cpus_->size())), false);
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok() || !op.gpu->pool->take(calls, parts.bytes(), op.block))
    return fail_calls(op, calls.failure());
  parts.place(op.block.data());
  op.state = Operation::State::moving;
  PartCopy copy{calls, cuda, op.gpu->out};
  const bool filled = parts.fill(op.call, copy, 0);
  // Recorded after a failure, too: the event shows when earlier work has ended.
  if (!op.ready.record(calls, cuda, op.gpu->out) || !filled) fail_calls(op, calls.failure());
}

/// Submits the host call of a part whose input is on the host, and copies the next input.
void Group::give_part(Operation& op) {
  HostParts& parts = *op.parts;
  const bool last = parts.at_last();
  give(op, parts.call(op.call, parts.done), last);
  if (last) return;
  // The next input takes the place of the previous part, whose result was copied out on the same
  // stream.
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok()) return fail_calls(op, calls.failure());
  PartCopy copy{calls, cuda, op.gpu->out};
  const bool filled = parts.fill(op.call, copy, parts.done + 1);
  if (!op.ready.record(calls, cuda, op.gpu->out) || !filled) fail_calls(op, calls.failure());
}

/// A host call of the operation has succeeded.
void Group::go_on_with_parts(Operation& op) {
  HostParts& parts = *op.parts;
  if (!parts.compared) {
    parts.compared = true;
    return begin_parts(op);
  }
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok()) return fail_calls(op, calls.failure());
  PartCopy copy{calls, cuda, op.gpu->out};
  const bool stored = parts.store(op.call, copy, parts.done);
  ++parts.done;
  op.state = parts.done == parts.parts() ? Operation::State::returning : Operation::State::moving;
  if (!op.end.record(calls, cuda, op.gpu->out) || !stored) fail_calls(op, calls.failure());
}

}  // namespace tutti::gpu
