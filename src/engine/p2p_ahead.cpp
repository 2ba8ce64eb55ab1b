#include <algorithm>
#include <cstring>

#include "engine/p2p_matcher.hpp"
#include "kernels/pack.hpp"

// Pieces of a large message that go ahead of its CTS. They come in order, before the next message
// of their sender, and land in its recv or wait with it. docs/design/wire.md has the rules.
namespace tutti::engine {

using transport::P2PDataFrame;

/// Sends the next piece of the message that goes ahead of its CTS.
void P2PMatcher::send_ahead(int rank) {
  Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const std::uint32_t slot = pair.ahead_out;
  P2PRequest& send = *requests_[slot];
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(send.unasked - send.moved, transport::kMaxFramePayload));
  const P2PDataFrame data{group_.id, send.number, 0, send.moved, bytes, true};
  MessageChannel::OutFrame frame = prepare(send, bytes);
  if (send.moved + bytes == send.unasked) {
    pair.ahead_out = kNoSlot;
    if (send.matched) pair.streams.push_back(slot);
  }
  transmit(send, encode(data), std::move(frame));
}

/// True if this is the next piece of the last message of this rank.
bool P2PMatcher::expects_ahead(int rank, const P2PDataFrame& data) const noexcept {
  const Pair& pair = pairs_[static_cast<std::size_t>(rank)];
  const Ahead& ahead = pair.ahead;
  if (ahead.left == 0 || data.number != pair.in) return false;
  const std::uint64_t here =
      ahead.recv == kNoSlot ? unexpected_messages_[ahead.place].here : requests_[ahead.recv]->moved;
  return data.offset == here &&
         data.bytes == std::min<std::uint64_t>(ahead.left, transport::kMaxFramePayload);
}

void P2PMatcher::on_ahead(int rank, const P2PDataFrame& data, const std::byte* payload) {
  if (!expects_ahead(rank, data)) return;
  Ahead& ahead = pairs_[static_cast<std::size_t>(rank)].ahead;
  ahead.left -= data.bytes;
  if (ahead.recv == kNoSlot) {
    UnexpectedMessage& kept = unexpected_messages_[ahead.place];
    kept.data.insert(kept.data.end(), payload, payload + data.bytes);
    kept.here += data.bytes;
    return;
  }
  P2PRequest& recv = *requests_[ahead.recv];
  if (recv.view.data() == nullptr)
    recv.early.insert(recv.early.end(), payload, payload + data.bytes);
  else if (!ahead.lands)
    place_piece(recv, data.offset, payload, data.bytes);
  recv.moved += data.bytes;
  if (recv.moved == recv.bytes && recv.view.data() != nullptr) finish(recv);
}

/// Puts bytes of a message from `offset` on in their place.
void P2PMatcher::place_piece(const P2PRequest& recv, std::uint64_t offset, const std::byte* from,
                             std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  const std::size_t element = size_of(recv.view.dtype());
  if (recv.view.contiguous())
    std::memcpy(static_cast<std::byte*>(recv.view.data()) + offset, from, bytes);
  else
    kernels::unpack(recv.view, offset / element, bytes / element, from);
}

}  // namespace tutti::engine
