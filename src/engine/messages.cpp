#include <algorithm>
#include <optional>

#include "engine/engine.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"
#include "engine/rank_row.hpp"

// Messages of operations: the steps that post them, and which operation a frame belongs to.
// docs/wire.md tells the rules.
namespace tutti::engine {

using plan::Step;
using transport::DataFrame;
using transport::decode;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

namespace {

int peer_of(const Step& step, const Op& op) noexcept {
  return RankRow({step.peer, 1, 1}, op.group->size, op.var)[0];
}

/// Frames without payload that are held where the operation has not begun yet.
bool is_held_early(const FrameHeader& header) noexcept {
  const FrameType type = type_of(header);
  return type == FrameType::want || type == FrameType::credit || type == FrameType::token;
}

}  // namespace

void Engine::post_send(Op& op, const Step& step) {
  const plan::Range range = plan::range_of(step.src, op.plan->binding, op.var[0], op.var[1]);
  if (range.count == 0 && !op.plan->splits) return;
  channel_.post_send(op.streams, peer_of(step, op), post_of(op, step.src, range),
                     range.count * op.plan->binding.element);
}

void Engine::post_receive(Op& op, const Step& step) {
  const plan::Range range = plan::range_of(step.dst, op.plan->binding, op.var[0], op.var[1]);
  const int rank = peer_of(step, op);
  // An empty one too: await_receives counts them.
  channel_.post_receive(op.streams, rank, post_of(op, step.dst, range),
                        range.count * op.plan->binding.element);
  if (range.count > 0 || op.plan->splits) deliver_held(op, rank);
}

/// Where the bytes of a message lie: in a row, or in a view with strides.
Stream::Post Engine::post_of(Op& op, const plan::Operand& operand,
                             const plan::Range& range) const noexcept {
  Stream::Post post;
  if (range.count == 0) return post;
  if (strided(op, operand, range))
    post.elements = own(op, operand, range);
  else
    post.data = place(op, operand, op.group->rank, range);
  return post;
}

bool Engine::await_receives(Op& op, const Step& step) noexcept {
  const RankRow ranks(step.ranks, op.group->size, op.var);
  for (; op.sub < ranks.count; ++op.sub) {
    const int rank = ranks[op.sub];
    if (rank == op.group->rank) continue;
    const Stream& stream = op.streams[rank];
    if (op.plan->splits && !stream.heard) return false;
    if (!stream.has_received(static_cast<std::size_t>(step.value.at(op.var[0], op.var[1]))))
      return false;
  }
  op.sub = 0;
  return true;
}

void Engine::deliver_held(Op& op, int rank) {
  const std::optional<DataFrame> other = channel_.deliver_held(op.streams, rank);
  if (!other) return;
  if (other->fingerprint != op.fingerprint)
    disagreement(op, rank, &other->call, other->seq);
  else
    splits_differ(op, rank, *other);
}

/// What a pair of ranks exchanges is compared where the bytes meet (decisions A2).
void Engine::splits_differ(Op& op, int rank, const DataFrame& data) {
  Group& group = *op.group;
  const std::uint64_t expected = op.streams[rank].receive_end() / op.plan->binding.element;
  break_group(group,
              Status(Errc::disagreement,
                     "ranks disagree in " + op_text(op) + ": " + name_of(world_, group, rank) +
                         " sends " + std::to_string(data.call[2]) + " elements to " +
                         name_of(world_, group, group.rank) + ", which expects " +
                         std::to_string(expected) +
                         ". What a rank sends another must be what that one expects from it; the "
                         "group is broken, make a new one."));
}

bool Engine::is_closed(std::uint64_t id) const noexcept {
  return std::find(closed_ids_.begin(), closed_ids_.end(), id) != closed_ids_.end();
}

Group* Engine::group_of(std::uint64_t id) noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

int Engine::rank_of(const Group& group, int global) noexcept {
  for (int r = 0; r < group.size; ++r) {
    if (group.member(r).global == global) return r;
  }
  return -1;
}

std::span<std::byte> Engine::on_header(int peer, const FrameHeader& header) noexcept {
  channel_.arriving(peer, header);
  try {
    return place_of_frame(peer, header);
  } catch (const std::bad_alloc&) {  // it is read all the same: its sender has done nothing wrong
    const std::span<std::byte> place = channel_.place_spilled(peer);
    break_for_memory(nullptr);
    return place;
  }
}

std::span<std::byte> Engine::place_of_frame(int peer, const FrameHeader& header) {
  if (header.payload_bytes > transport::kMaxFramePayload) return {};
  if (transport::is_p2p(header)) return place_of_p2p(peer, header);
  if (type_of(header) == FrameType::data) return place_of_data(peer, header);
  if (is_held_early(header) && !channel_.may_hold(peer, header)) return {};
  return channel_.place_buffered(peer);
}

std::span<std::byte> Engine::place_of_data(int peer, const FrameHeader& header) {
  if (!channel_.count_eager(peer, header)) return {};
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = group_of(data.group);
  const int rank = group == nullptr ? -1 : rank_of(*group, peer);
  if (group != nullptr && rank < 0) return {};
  if (group != nullptr && group->broken) return channel_.place_buffered(peer);
  if (group == nullptr ? !is_closed(data.group) : data.seq > group->started) {
    // Before we have begun an operation nobody has credit for it: only eager data is held.
    return data.eager ? channel_.place_kept(peer) : std::span<std::byte>();
  }
  if (group == nullptr) return channel_.place_buffered(peer);  // and forgotten
  Op& op = group->op_at(data.seq);
  if (op.seq != data.seq) return channel_.place_buffered(peer);
  if (op.fingerprint != data.fingerprint) {
    disagreement(op, rank, &data.call, data.seq);
  } else if (op.streams.is_open() && op.disagreeing_rank < 0) {
    if (!MessageChannel::splits_differ(op.streams, rank, data))
      return channel_.place_in_stream(peer, op.streams, rank, data);
    splits_differ(op, rank, data);
  }
  return channel_.place_buffered(peer);
}

void Engine::on_frame(int peer, const FrameHeader& header) noexcept {
  if (channel_.is_spilled(peer))
    channel_.consumed(peer, header);
  else
    guarded(nullptr, [&] { take_frame(peer, header); });
}

void Engine::take_frame(int peer, const FrameHeader& header) {
  if (transport::is_p2p(header))
    on_p2p_frame(peer, header);
  else if (type_of(header) != FrameType::data)
    on_control(peer, header, channel_.arrived(peer));
  else if (channel_.is_kept(peer))
    keep_data(peer, header);
  else
    channel_.stream_arrived(peer, header);
}

/// Between its head and its end the operation may have begun, or the receive been posted, or the
/// group been made (without this peer), or broken.
void Engine::keep_data(int peer, const FrameHeader& header) {
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = group_of(data.group);
  const int rank = group == nullptr ? -1 : rank_of(*group, peer);
  if (group == nullptr ? is_closed(data.group)
                       : rank < 0 || group->broken.load(std::memory_order_relaxed)) {
    channel_.consumed(peer, header);
    return;
  }
  Op* const op = group == nullptr ? nullptr : &group->op_at(data.seq);
  if (op == nullptr || op->seq != data.seq || !op->streams.is_open())
    channel_.keep(peer, header);
  else if (channel_.keep_in_stream(peer, op->streams, rank, data))
    deliver_held(*op, rank);
}

void Engine::on_sent(int peer, std::uint64_t token) noexcept { channel_.on_sent(peer, token); }

bool Engine::has_unsent() const noexcept { return channel_.has_unsent(); }

}  // namespace tutti::engine
