#include <algorithm>
#include <ranges>

#include "gpu/group.hpp"

// Calls that go from GPU to GPU: what comes after what.
namespace tutti::staged {

/// The ranks have agreed, and it is the next one of the group: so its first part can be copied to
/// the slot right now. In a broken group the others may still read that slot.
bool Group::may_begin_on_stream(const Operation& op) {
  return op.direct && !op.asks && peers_.state() == Peers::State::direct &&
         peers_.takes(op.direct->meeting().kind) && is_next(op) && cpus_->health().ok();
}

/// Its first part is copied on the caller's stream: the host need not look when that has come to
/// it. False: a function of CUDA has failed, and `calls` says which.
bool Group::begin_on_stream(Operation& op, cuda::Calls& calls) {
  cuda::CudaApi& cuda = gpus_.cuda();
  // The stream `out` may still trail for the call before. It also writes results to the slot that
  // is filled here (Peers::results).
  const auto still = std::ranges::find_if(std::views::reverse(active_), [](const Operation* one) {
    return one->direct && one->state == Operation::State::returning;
  });
  if (still != active_.rend())
    calls.cuda("cuStreamWaitEvent", cuda.wait_event(op.stream, (*still)->end.event));
  op.direct->begun = true;
  op.direct->first = peers_.number_parts(op.direct->parts());
  op.state = Operation::State::moving;
  const bool filled = op.direct->lead(op.call, peers_, cuda, calls, op.stream);
  // Also after a failure: it tells when what was begun before has ended.
  if (op.ready.record(calls, cuda, op.stream) && filled) return true;
  fail_calls(op, calls.failure());
  return false;
}

/// Its input is there, and all calls before it are over for the CPUs.
void Group::begin_direct(Operation& op) {
  // The ranks compare the call first, as one that has another one would not take part in exchanges.
  if (peers_.state() == Peers::State::unknown) return give(op, op.direct->meeting(), false);
  op.direct->begun = peers_.takes(op.direct->meeting().kind);
  if (!op.direct->begun) return go_by_host(op);
  // In a broken group the others do not go on, and may still read the slot that comes next.
  if (const Outcome health = cpus_->health(); !health.ok()) return end(op, health);
  op.direct->first = peers_.number_parts(op.direct->parts());
  move_part(op);
}

/// The CPUs have ended a call of it well.
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
  if (peers_.state() == Peers::State::direct || peers_.state() == Peers::State::staged)
    return begin_direct(op);
  peers_.prepare(++direct.exchange, gpus_.cuda());
  give(op, peers_.exchange(), false);
}

/// At the beginning, and after a meeting.
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
  // Nothing trails at first. After a failure: it tells when what was begun before has ended.
  if (direct.met != 0 || !moved) moved = op.end.record(calls, cuda, stream) && moved;
  if (!moved) fail_calls(op, calls.failure());
}

/// The ranks have agreed that such calls go by way of the host.
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

}  // namespace tutti::staged
