#include <algorithm>
#include <ranges>

#include "gpu/group.hpp"

// Collectives from GPU to GPU: the order of their exchanges, rendezvous and copies.
namespace tutti::gpu {

/// True if the first part can be copied to its slot now: the ranks have agreed on direct copies,
/// and the operation is the group's next. In a broken group other ranks may still read that slot.
bool Group::may_begin_on_stream(const Operation& op) {
  return op.direct && !op.asks && peers_.state() == IpcPeers::State::direct &&
         peers_.takes(op.direct->rendezvous_call().kind) && is_next(op) && cpus_->health().ok();
}

/// Copies the first part on the caller's stream, so the host need not poll until the stream reaches
/// the call. False: CUDA has failed; `calls` has the failure.
bool Group::begin_on_stream(Operation& op, cuda::Calls& calls) {
  cuda::CudaApi& cuda = gpus_.cuda();
  // The stream `out` may still run `trail` of the previous call, and may use the slot that is
  // filled here for results (IpcPeers::results).
  const auto still = std::ranges::find_if(std::views::reverse(active_), [](const Operation* one) {
    return one->direct && one->state == Operation::State::returning;
  });
  if (still != active_.rend())
    calls.cuda("cuStreamWaitEvent", cuda.wait_event(op.stream, (*still)->end.event));
  op.direct->begun = true;
  op.direct->first = peers_.number_parts(op.direct->parts());
  op.state = Operation::State::moving;
  const bool filled = op.direct->lead(op.call, peers_, cuda, calls, op.stream);
  // Recorded after a failure, too: the event shows when earlier work has ended.
  if (op.ready.record(calls, cuda, op.stream) && filled) return true;
  fail_calls(op, calls.failure());
  return false;
}

/// Begins when the input is ready and the operation is the next of its lane (`is_next`).
void Group::begin_direct(Operation& op) {
  // The ranks compare the call first: a rank with another call would not join the exchanges.
  if (peers_.state() == IpcPeers::State::unknown)
    return give(op, op.direct->rendezvous_call(), false);
  op.direct->begun = peers_.takes(op.direct->rendezvous_call().kind);
  if (!op.direct->begun) return go_by_host(op);
  // In a broken group the other ranks do not go on, and may still read the next slot.
  if (const Outcome health = cpus_->health(); !health.ok()) return end(op, health);
  op.direct->first = peers_.number_parts(op.direct->parts());
  move_part(op);
}

/// A host call of the operation has succeeded.
void Group::go_on(Operation& op) {
  ++steps_;
  if (op.inside == 0)
    (void)op.inner.release();
  else
    op.spent.push_back(op.inner);
  op.given = false;
  op.on_cpus.reset();
  if (op.asks) return go_on_choosing(op);
  if (op.parts) return go_on_with_parts(op);
  DirectCall& direct = *op.direct;
  if (direct.begun) {
    ++direct.met;
    return move_part(op);
  }
  if (direct.exchange >= 0) peers_.take(direct.exchange, gpus_.cuda(), name_);
  if (peers_.state() == IpcPeers::State::direct || peers_.state() == IpcPeers::State::host)
    return begin_direct(op);
  peers_.prepare(++direct.exchange, gpus_.cuda());
  give(op, peers_.exchange(), false);
}

/// Queues the GPU work of the next part, at the beginning and after each rendezvous.
void Group::move_part(Operation& op) {
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok()) return fail_calls(op, calls.failure());
  const DirectCall& direct = *op.direct;
  const cuda::Stream stream = op.gpu->out;
  op.state = direct.has_met() ? Operation::State::returning : Operation::State::moving;
  bool moved = direct.lead(op.call, peers_, cuda, calls, stream) &&
               (direct.has_met() || op.ready.record(calls, cuda, stream)) &&
               direct.trail(op.call, peers_, cuda, calls, stream);
  // There is no `trail` at first. After a failure the event shows when earlier work has ended.
  if (direct.met != 0 || !moved) moved = op.end.record(calls, cuda, stream) && moved;
  if (!moved) fail_calls(op, calls.failure());
}

/// Stages the call through host memory, as the ranks have agreed.
void Group::go_by_host(Operation& op) {
  cuda::Calls calls(gpus_.cuda());
  const cuda::Current current(gpus_.cuda(), *op.gpu->device, calls);
  if (op.direct) {
    make_parts(op, call::extent_of(op.call.call(), cpus_->size()));
    if (op.parts) op.parts->compared = op.direct->exchange >= 0;
    op.direct.reset();
  }
  if (op.parts) return begin_parts(op);
  op.arrived = false;
  op.state = Operation::State::waiting;
  if (!copy_in(op, calls, op.gpu->out)) fail_calls(op, calls.failure());
}

}  // namespace tutti::gpu
