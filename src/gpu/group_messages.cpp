#include <array>
#include <string>
#include <utility>

#include "engine/credit_account.hpp"
#include "gpu/group.hpp"

// Messages that go from GPU to GPU.
namespace tutti::staged {

/// The other rank may not be able to, and say so. Small messages do not wait for their recv, so
/// they go by way of the host.
bool Group::may_be_direct_message(const Operation& op, const Collective& call) {
  if (!gpus_.direct().on || (call.kind != Kind::send && call.kind != Kind::recv)) return false;
  if (call.root == cpus_->rank() || cpus_->size() == 1) return false;
  const TensorView& view = call.kind == Kind::send ? call.input : call.output;
  if (view.size_bytes() <= engine::kEagerLimit) return false;
  if (message_gpu_ == nullptr) message_gpu_ = op.gpu;
  return message_gpu_ == op.gpu;  // the other rank has mapped memory of one GPU
}

void Group::make_message(Operation& op) {
  DirectMessage& message = op.message.emplace();
  const Collective& whole = op.call.call();
  const TensorView& view = whole.kind == Kind::send ? whole.input : whole.output;
  message.call = whole;
  message.call.details = &message.details;
  message.call.input = message.call.output = TensorView(nullptr, view.dtype(), view.count());
  message.details.gpu_message = &message.gpu;
  if (whole.details != nullptr) message.details.probed = whole.details->probed;
}

/// To the engine, before it is asked again: that our stream has come to the message; and if the
/// other tensor is on the host, memory there. False: the operation has failed.
bool Group::give_what_is_missing(Operation& op) {
  DirectMessage& message = *op.message;
  if (!op.arrived) return true;
  // relaxed, also below: nothing that was written before is read.
  message.gpu.stream_came.store(true, std::memory_order_relaxed);
  if (message.gpu.state.load(std::memory_order_relaxed) != call::GpuMessage::State::needs_memory)
    return true;
  if (!std::exchange(message.by_host, true)) {
    cuda::Calls calls(gpus_.cuda());
    const cuda::Current current(gpus_.cuda(), *op.gpu->device, calls);
    op.arrived = false;
    const bool copies = copy_in(op, calls, op.gpu->out);
    if (!copies) fail_calls(op, calls.failure());
    return copies;
  }
  const Collective& call = op.call.call();
  message.gpu.memory = call.kind == Kind::send ? call.input : call.output;
  // release: pairs with the acquire of the engine, which reads `memory`.
  message.gpu.state.store(call::GpuMessage::State::has_memory, std::memory_order_release);
  return true;
}

/// Null: it could not be made, and the operation has failed.
Group::MessagePair* Group::pair_of(Operation& op) {
  const bool sends = op.call.call().kind == Kind::send;
  const int sender = sends ? cpus_->rank() : op.source;
  const int receiver = sends ? op.call.call().root : cpus_->rank();
  MessagePair& pair = pairs_[{sender, receiver}];
  if (pair.group != nullptr) return &pair;
  std::string name = name_ + ", messages from rank " + std::to_string(sender) + " to rank " +
                     std::to_string(receiver);
  Result<Backend*> made = cpus_->make_among(std::array{sender, receiver}, "pair", name);
  if (!made) {
    pairs_.erase({sender, receiver});
    const Outcome cause =
        Outcome(made.status().code(), text_of(op) + " on " + name_of_rank() + ": " +
                                          std::string(made.status().message()) +
                                          ". The group is broken, make a new one.")
            .with_culprit(cpus_->rank());
    end(op, cause);
    fail(cause);
    return nullptr;
  }
  pair.group = std::make_shared<Group>(gpus_, *made, std::move(name), true);
  return &pair;
}

/// Both ranks have called it, with tensors on GPUs, and their streams have come to it. False:
/// messages that were matched before it come first.
bool Group::pair_up(Operation& op) {
  DirectMessage& message = *op.message;
  if (op.source < 0) op.source = op.inner.source();
  MessagePair* const pair = pair_of(op);
  if (pair == nullptr) return true;
  // acquire: pairs with the release of the engine, which has written `number` before.
  if (message.gpu.state.load(std::memory_order_acquire) != call::GpuMessage::State::on_gpus ||
      message.gpu.number != pair->begun + 1)
    return false;
  ++pair->begun;
  if (op.inside == 0)
    (void)op.inner.release();
  else
    op.spent.push_back(op.inner);
  op.given = false;
  Collective call;
  call.kind = Kind::broadcast;
  call.root = 0;  // the sender
  call.input = call.output = call::telling_view(op.call.call());
  call.timeout = left_of(op);
  Details details;
  details.stream = static_cast<std::uintptr_t>(op.stream);
  call.details = &details;
  message.pair = pair->group;
  op.state = Operation::State::paired;
  message.ticket = pair->group->begin(call, true);
  return true;
}

void Group::look_at_pair(Operation& op) {
  const Operation* const its = op.message->pair->operations_.find(op.message->ticket);
  if (its == nullptr || its->state != Operation::State::done) return;
  if (its->outcome.ok()) return end(op, Outcome());
  // The same cause may have ended this group, too: a rank has died.
  Outcome cause = cpus_->health();
  if (cause.ok()) {
    const Outcome& told = its->outcome;
    cause = Outcome(told.code(),
                    text_of(op) + " on " + name_of_rank() + ": " + std::string(told.message()));
    const bool sends = op.call.call().kind == Kind::send;
    const int other = sends ? op.call.call().root : op.source;
    if (told.culprit()) cause.with_culprit((*told.culprit() == 0) == sends ? cpus_->rank() : other);
  }
  end(op, cause);
  fail(cause);
}

/// It is over for the CPUs, and its pair does not have it yet.
bool Group::has_matched(const Operation* op) noexcept {
  return op->message && op->on_cpus && op->state == Operation::State::running;
}

/// Its result is on its way to the GPU.
bool Group::is_returning(const Operation& op) {
  if (op.state != Operation::State::paired) return op.state == Operation::State::returning;
  const Operation* const its = op.message->pair->operations_.find(op.message->ticket);
  return its != nullptr && its->state == Operation::State::returning;
}

}  // namespace tutti::staged
