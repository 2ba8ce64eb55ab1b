#include "engine/frame_dispatcher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::engine {

using transport::CreditFrame;
using transport::DataFrame;
using transport::decode;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

namespace {

/// True for frames without payload that are held if the operation has not begun yet.
bool is_held_early(const FrameHeader& header) noexcept {
  const FrameType type = type_of(header);
  return type == FrameType::want || type == FrameType::credit || type == FrameType::token;
}

}  // namespace

FrameDispatcher::FrameDispatcher(std::span<transport::Transport* const> transports,
                                 const Parts& parts)
    : parts_(parts) {
  for (transport::Transport* const transport : transports) {
    if (transport == nullptr || std::ranges::find(transports_, transport) != transports_.end())
      continue;
    transports_.push_back(transport);
    transport->set_sink(this);
  }
}

bool FrameDispatcher::poll() noexcept {
  bool moved = false;
  for (transport::Transport* const transport : transports_) moved |= transport->poll();
  return moved;
}

std::span<std::byte> FrameDispatcher::on_header(int peer, const FrameHeader& header) noexcept {
  parts_.channel.arriving(peer, header);
  try {
    return place_of_frame(peer, header);
  } catch (const std::bad_alloc&) {  // reads and drops the payload: its sender did nothing wrong
    const std::span<std::byte> place = parts_.channel.place_spilled(peer);
    parts_.propagation.break_all_for_memory();
    return place;
  }
}

std::span<std::byte> FrameDispatcher::place_of_frame(int peer, const FrameHeader& header) {
  MessageChannel& channel = parts_.channel;
  if (header.payload_bytes > transport::kMaxFramePayload) return {};
  if (transport::is_p2p(header)) return parts_.p2p.place_of(peer, header);
  if (type_of(header) == FrameType::data) return place_of_data(peer, header);
  if (is_held_early(header) && !channel.may_hold(peer, header)) return {};
  return channel.place_buffered(peer);
}

std::span<std::byte> FrameDispatcher::place_of_data(int peer, const FrameHeader& header) {
  MessageChannel& channel = parts_.channel;
  if (!channel.count_eager(peer, header)) return {};
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = parts_.groups.find(data.group);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  if (group != nullptr && rank < 0) return {};
  if (group != nullptr && group->broken) return channel.place_buffered(peer);
  if (group == nullptr ? !parts_.groups.is_closed(data.group)
                       : data.seq > group->window.started()) {
    // We give no credit for an operation before we begin it, so only eager data can come.
    return data.eager ? channel.place_kept(peer) : std::span<std::byte>();
  }
  if (group == nullptr) return channel.place_buffered(peer);  // the group is closed: dropped
  Op& op = group->window.at(data.seq);
  if (op.seq != data.seq) return channel.place_buffered(peer);
  if (op.fingerprint != data.fingerprint) {
    parts_.propagation.break_for(*group, parts_.agreement.differs(op, rank, data.call, data.seq));
  } else if (op.streams.is_open() && op.agreement.disagreeing_rank < 0) {
    if (!MessageChannel::splits_differ(op.streams, rank, data))
      return channel.place_in_stream(peer, op.streams, rank, data);
    parts_.propagation.break_group(*group, parts_.agreement.splits_differ(op, rank, data));
  }
  return channel.place_buffered(peer);
}

void FrameDispatcher::on_frame(int peer, const FrameHeader& header) noexcept {
  if (parts_.channel.is_spilled(peer))
    parts_.channel.consumed(peer, header);
  else
    parts_.propagation.guarded(nullptr, [&] { handle_frame(peer, header); });
}

bool FrameDispatcher::on_short(int peer, const transport::ShortHead& head,
                               const std::byte* payload) noexcept {
  if (parts_.p2p.on_short(peer, head, payload)) return true;
  // The group is not made yet, is broken or closed, or the message is wrong: as that frame.
  FrameHeader header = encode(
      transport::EagerMessageFrame{{head.group, head.number, 0, head.dtype, head.tag, head.bytes}});
  header.payload_bytes = head.bytes;
  const std::span<std::byte> place = on_header(peer, header);
  if (place.empty()) return false;
  std::memcpy(place.data(), payload, head.bytes);
  on_frame(peer, header);
  return true;
}

void FrameDispatcher::handle_frame(int peer, const FrameHeader& header) {
  if (transport::is_p2p(header))
    parts_.p2p.on_frame(peer, header);
  else if (type_of(header) != FrameType::data)
    handle_control(peer, header);
  else if (parts_.channel.is_kept(peer))
    keep_data(peer, header);
  else
    parts_.channel.stream_arrived(peer, header);
}

/// Keeps a data frame that could not be used when its head came. Since then the operation may have
/// begun, the receive been posted, or the group been made (without this peer) or broken.
void FrameDispatcher::keep_data(int peer, const FrameHeader& header) {
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = parts_.groups.find(data.group);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  if (group == nullptr ? parts_.groups.is_closed(data.group)
                       : rank < 0 || group->broken.load(std::memory_order_relaxed)) {
    parts_.channel.consumed(peer, header);
    return;
  }
  Op* const op = group == nullptr ? nullptr : &group->window.at(data.seq);
  if (op == nullptr || op->seq != data.seq || !op->streams.is_open())
    parts_.channel.keep(peer, header);
  else if (parts_.channel.keep_in_stream(peer, op->streams, rank, data))
    parts_.operations.deliver_held(*op, rank);
}

void FrameDispatcher::handle_control(int peer, const FrameHeader& header) {
  Group* const group = parts_.groups.find(header.group);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  const std::span<const std::byte> payload = parts_.channel.arrived(peer);
  switch (type_of(header)) {
    case FrameType::eager_credit:
      parts_.channel.eager_acknowledged(peer, decode<transport::EagerCreditFrame>(header));
      return;
    case FrameType::credit:
    case FrameType::want:
    case FrameType::token: handle_for_operation(peer, header); return;
    case FrameType::abort:
      if (group != nullptr ? rank >= 0 : !parts_.groups.is_closed(header.group))
        parts_.propagation.on_abort(group, decode<transport::AbortFrame>(header), payload);
      return;
    case FrameType::ping: handle_ping(peer, decode<transport::PingFrame>(header)); return;
    case FrameType::pong:
      if (rank >= 0) handle_pong(*group, rank, decode<transport::PongFrame>(header), payload);
      return;
    case FrameType::history:
      if (rank >= 0 && !group->broken)
        parts_.propagation.break_for(
            *group, parts_.agreement.on_history(
                        *group, rank, decode<transport::HistoryFrame>(header).seq, payload));
      return;
    case FrameType::data:
    case FrameType::leave:
    case FrameType::eager_message:
    case FrameType::rts:
    case FrameType::cts:
    case FrameType::p2p_data:
    case FrameType::p2p_credit: return;
  }
}

/// Credit, the wish for it, or a token. The peer may be ahead of us in the group, or have made it
/// before us: then the frame is kept.
void FrameDispatcher::handle_for_operation(int peer, const FrameHeader& header) {
  Group* const group = parts_.groups.find(header.group);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  if (group != nullptr && (rank < 0 || group->broken)) return;
  if (group == nullptr ? !parts_.groups.is_closed(header.group)
                       : header.seq > group->window.started()) {
    parts_.channel.held(peer).push_control(header);
    return;
  }
  if (group == nullptr) return;
  Op& op = group->window.at(header.seq);
  if (op.seq != header.seq) return;
  const bool runs = op.state == Op::State::running;
  if (type_of(header) == FrameType::want) {
    parts_.channel.control(
        peer, encode(CreditFrame{header.group, header.seq, parts_.channel.windows().stream}));
  } else if (type_of(header) == FrameType::token) {
    if (!runs) return;
    parts_.propagation.break_for(
        *group, parts_.agreement.on_token(op, rank, decode<transport::TokenFrame>(header)));
  } else if (runs && op.streams.is_open()) {
    op.streams[rank].take_credit(decode<CreditFrame>(header).end);
  }
}

void FrameDispatcher::handle_ping(int peer, const transport::PingFrame& ping) {
  Group* const group = parts_.groups.find(ping.group);
  const int rank = group == nullptr || group->broken ? -1 : group->rank_of(peer);
  if (rank >= 0) {
    Op& op = group->window.at(ping.seq);
    if (op.seq == ping.seq && op.seq > 0 && op.fingerprint != ping.fingerprint) {
      parts_.propagation.break_for(*group, parts_.agreement.differs(op, rank, ping.call, ping.seq));
      return;
    }
    if (ping.unreached_plus_1 > 0) return parts_.lost.on_question(*group, rank, ping);
  }
  std::string doing;
  if (ping.asks_doing) {
    doing = parts_.operations.running_text();
    if (doing.empty()) doing = parts_.p2p.running_text();
  }
  parts_.detector.answer(peer, ping, group, parts_.groups.is_closed(ping.group), std::move(doing));
}

void FrameDispatcher::handle_pong(Group& group, int rank, const transport::PongFrame& pong,
                                  std::span<const std::byte> payload) {
  if (pong.reaches_plus_1 > 0) return parts_.lost.on_reached(group, rank, pong);
  parts_.lost.on_answer(group, rank);
  parts_.detector.on_pong(group, rank, pong, payload);
}

void FrameDispatcher::on_sent(int peer, std::uint64_t token) noexcept {
  parts_.channel.on_sent(peer, token);
}

void FrameDispatcher::on_lost(int peer, const Outcome& why) noexcept {
  parts_.lost.connection_ended(peer, why, parts_.operations.busy() || parts_.p2p.busy());
}

}  // namespace tutti::engine
