#include <algorithm>
#include <set>

#include "backend/nccl/group.hpp"

// Messages. NCCL has no tags, and matches in the order of the calls. So our mesh matches them: the
// sender announces a message with its tag, and its receiver clears it; then both give it to NCCL,
// in the order of the clearances.
namespace tutti::nccl {
namespace {

constexpr int kClearanceTag = kFirstBackendTag;

Collective mesh_message(Kind kind, int peer, int tag, std::chrono::nanoseconds timeout, void* data,
                        std::size_t bytes) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = tag;
  call.timeout = timeout;
  (kind == Kind::send ? call.input : call.output) = TensorView(data, DType::uint8, bytes);
  return call;
}

}  // namespace

void NcclGroup::begin_send(NcclOperation& op) {
  const int to = op.call.root;
  Outgoing& out = outgoing_[to];
  if (!out.named) {
    Calls calls(nccl_, cuda_);
    if (to != rank_ && !calls.nccl("ncclGetUniqueId", nccl_.get_unique_id(out.id)))
      return fail_calls(op, calls);
    out.named = true;
  }
  op.announcement.id = out.id;
  op.announcement.number = ++out.messages;
  op.announcement.count = op.extent.count;
  op.announcement.dtype = static_cast<std::uint64_t>(op.call.input.dtype());
  op.extent.dtype = op.call.input.dtype();
  op.mesh.start(*mesh_, mesh_message(Kind::send, to, op.call.tag, op.call.timeout, &op.announcement,
                                     sizeof(op.announcement)));
  if (to == rank_) return;
  op.clearance.start(*mesh_, mesh_message(Kind::recv, to, kClearanceTag, op.call.timeout,
                                          &op.cleared, sizeof(op.cleared)));
}

void NcclGroup::begin_receive(NcclOperation& op) {
  op.extent.dtype = op.call.output.dtype();
  op.mesh.start(*mesh_, mesh_message(Kind::recv, op.call.root, op.call.tag, op.call.timeout,
                                     &op.announcement, sizeof(op.announcement)));
}

void NcclGroup::progress_messages() {
  // Clearances of one receiver arrive in the order in which they are expected: a later one that is
  // seen first must wait.
  std::set<int> waiting;
  operations_.each_running([&](NcclOperation& op) {
    if (op.device == nullptr || !operations_.healthy()) return;
    if (op.call.kind == Kind::recv && op.state == NcclOperation::State::on_mesh && op.source < 0 &&
        op.mesh.succeeded())
      received_announcement(op);
    if (op.call.kind != Kind::send || op.clearance_taken || op.call.root == rank_) return;
    if (waiting.contains(op.call.root)) return;
    if (!op.clearance.succeeded()) {
      waiting.insert(op.call.root);
      return;
    }
    op.clearance_taken = true;
    received_clearance(op);
  });
}

void NcclGroup::move_message(NcclOperation& op, Channel& channel) {
  if (op.extent.count != 0) return channel.push(op);
  op.state = NcclOperation::State::moved;
  if (op.partner != nullptr) op.partner->state = NcclOperation::State::moved;
}

void NcclGroup::received_announcement(NcclOperation& op) {
  op.source = op.mesh.source();
  const Announcement& told = op.announcement;
  const auto dtype = static_cast<std::uint64_t>(op.extent.dtype);
  if (told.count != op.extent.count || told.dtype != dtype) {
    const std::string its_dtype =
        told.dtype < kDTypeCount ? std::string(to_string(static_cast<DType>(told.dtype))) : "?";
    return fail(Outcome(Errc::disagreement,
                        text_of(op) + ": " + name_of(op.source) + " sends " + its_dtype + " x " +
                            std::to_string(told.count) + ", which is not what " + name_of(rank_) +
                            " expects. Both must name the same dtype and count; the group is "
                            "broken, make a new one."),
                true);
  }
  std::unique_ptr<Channel>& channel = incoming_[op.source];
  const bool own = op.source == rank_;
  if (channel == nullptr) {
    channel = std::make_unique<Channel>(nccl_, cuda_, *op.device, own ? 0 : 1, own ? 1 : 2);
    if (own)
      channel->make_for_copies();
    else
      channel->make_of(told.id);
  }
  if (own) {
    const auto& running = operations_.running();
    const auto sent = std::ranges::find_if(running, [&](const NcclOperation* one) {
      return one->call.kind == Kind::send && one->call.root == rank_ &&
             one->announcement.number == told.number;
    });
    op.partner = sent == running.end() ? nullptr : *sent;
    if (op.partner == nullptr)
      return fail(Outcome(Errc::internal, text_of(op) + ": the message to oneself was lost"), true);
    return move_message(op, *channel);
  }
  op.cleared = told.number;
  op.clearance.start(*mesh_, mesh_message(Kind::send, op.source, kClearanceTag, op.call.timeout,
                                          &op.cleared, sizeof(op.cleared)));
  move_message(op, *channel);
}

void NcclGroup::received_clearance(NcclOperation& op) {
  const auto& running = operations_.running();
  const auto cleared = std::ranges::find_if(running, [&](const NcclOperation* one) {
    return one->call.kind == Kind::send && one->call.root == op.call.root &&
           one->device != nullptr && one->announcement.number == op.cleared;
  });
  if (cleared == running.end() || (*cleared)->state != NcclOperation::State::on_mesh)
    return fail(Outcome(Errc::internal, text_of(op) + ": " + name_of(op.call.root) +
                                            " is ready for a message that was not sent"),
                true);
  NcclOperation& its = **cleared;
  Outgoing& out = outgoing_[op.call.root];
  if (out.channel == nullptr) {
    out.channel = std::make_unique<Channel>(nccl_, cuda_, *its.device, 0, 2);
    out.channel->make_of(out.id);
  }
  move_message(its, *out.channel);
}

}  // namespace tutti::nccl
