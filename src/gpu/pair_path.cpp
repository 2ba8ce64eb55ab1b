#include "gpu/pair_path.hpp"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "engine/credit_account.hpp"
#include "gpu/host_path.hpp"

namespace tutti::gpu {
namespace {

const TensorView& tensor_of(const Collective& message) noexcept {
  return message.kind == Kind::send ? message.input : message.output;
}

}  // namespace

Outcome MessagePair::error_of(const GpuOperation& op, Outcome outcome) const {
  // A cause such as a lost rank may have broken the whole group, too.
  if (Outcome first = parent_.host->health(); !first.ok()) return first;
  Outcome cause(outcome.code(), describe(op.call) + " in group '" + parent_.name + "' on " +
                                    parent_.this_rank() + ": " + std::string(outcome.message()));
  if (outcome.culprit()) cause.with_culprit(*outcome.culprit() == 0 ? sender_ : receiver_);
  return cause;
}

/// Small messages do not wait for their recv, so they are staged through host memory.
bool MessagePairs::may_take(const GpuOperation& op, const Collective& call) {
  if (!parent_.gpus.direct().on || (call.kind != Kind::send && call.kind != Kind::recv))
    return false;
  if (call.root == parent_.host->rank() || parent_.host->size() == 1) return false;
  if (tensor_of(call).size_bytes() <= engine::kEagerLimit) return false;
  if (gpu_ == nullptr) gpu_ = op.gpu;
  return gpu_ == op.gpu;  // the peer has mapped memory of one GPU only
}

Result<MessagePair*> MessagePairs::find(int sender, int receiver) {
  std::unique_ptr<MessagePair>& pair = pairs_[{sender, receiver}];
  if (pair != nullptr) return pair.get();
  std::string name = parent_.name + ", messages from rank " + std::to_string(sender) + " to rank " +
                     std::to_string(receiver);
  Result<Backend*> made = parent_.host->make_among(std::array{sender, receiver}, "pair", name);
  if (!made) {
    pairs_.erase({sender, receiver});
    return made.status();
  }
  pair = std::make_unique<MessagePair>(parent_, *made, std::move(name), sender, receiver);
  return pair.get();
}

PairPath::PairPath(const Collective& message, MessagePairs& pairs) : pairs_(pairs), call_(message) {
  const TensorView& view = tensor_of(message);
  call_.details = &details_;
  call_.input = call_.output = TensorView(nullptr, view.dtype(), view.count());
  details_.gpu_message = &message_;
  if (message.details != nullptr) details_.probed = message.details->probed;
}

Step PairPath::step(GpuOperation& op) {
  if (matched_) return pair_up(op);
  if (op.state == GpuOperation::State::waiting)
    return op.may_submit() ? op.submit(call_, true) : Step{Step::To::waits};
  return match(op);
}

Step PairPath::match(GpuOperation& op) {
  if (op.arrived && !op.submitted_outcome) {
    // Relaxed, also below: no other memory depends on it.
    message_.stream_came.store(true, std::memory_order_relaxed);
    if (message_.state.load(std::memory_order_relaxed) == call::GpuMessage::State::needs_memory) {
      if (Step staged = stage(op); staged.to == Step::To::breaks) return staged;
    }
  }
  if (auto step = op.look_at_host_call()) {
    // Before its stream has come, the engine checks the deadline only of an unmatched message.
    const bool is_ours = !op.arrived && message_.state.load(std::memory_order_relaxed) !=
                                            call::GpuMessage::State::unmatched;
    if (step->to == Step::To::runs && is_ours) step->to = Step::To::waits;
    return *step;
  }
  op.note_received();
  if (by_host_) return op.arrived ? HostPath::copy_out(op) : Step{Step::To::waits};
  matched_ = true;
  op.state = GpuOperation::State::waiting;
  return pair_up(op);
}

/// Copies the tensor to host memory, and gives the engine that memory when it is filled.
Step PairPath::stage(GpuOperation& op) {
  if (!std::exchange(by_host_, true)) {
    GpuScope on(op);
    return HostPath::copy_in(op, on, op.gpu->out);
  }
  message_.memory = tensor_of(op.host_call.call());
  // release: pairs with the acquire of the engine, which reads `memory`.
  message_.state.store(call::GpuMessage::State::has_memory, std::memory_order_release);
  return {Step::To::again};
}

/// Lets the two ranks broadcast the elements, when both have called the message with GPU tensors
/// and their streams have reached it, and earlier messages of the pair have begun.
Step PairPath::pair_up(GpuOperation& op) {
  const bool sends = op.call.kind == Kind::send;
  const int self = op.ranks->host->rank();
  Result<MessagePair*> found = pairs_.find(sends ? self : op.source, sends ? op.call.root : self);
  if (!found)
    return {Step::To::breaks,
            Outcome(found.status().code(), op.text_with_rank() + ": " +
                                               std::string(found.status().message()) +
                                               ". The group is broken, make a new one.")
                .with_culprit(self)};
  MessagePair& pair = **found;
  // acquire: pairs with the release of the engine, which has written `number` before.
  if (message_.state.load(std::memory_order_acquire) != call::GpuMessage::State::on_gpus ||
      message_.number != pair.begun + 1)
    return {Step::To::waits};
  ++pair.begun;
  op.drop_host_call();
  Collective broadcast;
  broadcast.kind = Kind::broadcast;
  broadcast.root = 0;  // the sender
  broadcast.input = broadcast.output = tensor_of(op.host_call.call());
  op.host_call.take(broadcast, pair.host->rank());
  op.started = std::chrono::steady_clock::now();
  op.call.timeout = op.left();
  op.state = GpuOperation::State::waiting;
  op.ranks->remove(op);
  pair.enter(op, PeerGroup::kCollectives);
  return {Step::To::passes};
}

std::string_view PairPath::waits_for(const GpuOperation& op) const noexcept {
  if (by_host_) return "the GPU has not ended its copies";
  return matched_ ? "a message before it has not begun to be moved" : Path::waits_for(op);
}

}  // namespace tutti::gpu
