#include "gpu/group.hpp"

// Collectives that go by way of the host in parts.
namespace tutti::staged {

/// Small ones have one part, and need none. Parts of the factors of PREMUL_SUM are not made.
void Group::make_parts(Operation& op, const call::Extent& extent) {
  if (op.call.call().op == ReduceOp::premul_sum) return;
  const HostParts parts(op.call, extent, cpus_->size(), gpus_.direct().host_part_bytes);
  if (parts.parts() > 1) op.parts = parts;
}

/// Its input is there, and the CPUs have all calls before it.
void Group::begin_parts(Operation& op) {
  HostParts& parts = *op.parts;
  const Collective& whole = op.call.call();
  // The ranks compare the call first: one that has another would not take part in all parts.
  if (!parts.compared)
    return give(op, meeting_of(whole, call::extent_of(whole, cpus_->size())), false);
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok() || !op.gpu->pool->take(calls, parts.bytes(), op.block))
    return fail_calls(op, calls.failure());
  parts.place(op.block.data());
  op.state = Operation::State::moving;
  PartCopy copy{calls, cuda, op.gpu->out};
  const bool filled = parts.fill(op.call, copy, 0);
  // Also after a failure: it tells when what was begun before has ended.
  if (!op.ready.record(calls, cuda, op.gpu->out) || !filled) fail_calls(op, calls.failure());
}

/// The input of the next part is on the host.
void Group::give_part(Operation& op) {
  HostParts& parts = *op.parts;
  const bool last = parts.at_last();
  give(op, parts.call(op.call, parts.done), last);
  if (last) return;
  // Its place is that of the part before this one, whose result leaves it in the same stream.
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok()) return fail_calls(op, calls.failure());
  PartCopy copy{calls, cuda, op.gpu->out};
  const bool filled = parts.fill(op.call, copy, parts.done + 1);
  if (!op.ready.record(calls, cuda, op.gpu->out) || !filled) fail_calls(op, calls.failure());
}

/// The CPUs have ended a call of it well.
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

}  // namespace tutti::staged
