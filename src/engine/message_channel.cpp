#include "engine/message_channel.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

// Single frames: on their way out, arriving, held; and what they count.
namespace tutti::engine {

using transport::DataFrame;
using transport::decode;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

namespace {

constexpr std::size_t kControlQueue = 4096;
// A larger frame that is held keeps the buffer into which it came; a smaller one is copied.
constexpr std::size_t kCopied = std::size_t{16} * 1024;
// A transport may take frames as fast as we make them, and tell of it later only: so few copies of
// strided elements are made at a time, for one peer and, beyond one for each, for all of them.
constexpr int kMostBounces = 4;
constexpr std::size_t kMostBounced = std::size_t{1} << 20;

}  // namespace

MessageChannel::MessageChannel(std::span<transport::Transport* const> transports)
    : windows_(eager_windows(transports.size())),
      spilled_(std::make_unique_for_overwrite<std::byte[]>(transport::kMaxFramePayload)) {
  peers_.reserve(transports.size());
  for (transport::Transport* const transport : transports)
    peers_.emplace_back(&pool_, transport, windows_);
  unflushed_.reserve(peers_.size());
}

bool MessageChannel::set_lost(int peer) noexcept { return !std::exchange(at(peer).lost, true); }

void MessageChannel::connection_ended(int peer) noexcept {
  Peer& with = at(peer);
  with.arriving.owner = nullptr;
  for (OutFrame& frame : with.out) {
    if (frame.owner != nullptr) std::exchange(frame.owner, nullptr)->on_frame_lost(frame.id);
  }
  if (!with.out.empty()) on_sent(peer, with.out.back().token);
  with.control.clear();
}

// --- Out.

void MessageChannel::control(int peer, const FrameHeader& header, std::string payload) {
  Peer& to = at(peer);
  if (!is_open(peer) || to.transport == nullptr) return;
  if (to.control.size() >= kControlQueue)
    return;  // a peer that takes nothing for so long is blamed elsewhere
  push_control(peer, {header, std::move(payload)});
  to.control.back().header.payload_bytes =
      static_cast<std::uint32_t>(to.control.back().payload.size());
  flush_control_of(peer);
}

void MessageChannel::push_control(int peer, Control frame) {
  Peer& to = at(peer);
  if (!std::exchange(to.in_unflushed, true)) unflushed_.push_back(peer);
  to.control.push_back(std::move(frame));
}

bool MessageChannel::take_in(int peer) {
  transport::Transport* const transport = at(peer).transport;
  return transport != nullptr && transport->poll_from(peer);
}

/// Its cost depends on the frames that wait, and not on the size of the world.
bool MessageChannel::flush_control() {
  bool moved = false;
  // Iterates by index: a transport that loses a peer makes frames for others.
  for (std::size_t i = 0; i < unflushed_.size();) {
    const int peer = unflushed_[i];
    Peer& to = at(peer);
    if (!to.control.empty()) moved |= flush_control_of(peer);
    if (!to.control.empty()) {
      ++i;
      continue;
    }
    to.in_unflushed = false;
    unflushed_[i] = unflushed_.back();
    unflushed_.pop_back();
  }
  return moved;
}

bool MessageChannel::flush_control_of(int peer) {
  Peer& to = at(peer);
  bool moved = false;
  while (!to.control.empty() && to.transport->can_send(peer)) {
    const Control& frame = to.control.front();
    to.out.make_room();
    OutFrame out;
    const auto* text = reinterpret_cast<const std::byte*>(frame.payload.data());
    if (!frame.payload.empty()) out.bounce.assign(text, text + frame.payload.size());
    out.payload = out.bounce.data();
    const FrameHeader header = frame.header;
    to.control.pop_front();
    send(peer, header, std::move(out));
    moved = true;
    if (to.lost) break;
  }
  return moved || to.control.empty();
}

bool MessageChannel::has_unsent() const noexcept {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.control.empty() || !peer.out.empty(); });
}

bool MessageChannel::can_send(int peer) {
  Peer& to = at(peer);
  if (!is_open(peer)) return false;
  if (!to.control.empty() && !flush_control_of(peer)) return false;
  return to.transport->can_send(peer);
}

bool MessageChannel::may_bounce(int peer) const noexcept {
  const Peer& to = at(peer);
  return to.bounces == 0 || (to.bounces < kMostBounces && bounced_ < kMostBounced);
}

MessageChannel::OutFrame MessageChannel::prepare(int peer, const std::byte* payload) {
  at(peer).out.make_room();
  OutFrame frame;
  frame.payload = payload;
  return frame;
}

MessageChannel::OutFrame MessageChannel::prepare(int peer, const Elements& elements,
                                                 std::size_t element, std::uint64_t offset,
                                                 std::size_t bytes) {
  OutFrame frame = prepare(peer, nullptr);
  if (bytes == 0) return frame;
  frame.bounce = buffers_.acquire(bytes);
  frame.bounced = true;
  frame.payload = frame.bounce.data();
  ++at(peer).bounces;
  bounced_ += frame.bounce.size();
  elements.pack(frame.bounce.data(), offset / element, bytes / element);
  return frame;
}

void MessageChannel::send(int peer, const FrameHeader& header, OutFrame&& frame, FrameOwner* owner,
                          std::uint64_t id) {
  Peer& to = at(peer);
  frame.token = ++to.token;
  frame.owner = owner;
  frame.id = id;
  // A ping for an operation is no mere question: we wait there.
  const bool asks = type_of(header) == FrameType::ping && header.seq == 0 &&
                    transport::decode<transport::PingFrame>(header).asks_doing;
  to.used = to.used || !asks;
  to.only_asked = !to.used;
  if (to.transport->send(peer, header, frame.payload, to.token))
    has_left_memory(to, std::move(frame));
  else
    to.out.push_back(std::move(frame));  // the bytes of a copy stay where they are
}

void MessageChannel::has_left_memory(Peer& to, OutFrame&& frame) noexcept {
  if (frame.owner != nullptr) frame.owner->on_frame_sent(frame.id);
  if (frame.bounced) {
    --to.bounces;
    bounced_ -= frame.bounce.size();
  }
  if (!frame.bounce.empty()) buffers_.release(std::move(frame.bounce));
}

void MessageChannel::on_sent(int peer, std::uint64_t token) noexcept {
  Peer& to = at(peer);
  while (!to.out.empty() && to.out.front().token <= token) {
    has_left_memory(to, std::move(to.out.front()));
    to.out.pop_front();
  }
}

void MessageChannel::let_go(FrameOwner& owner) noexcept {
  for (int peer = 0; peer < size(); ++peer) {
    Peer& with = at(peer);
    bool any = false;
    for (OutFrame& frame : with.out) {
      if (frame.owner != &owner) continue;
      frame.owner = nullptr;
      any = true;
    }
    if (any) with.transport->keep_payloads(peer);
    if (with.arriving.owner != &owner) continue;
    with.transport->drop_arriving(peer);
    with.arriving.owner = nullptr;
    consumed(peer, with.arriving.header);  // on_frame will not come for it
  }
}

// --- In.

void MessageChannel::arriving(int peer, const FrameHeader& header) noexcept {
  Arriving& frame = at(peer).arriving;
  frame.header = header;
  frame.owner = nullptr;
  frame.keep = false;
  frame.spilled = false;
  at(peer).used = true;
  at(peer).only_asked = false;
}

bool MessageChannel::count_eager(int peer, const FrameHeader& header) noexcept {
  Peer& from = at(peer);
  if (type_of(header) == FrameType::data) {
    const DataFrame data = decode<DataFrame>(header);
    return !data.eager || from.eager.receive(eager_cost(data.bytes));
  }
  return !is_envelope(header) || count_short(peer, unasked_bytes(header));
}

bool MessageChannel::count_short(int peer, std::uint64_t bytes) noexcept {
  Peer& from = at(peer);
  from.used = true;
  from.only_asked = false;
  const bool within = from.matches.receive(1);
  return from.eager_messages.receive(unexpected_cost(bytes)) && within;
}

transport::ShortLook MessageChannel::take_short(int peer, const transport::ShortHead& head,
                                                std::byte* into) noexcept {
  Peer& from = at(peer);
  const std::uint64_t cost = unexpected_cost(head.bytes);
  // One message too many is refused where all messages are.
  if (from.transport == nullptr || !from.matches.may_receive(1) ||
      !from.eager_messages.may_receive(cost))
    return transport::ShortLook::other;
  const transport::ShortLook look = from.transport->take_short(peer, head, into);
  if (look == transport::ShortLook::taken) {
    (void)count_short(peer, head.bytes);
    message_consumed(peer, cost);
  }
  return look;
}

std::span<std::byte> MessageChannel::place_buffered(int peer) {
  Peer& from = at(peer);
  const std::size_t bytes = std::max<std::size_t>(from.arriving.header.payload_bytes, 1);
  if (from.buffer.size() < bytes)
    buffers_.release(std::exchange(from.buffer, buffers_.acquire(bytes)));
  return {from.buffer.data(), bytes};
}

std::span<std::byte> MessageChannel::place_kept(int peer) {
  if (!may_hold(peer, at(peer).arriving.header)) return {};
  at(peer).arriving.keep = true;
  return place_buffered(peer);
}

std::span<std::byte> MessageChannel::place_for(int peer, FrameOwner& owner,
                                               std::span<std::byte> into) {
  const std::span<std::byte> place = into.empty() ? place_buffered(peer) : into;
  at(peer).arriving.owner = &owner;
  return place;
}

std::span<std::byte> MessageChannel::place_spilled(int peer) noexcept {
  Arriving& frame = at(peer).arriving;
  frame.owner = nullptr;
  frame.keep = false;
  frame.spilled = true;
  return {spilled_.get(), std::max<std::size_t>(frame.header.payload_bytes, 1)};
}

bool MessageChannel::may_hold(int peer, const FrameHeader& header) const noexcept {
  return at(peer).held.has_room(header, operations_);
}

std::span<const std::byte> MessageChannel::arrived(int peer) const noexcept {
  const Peer& from = at(peer);
  return {from.buffer.data(), from.arriving.header.payload_bytes};
}

FrameOwner* MessageChannel::take_owner(int peer) noexcept {
  return std::exchange(at(peer).arriving.owner, nullptr);
}

void MessageChannel::keep(int peer, const FrameHeader& header) {
  Peer& from = at(peer);
  std::vector<std::byte> data;
  // Its memory is counted by size_for (HeldFrames::memory_of).
  if (header.payload_bytes > kCopied &&
      from.buffer.size() == FrameBuffers::size_for(header.payload_bytes)) {
    data = std::exchange(from.buffer, {});
  } else if (header.payload_bytes > 0) {
    data = buffers_.acquire(header.payload_bytes);
    std::memcpy(data.data(), from.buffer.data(), header.payload_bytes);
  }
  from.held.push(header, std::move(data));
}

// --- Held.

void MessageChannel::drop_held(std::uint64_t group) noexcept {
  for (int peer = 0; peer < size(); ++peer) {
    at(peer).held.erase_if([&](HeldFrames::Frame& held) {
      if (held.header.group != group) return false;
      consumed(peer, held.header);
      buffers_.release(std::move(held.data));
      return true;
    });
  }
}

// --- Credit.

void MessageChannel::consumed(int peer, const FrameHeader& header) noexcept {
  if (type_of(header) == FrameType::data) {
    const DataFrame data = decode<DataFrame>(header);
    if (data.eager) take_eager(peer, eager_cost(data.bytes));
  } else if (is_envelope(header)) {
    message_consumed(peer, unexpected_cost(unasked_bytes(header)));
  }
}

void MessageChannel::take_eager(int peer, std::uint64_t cost) noexcept {
  CreditAccount& eager = at(peer).eager;
  eager.take(cost);
  if (!eager.report_due()) return;
  try {
    control(peer, encode(transport::EagerCreditFrame{eager.taken()}));
    eager.reported();
  } catch (const std::bad_alloc&) {  // the next report says it
  }
}

void MessageChannel::message_sent(int peer, std::uint64_t cost) noexcept {
  at(peer).matches.send(1);
  at(peer).eager_messages.send(cost);
}

void MessageChannel::message_consumed(int peer, std::uint64_t cost) noexcept {
  Peer& to = at(peer);
  to.matches.take(1);
  to.eager_messages.take(cost);
  if (!to.matches.report_due() && !to.eager_messages.report_due()) return;
  if (!is_open(peer)) return;
  const FrameHeader header =
      encode(transport::P2PCreditFrame{to.matches.taken(), to.eager_messages.taken()});
  // Not dropped where the queue is long: a sender that waits for it would wait for ever. But one
  // says what those before it said, so of a peer that floods us and reads nothing only one waits.
  const auto waits = std::find_if(to.control.begin(), to.control.end(), [&](const Control& one) {
    return one.header.type == header.type;
  });
  try {
    if (waits != to.control.end())
      waits->header = header;
    else
      push_control(peer, {header, {}});
    to.matches.reported();
    to.eager_messages.reported();
    flush_control_of(peer);
  } catch (const std::bad_alloc&) {  // the next report says it
  }
}

void MessageChannel::eager_acknowledged(int peer,
                                        const transport::EagerCreditFrame& credit) noexcept {
  at(peer).eager.acknowledge(credit.taken_bytes);
}

void MessageChannel::messages_acknowledged(int peer,
                                           const transport::P2PCreditFrame& credit) noexcept {
  at(peer).matches.acknowledge(credit.taken_messages);
  at(peer).eager_messages.acknowledge(credit.taken_bytes);
}

}  // namespace tutti::engine
