#include <array>
#include <string>
#include <utility>

#include "engine/credit_account.hpp"
#include "gpu/group.hpp"

// Messages from GPU to GPU.
namespace tutti::gpu {

/// True if the message may go from GPU to GPU, which its peer may still refuse. Small messages do
/// not wait for their recv, so they are staged through host memory.
bool Group::may_be_direct_message(const Operation& op, const Collective& call) {
  if (!gpus_.direct().on || (call.kind != Kind::send && call.kind != Kind::recv)) return false;
  if (call.root == cpus_->rank() || cpus_->size() == 1) return false;
  const TensorView& view = call.kind == Kind::send ? call.input : call.output;
  if (view.size_bytes() <= engine::kEagerLimit) return false;
  if (message_gpu_ == nullptr) message_gpu_ = op.gpu;
  return message_gpu_ == op.gpu;  // the peer has mapped memory of one GPU only
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

/// Tells the engine that our stream has reached the message, and gives it a host buffer if the
/// peer's tensor is in host memory. Returns false if the operation has failed.
bool Group::give_what_is_missing(Operation& op) {
  DirectMessage& message = *op.message;
  if (!op.arrived) return true;
  // relaxed, also below: no other memory depends on it.
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

/// The pair's group of a message, made at its first use. Null: the operation has failed.
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

/// Gives the message to the pair's group, when both ranks have called it with GPU tensors and their
/// streams have reached it. False: earlier messages of the pair come first.
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
  call.input = call.output = call::reference_view(op.call.call());
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
  // A cause such as a lost rank may have broken this group, too.
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

/// The host part is done; the pair's group has not been given the message yet.
bool Group::has_matched(const Operation* op) noexcept {
  return op->message && op->on_cpus && op->state == Operation::State::running;
}

/// True if the result is being copied to the GPU.
bool Group::is_returning(const Operation& op) {
  if (op.state != Operation::State::paired) return op.state == Operation::State::returning;
  const Operation* const its = op.message->pair->operations_.find(op.message->ticket);
  return its != nullptr && its->state == Operation::State::returning;
}

}  // namespace tutti::gpu
