#include "gpu/ipc_path.hpp"

namespace tutti::gpu {
namespace {

/// The other ranks have mapped memory of one GPU of this rank only.
Step wrong_gpu(const GpuOperation& op) {
  return {Step::To::breaks,
          Outcome(Errc::invalid_argument,
                  op.text_with_rank() +
                      ": with TUTTI_CUDA_IPC=on a group works on one "
                      "GPU of each rank, that of its first collective (cuda:" +
                      std::to_string(op.ranks->peers.gpu()->device->index()) +
                      "), and its tensors are on cuda:" + std::to_string(op.gpu->device->index()) +
                      ". The group is broken, make a new one.")
              .with_culprit(op.ranks->host->rank())};
}

}  // namespace

/// True if the first part can be copied to its slot now: the ranks have agreed on direct copies,
/// and the operation is the group's next. In a broken group other ranks may still read that slot.
bool IpcPath::may_fill_now(const GpuOperation& op) const {
  const IpcPeers& peers = op.ranks->peers;
  return peers.state() == IpcPeers::State::direct && peers.takes(direct_.rendezvous_call().kind) &&
         op.ranks->is_next(op) && op.ranks->host->health().ok();
}

void IpcPath::number_parts(GpuOperation& op) {
  begun_ = true;
  direct_.first = op.ranks->peers.number_parts(direct_.parts());
}

Step IpcPath::start(GpuOperation& op, GpuScope& on, bool passed) {
  IpcPeers& peers = op.ranks->peers;
  if (peers.gpu() == nullptr) peers.set_gpu(op.gpu);
  if (peers.gpu() != op.gpu) return wrong_gpu(op);
  if (passed || !may_fill_now(op)) return Path::start(op, on, passed);
  // The stream `out` may still run `trail` of the previous call, and may use the slot that is
  // filled here for results (IpcPeers::results).
  if (const GpuOperation* const still = op.ranks->last_returning(); still != nullptr)
    on.calls.cuda("cuStreamWaitEvent", on.cuda.wait_event(op.stream, still->end.event));
  number_parts(op);
  op.state = GpuOperation::State::moving;
  const bool filled = direct_.lead({on.calls, on.cuda, op.stream});
  // Recorded after a failure, too: the event shows when earlier work has ended.
  if (!on.record(op.ready, op.stream) || !filled) return op.failed(on.calls.failure());
  return {Step::To::again};
}

Step IpcPath::step(GpuOperation& op) {
  using State = GpuOperation::State;
  if (op.state == State::waiting) return op.may_submit() ? begin(op) : Step{Step::To::waits};
  if (op.state == State::moving) {
    bool there = false;
    if (!op.arrived) return {Step::To::waits};
    if (const auto failed = op.look(op.ready, there)) return *failed;
    if (!there) return {Step::To::waits};
    return op.submit(direct_.rendezvous_call(), direct_.at_last_rendezvous());
  }
  if (const auto step = op.look_at_host_call()) return *step;
  op.drop_host_call();
  return rendezvous_ended(op);
}

/// Begins when the input is ready and the operation is the next of its lane.
Step IpcPath::begin(GpuOperation& op) {
  const IpcPeers& peers = op.ranks->peers;
  // The ranks compare the call first: a rank with another call would not join the exchanges.
  if (peers.state() == IpcPeers::State::unknown) return op.submit(direct_.rendezvous_call(), false);
  if (!peers.takes(direct_.rendezvous_call().kind)) return {Step::To::passes};
  // In a broken group the other ranks do not go on, and may still read the next slot.
  if (Outcome health = op.ranks->host->health(); !health.ok()) return {Step::To::ends, health};
  number_parts(op);
  return move_part(op);
}

/// A rendezvous or an exchange has succeeded.
Step IpcPath::rendezvous_ended(GpuOperation& op) {
  if (begun_) {
    ++direct_.met;
    return move_part(op);
  }
  op.compared = true;
  IpcPeers& peers = op.ranks->peers;
  cuda::CudaApi& cuda = op.ranks->gpus.cuda();
  if (exchange_ >= 0) peers.take(exchange_, cuda, op.ranks->name);
  if (peers.state() == IpcPeers::State::direct || peers.state() == IpcPeers::State::host)
    return begin(op);
  peers.prepare(++exchange_, cuda);
  return op.submit(peers.exchange(), false);
}

/// Queues the GPU work of the next part, at the beginning and after each rendezvous.
Step IpcPath::move_part(GpuOperation& op) {
  GpuScope on(op);
  if (!on.calls.ok()) return op.failed(on.calls.failure());
  const cuda::Stream stream = op.gpu->out;
  const PartCopy work{on.calls, on.cuda, stream};
  op.state = direct_.has_met() ? GpuOperation::State::returning : GpuOperation::State::moving;
  bool moved = direct_.lead(work) && (direct_.has_met() || on.record(op.ready, stream)) &&
               direct_.trail(work);
  // There is no `trail` at first. After a failure the event shows when earlier work has ended.
  if (direct_.met != 0 || !moved) moved = on.record(op.end, stream) && moved;
  if (!moved) return op.failed(on.calls.failure());
  return {Step::To::runs};
}

}  // namespace tutti::gpu
