#include <algorithm>
#include <utility>

#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"

// The frames of point to point. An eager message carries all its bytes. A larger one announces
// itself with an RTS. Between hosts as many of its bytes follow at once as the receiver's window
// takes; the others follow the receiver's CTS. docs/design/wire.md has the rules.
namespace tutti::engine {

using transport::CtsFrame;
using transport::Envelope;
using transport::FrameHeader;
using transport::FrameType;
using transport::P2PDataFrame;

void P2PMatcher::list(int rank) noexcept {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  if (std::exchange(pair.listed, true)) return;
  pushing_.push_back(rank);
}

bool P2PMatcher::push() {
  bool moved = !waiting_for_caller_.empty() && resume_given();
  for (std::size_t i = 0; i < pushing_.size();) {
    const int rank = pushing_[i];
    moved |= push_to(rank);
    if (i >= pushing_.size()) break;  // the group was broken meanwhile
    if (!pairs_[static_cast<std::size_t>(rank)].idle()) {
      ++i;
      continue;
    }
    pairs_[static_cast<std::size_t>(rank)].listed = false;
    pushing_[i] = pushing_.back();
    pushing_.pop_back();
  }
  return moved;
}

bool P2PMatcher::push_to(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  bool moved = false;
  while (!pair.idle()) {
    if (!may_push(rank)) break;
    if (!pair.grants.empty()) {
      grant(rank);
    } else {
      // They take turns, so that neither many small messages nor a large one blocks the others.
      const bool announces = pair.streams.empty() || !pair.announced_last;
      if (announces && pair.ahead_out != kNoSlot) {
        pair.announced_last = true;
        send_ahead(rank);
      } else if (announces && !pair.waiting.empty() && announce(*requests_[pair.waiting.front()])) {
        pair.announced_last = true;
      } else if (!pair.streams.empty()) {
        pair.announced_last = false;
        stream(rank);
      } else {
        break;
      }
    }
    moved = true;
  }
  return moved;
}

/// If the peer is gone, no frame can be sent any more; tick notices that.
bool P2PMatcher::may_push(int rank) {
  return channel_.can_send(global(rank)) && channel_.may_bounce(global(rank));
}

/// A frame with the next bytes of this send.
MessageChannel::OutFrame P2PMatcher::prepare(const P2PRequest& send, std::uint64_t bytes) {
  const int peer = global(send.rank);
  if (bytes == 0) return channel_.prepare(peer, nullptr);
  if (send.view.contiguous())
    return channel_.prepare(peer, static_cast<const std::byte*>(send.view.data()) + send.moved);
  const std::size_t element = size_of(send.view.dtype());
  return channel_.prepare(peer, Elements{&send.view, nullptr, 0}, element, send.moved, bytes);
}

void P2PMatcher::transmit(P2PRequest& send, const FrameHeader& header,
                          MessageChannel::OutFrame&& frame) {
  const bool holds = header.payload_bytes > 0;
  if (holds) ++send.frames_out;
  send.moved += header.payload_bytes;
  channel_.send(global(send.rank), header, std::move(frame), holds ? this : nullptr, send.ticket);
}

/// Sends the first frame of the next message: an eager message, or an RTS. It is the first of those
/// that wait, or none waits. False: not now.
bool P2PMatcher::announce(P2PRequest& send) {
  Pair& pair = pairs_[static_cast<std::size_t>(send.rank)];
  const int peer = global(send.rank);
  if (channel_.message_room(peer) == 0) return false;
  const std::uint64_t cost = unexpected_cost(send.bytes);
  const bool eager = send.bytes <= kEagerLimit && cost <= channel_.eager_message_room(peer);
  const bool on_gpu = send.gpu != nullptr;
  // On our host a CTS comes at once where each rank has a CPU, and bytes that wait for their recv
  // are copied twice. With more ranks a CTS takes two context switches.
  const World& world = shared_.world;
  const bool asks = group_.member(send.rank).local >= 0 && !world.regions->is_crowded(world.cpus);
  const bool goes_ahead = send.bytes > kEagerLimit && !on_gpu && !asks;
  send.unasked = eager ? send.bytes : goes_ahead ? channel_.room_ahead(peer, send.bytes) : 0;
  MessageChannel::OutFrame frame = prepare(send, eager ? send.bytes : 0);
  if (!pair.waiting.empty()) pair.waiting.pop_front();
  channel_.message_sent(peer, unexpected_cost(send.unasked));
  send.number = ++pair.out;
  const Envelope envelope{group_.id,
                          send.number,
                          send.ticket,
                          static_cast<std::uint64_t>(send.view.dtype()),
                          static_cast<std::uint32_t>(send.tag),
                          send.bytes};
  transmit(send,
           eager ? encode(transport::EagerMessageFrame{envelope})
                 : encode(transport::RtsFrame{envelope, on_gpu, send.unasked}),
           std::move(frame));
  if (!eager && send.unasked > 0)
    pair.ahead_out = static_cast<std::uint32_t>(index_of(send.ticket));
  if (send.bytes == 0) finish(send);
  return true;
}

/// Asks for the bytes of a message whose recv has been called.
void P2PMatcher::grant(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  P2PRequest& recv = *requests_[pair.grants.front()];
  pair.grants.pop_front();
  // One that was given host memory takes the bytes.
  const bool on_gpus = recv.gpu != nullptr && recv.view.data() == nullptr;
  channel_.send(
      global(rank),
      encode(CtsFrame{group_.id, recv.number, recv.theirs, recv.ticket, recv.bytes, on_gpus}),
      channel_.prepare(global(rank), nullptr));
  if (on_gpus) has_matched_gpus(recv, ++pair.gpu_in);
}

/// Frames of a pair come in order, so both ranks give such a message the same number.
void P2PMatcher::has_matched_gpus(P2PRequest& request, std::uint64_t number) {
  request.gpu->number = number;
  // release: pairs with the caller's acquire, which reads `number`.
  request.gpu->state.store(call::GpuMessage::State::on_gpus, std::memory_order_release);
  finish(request);
}

/// The caller has to give what is missing; `push` looks whether it is there.
void P2PMatcher::request_from_caller(P2PRequest& request, call::GpuMessage::State for_what) {
  waiting_for_caller_.push_back(static_cast<std::uint32_t>(index_of(request.ticket)));
  // relaxed: the caller reads nothing that the engine wrote before.
  request.gpu->state.store(for_what, std::memory_order_relaxed);
}

bool P2PMatcher::waits_for_caller(const P2PRequest& request) noexcept {
  if (request.gpu == nullptr) return false;
  // acquire: pairs with the release of the caller, which wrote `memory` before.
  const call::GpuMessage::State state = request.gpu->state.load(std::memory_order_acquire);
  return state == call::GpuMessage::State::needs_memory ||
         (state == call::GpuMessage::State::needs_stream &&
          !request.gpu->stream_came.load(std::memory_order_relaxed));  // relaxed: as in `match`
}

/// Goes on with requests whose callers have given what was missing. True: there were some.
bool P2PMatcher::resume_given() {
  std::vector<std::uint32_t> given;
  std::erase_if(waiting_for_caller_, [&](std::uint32_t slot) {
    if (waits_for_caller(*requests_[slot])) return false;
    given.push_back(slot);
    return true;
  });
  for (const std::uint32_t slot : given) {
    P2PRequest& request = *requests_[slot];
    if (request.gpu->memory.data() != nullptr) request.view = request.gpu->memory;
    if (request.kind == Kind::recv && request.unasked > 0) {
      const std::vector<std::byte> early = std::exchange(request.early, {});
      place_piece(request, 0, early.data(), early.size());
      if (request.moved == request.bytes) finish(request);
      if (request.unasked == request.bytes) continue;
    }
    if (request.rank == group_.rank) {
      move_to_self(request);
      continue;
    }
    Pair& pair = pairs_[static_cast<std::size_t>(request.rank)];
    (request.kind == Kind::send ? pair.streams : pair.grants).push_back(slot);
    list(request.rank);  // the caller pushes
  }
  return !given.empty();
}

/// Sends the next piece of the first message whose CTS has come. Then it is the others' turn.
void P2PMatcher::stream(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const std::uint32_t slot = pair.streams.front();
  P2PRequest& send = *requests_[slot];
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(send.bytes - send.moved, transport::kMaxFramePayload));
  const P2PDataFrame data{group_.id, send.number, send.theirs, send.moved, bytes};
  MessageChannel::OutFrame frame = prepare(send, bytes);
  pair.streams.pop_front();
  transmit(send, encode(data), std::move(frame));
  if (send.moved < send.bytes) pair.streams.push_back(slot);
}

void P2PMatcher::on_frame_sent(std::uint64_t ticket) noexcept {
  P2PRequest* const send = find(ticket);
  if (send == nullptr || send->state != P2PRequest::State::running || send->frames_out == 0) return;
  --send->frames_out;
  if (send->frames_out == 0 && send->moved == send->bytes) finish(*send);
}

bool P2PMatcher::expects(int rank, const FrameHeader& header, std::span<std::byte>& into) {
  if (is_envelope(header)) {
    const auto envelope = transport::decode<Envelope>(header);
    const Pair& pair = pairs_[static_cast<std::size_t>(rank)];
    if (envelope.number != pair.in + 1 || pair.ahead.left > 0) return false;
    // The payload goes directly into the recv's buffer only if no other message can get that recv
    // first. With any_source a message of another rank may be complete earlier. And if a probe
    // holds a message (held_ > 0), putting that back gives it to this recv.
    P2PRequest* const recv = header.payload_bytes > 0 && held_ == 0
                                 ? next_for(rank, static_cast<int>(envelope.tag))
                                 : nullptr;
    if (recv != nullptr && recv->kind == Kind::recv && !recv->any && recv->view.contiguous() &&
        recv->view.dtype() == static_cast<DType>(envelope.dtype) &&
        recv->bytes == header.payload_bytes) {
      into = {static_cast<std::byte*>(recv->view.data()), recv->bytes};
      recv->lands = true;  // `cancel` must not give the buffer back
    }
    return true;
  }
  if (type_of(header) == FrameType::cts) return true;
  const auto data = transport::decode<P2PDataFrame>(header);
  if (data.ahead) {
    if (!expects_ahead(rank, data)) return false;
    Ahead& ahead = pairs_[static_cast<std::size_t>(rank)].ahead;
    const P2PRequest* const taker = ahead.recv == kNoSlot ? nullptr : requests_[ahead.recv].get();
    ahead.lands = taker != nullptr && taker->view.data() != nullptr && taker->view.contiguous();
    if (ahead.lands) into = {static_cast<std::byte*>(taker->view.data()) + data.offset, data.bytes};
    return true;
  }
  const P2PRequest* const recv = find(data.recv);
  // Without memory it has not asked for them.
  const bool ours = recv != nullptr && recv->state == P2PRequest::State::running &&
                    recv->kind == Kind::recv && recv->matched && recv->rank == rank &&
                    recv->number == data.number && recv->moved == data.offset &&
                    data.offset >= recv->unasked && recv->view.data() != nullptr;
  if (!ours || data.bytes == 0 || data.bytes > recv->bytes - recv->moved) return false;
  // Only whole elements: with strides each has its own place.
  if (data.bytes % size_of(recv->view.dtype()) != 0) return false;
  if (recv->view.contiguous())
    into = {static_cast<std::byte*>(recv->view.data()) + data.offset, data.bytes};
  return true;
}

void P2PMatcher::on_envelope(int rank, const FrameHeader& header, const std::byte* payload,
                             std::uint64_t here) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const auto envelope = transport::decode<Envelope>(header);
  // `expects` has not checked frames that came early; of a short message only the low bits came.
  if (!is_next(rank, static_cast<std::uint16_t>(envelope.number)) || pair.ahead.left > 0) {
    shared_.propagation.break_group(
        group_, Outcome(Errc::internal, "group '" + group_.name +
                                            "': " + name_of(shared_.world, group_, rank) +
                                            " numbers its messages wrongly"));
    return;
  }
  ArrivedMessage message;
  message.source = rank;
  message.tag = static_cast<int>(static_cast<std::uint32_t>(envelope.tag));
  message.dtype = static_cast<DType>(envelope.dtype);
  message.bytes = envelope.bytes;
  message.here = here;
  if (type_of(header) == FrameType::eager_message) {
    message.unasked = message.bytes;
  } else {
    const auto rts = transport::decode<transport::RtsFrame>(header);
    message.on_gpu = rts.on_gpu;
    message.unasked = rts.ahead;
  }
  message.number = ++pair.in;
  message.theirs = envelope.send;
  arrive(message, payload);
}

/// A message gets its recv or probe, or waits for one. `payload`: as in `match`.
void P2PMatcher::arrive(const ArrivedMessage& message, const std::byte* payload) {
  P2PRequest* const taker = posted_for(message.source, message.tag);
  Ahead& ahead = pairs_[static_cast<std::size_t>(message.source)].ahead;
  ahead = {};
  ahead.left = message.unasked - message.here;
  if (taker != nullptr && taker->kind == Kind::recv) {
    ahead.recv = static_cast<std::uint32_t>(index_of(taker->ticket));
    match(*taker, message, payload);
  } else {
    ahead.place = keep_unexpected(message, payload, taker);
  }
}

void P2PMatcher::on_cts(int rank, const CtsFrame& cts) {
  P2PRequest* const send = find(cts.send);
  if (send == nullptr || send->state != P2PRequest::State::running || send->kind != Kind::send)
    return;
  // A message of which no byte waits takes no CTS, and any other only one.
  if (send->rank != rank || send->number == 0 || send->number != cts.number) return;
  if (send->matched || send->unasked == send->bytes) return;
  if (cts.on_gpus && send->gpu == nullptr) return;  // its RTS did not say so
  send->matched = true;
  send->theirs = cts.recv;
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  if (cts.on_gpus) return has_matched_gpus(*send, ++pair.gpu_out);
  if (send->gpu != nullptr)
    return request_from_caller(*send, call::GpuMessage::State::needs_memory);
  const auto slot = static_cast<std::uint32_t>(index_of(send->ticket));
  if (pair.ahead_out == slot) return;  // then its other bytes follow
  pair.streams.push_back(slot);
  list(rank);
  push_to(rank);
}

void P2PMatcher::on_data(int rank, const P2PDataFrame& data, const std::byte* payload) {
  if (data.ahead) return on_ahead(rank, data, payload);
  P2PRequest* const recv = find(data.recv);
  if (recv == nullptr || recv->state != P2PRequest::State::running || recv->rank != rank) return;
  if (!recv->view.contiguous()) place_piece(*recv, data.offset, payload, data.bytes);
  recv->moved += data.bytes;
  if (recv->moved == recv->bytes) finish(*recv);
}

}  // namespace tutti::engine
