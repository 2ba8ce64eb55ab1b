#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.hpp"
#include "engine/mailbox.hpp"
#include "kernels/pack.hpp"

// Point to point as frames: a letter announces a message and may hold all of it; a credit asks for
// the rest; data is the rest. docs/wire.md tells the rules.
namespace tutti::engine {

using transport::FrameHeader;
using transport::FrameType;

void Mailbox::list(int rank) noexcept {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  if (std::exchange(pair.listed, true)) return;
  pushing_.push_back(rank);
}

bool Mailbox::push() {
  bool moved = false;
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

bool Mailbox::push_to(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const int global = group_.members[static_cast<std::size_t>(rank)].global;
  Engine::Peer& peer = engine_.peers_[static_cast<std::size_t>(global)];
  transport::Transport* const transport = engine_.world_.route[static_cast<std::size_t>(global)];
  bool moved = false;
  while (!pair.idle()) {
    if (peer.lost || peer.left) break;  // what cannot be sent any more is found by tick
    if (!peer.control.empty() && !engine_.flush_control(global)) break;
    if (!transport->can_send(global) || !engine_.may_bounce(peer)) break;
    if (!pair.grants.empty()) {
      grant(rank);
    } else {
      // In turn, so that neither many small ones nor a large one stops the others.
      const bool announces =
          !pair.waiting.empty() && (pair.streams.empty() || !pair.announced_last);
      if (announces && announce(rank)) {
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

void Mailbox::transmit(int rank, FrameHeader header, Transfer* send) {
  const int global = group_.members[static_cast<std::size_t>(rank)].global;
  Engine::Peer& peer = engine_.peers_[static_cast<std::size_t>(global)];
  header.group = group_.id;
  peer.out.make_room();  // before anything is counted
  Engine::OutFrame frame;
  frame.token = ++peer.token;
  const std::byte* payload = nullptr;
  if (header.payload_bytes > 0) {
    frame.mail = this;
    frame.seq = send->ticket;
    ++send->frames_out;
    if (send->view.contiguous()) {
      payload = static_cast<const std::byte*>(send->view.data()) + header.offset;
    } else {
      const std::size_t element = size_of(send->view.dtype());
      std::byte* const copy = engine_.bounce(peer, frame, header.payload_bytes);
      kernels::pack(copy, send->view, header.offset / element, header.payload_bytes / element);
      payload = copy;
    }
    send->moved += header.payload_bytes;
  }
  peer.out.push_back(std::move(frame));
  engine_.world_.route[static_cast<std::size_t>(global)]->send(global, header, payload, peer.token);
}

/// Tells of the next message, with its bytes where these may go unasked. False: not now.
bool Mailbox::announce(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const int global = group_.members[static_cast<std::size_t>(rank)].global;
  Postage& post = engine_.peers_[static_cast<std::size_t>(global)].post;
  if (post.sent_letters - post.acked_letters >= kLetters) return false;
  Transfer& send = transfers_[pair.waiting.front()];
  pair.waiting.pop_front();
  const std::uint64_t cost = letter_cost(send.bytes);
  const bool whole =
      send.bytes <= kUnasked && post.sent_bytes - post.acked_bytes + cost <= kUnaskedPool;
  ++post.sent_letters;
  if (whole) post.sent_bytes += cost;
  send.number = ++pair.out;
  FrameHeader header;
  header.payload_bytes = whole ? static_cast<std::uint32_t>(send.bytes) : 0;
  header.type = static_cast<std::uint8_t>(FrameType::p2p_letter);
  header.seq = send.number;
  header.fingerprint = send.ticket;
  header.call[0] = static_cast<std::uint64_t>(send.view.dtype());
  header.call[1] = static_cast<std::uint32_t>(send.tag);
  header.call[2] = send.bytes;
  transmit(rank, header, &send);
  if (send.bytes == 0) finish(send);
  return true;
}

/// Asks for the bytes of a message whose recv has been called.
void Mailbox::grant(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const Transfer& recv = transfers_[pair.grants.front()];
  pair.grants.pop_front();
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(FrameType::p2p_credit);
  header.seq = recv.number;
  header.fingerprint = recv.theirs;
  header.offset = recv.bytes;
  header.call[0] = recv.ticket;
  transmit(rank, header, nullptr);
}

/// The next piece of the first message that was asked for; then the others get their turn.
void Mailbox::stream(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const std::uint32_t slot = pair.streams.front();
  Transfer& send = transfers_[slot];
  FrameHeader header;
  header.payload_bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(send.bytes - send.moved, transport::kMaxFramePayload));
  header.type = static_cast<std::uint8_t>(FrameType::p2p_data);
  header.seq = send.number;
  header.fingerprint = send.theirs;
  header.offset = send.moved;
  pair.streams.pop_front();
  transmit(rank, header, &send);
  if (send.moved < send.bytes) pair.streams.push_back(slot);
}

void Mailbox::on_sent(std::uint64_t ticket) noexcept {
  Transfer* const send = find(ticket);
  if (send == nullptr || send->state != Transfer::State::running || send->frames_out == 0) return;
  --send->frames_out;
  if (send->frames_out == 0 && send->moved == send->bytes) finish(*send);
}

bool Mailbox::expects(int rank, const FrameHeader& header, std::span<std::byte>& into) {
  if (static_cast<FrameType>(header.type) == FrameType::p2p_letter) {
    if (header.seq != pairs_[static_cast<std::size_t>(rank)].in + 1) return false;
    // Not into a recv of anybody's message: until all of this has come, another's may take it.
    const Transfer* const recv =
        header.payload_bytes > 0 ? next_for(rank, static_cast<int>(header.call[1])) : nullptr;
    if (recv != nullptr && !recv->any && recv->view.contiguous() &&
        recv->view.dtype() == static_cast<DType>(header.call[0]) &&
        recv->bytes == header.payload_bytes) {
      into = {static_cast<std::byte*>(recv->view.data()), recv->bytes};
    }
    return true;
  }
  if (static_cast<FrameType>(header.type) == FrameType::p2p_credit) return true;
  const Transfer* const recv = find(header.fingerprint);
  const bool ours = recv != nullptr && recv->state == Transfer::State::running &&
                    recv->kind == Kind::recv && recv->matched && recv->rank == rank &&
                    recv->number == header.seq && recv->moved == header.offset;
  if (!ours || header.payload_bytes == 0 || header.payload_bytes > recv->bytes - recv->moved)
    return false;
  // Whole elements, as each may have its own place.
  if (header.payload_bytes % size_of(recv->view.dtype()) != 0) return false;
  if (recv->view.contiguous()) {
    into = {static_cast<std::byte*>(recv->view.data()) + header.offset, header.payload_bytes};
  }
  return true;
}

void Mailbox::on_letter(int rank, const FrameHeader& header, const std::byte* payload) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  if (header.seq != pair.in + 1) {  // of one that was held until there was a group
    engine_.break_group(group_, Status(Errc::internal, "group '" + group_.name +
                                                           "': " + engine_.name_of(group_, rank) +
                                                           " numbers its messages wrongly"));
    return;
  }
  pair.in = header.seq;
  Arrival arrival;
  arrival.source = rank;
  arrival.tag = static_cast<int>(static_cast<std::uint32_t>(header.call[1]));
  arrival.dtype = static_cast<DType>(header.call[0]);
  arrival.bytes = header.call[2];
  arrival.whole = header.payload_bytes == arrival.bytes;
  arrival.number = header.seq;
  arrival.theirs = header.fingerprint;
  if (Transfer* const recv = posted_for(rank, arrival.tag))
    match(*recv, arrival, payload);
  else
    shelve(arrival, payload);
}

void Mailbox::on_credit(int rank, const FrameHeader& header) {
  Transfer* const send = find(header.fingerprint);
  if (send == nullptr || send->state != Transfer::State::running || send->kind != Kind::send)
    return;
  // What went unasked needs no credit, and nobody gives it twice.
  if (send->rank != rank || send->number == 0 || send->number != header.seq) return;
  if (send->matched || send->moved > 0) return;
  send->matched = true;
  send->theirs = header.call[0];
  pairs_[static_cast<std::size_t>(rank)].streams.push_back(
      static_cast<std::uint32_t>(index_of(send->ticket)));
  list(rank);
  push_to(rank);
}

void Mailbox::on_data(int rank, const FrameHeader& header, const std::byte* payload) {
  Transfer* const recv = find(header.fingerprint);
  if (recv == nullptr || recv->state != Transfer::State::running || recv->rank != rank) return;
  if (!recv->view.contiguous()) {
    const std::size_t element = size_of(recv->view.dtype());
    kernels::unpack(recv->view, header.offset / element, header.payload_bytes / element, payload);
  }
  recv->moved += header.payload_bytes;
  if (recv->moved == recv->bytes) finish(*recv);
}

}  // namespace tutti::engine
