#include <algorithm>
#include <utility>

#include "engine/message_channel.hpp"

// Messages point to point of groups that this rank has not made yet.
namespace tutti::engine {

using transport::decode;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

void MessageChannel::keep_message(int peer, const FrameHeader& header) {
  Peer& from = at(peer);
  const std::byte* const data = from.buffer.data();
  from.messages.push_back({header, std::vector<std::byte>(data, data + header.payload_bytes)});
}

HeldFrames::Frame* MessageChannel::message_of_piece(int peer, const FrameHeader& header) noexcept {
  const auto piece = decode<transport::P2PDataFrame>(header);
  if (type_of(header) != FrameType::p2p_data || !piece.ahead) return nullptr;
  std::list<HeldFrames::Frame>& all = at(peer).messages;
  const auto last = std::find_if(all.rbegin(), all.rend(), [&](const HeldFrames::Frame& one) {
    return one.header.group == header.group;
  });
  if (last == all.rend() || type_of(last->header) != FrameType::rts) return nullptr;
  const std::uint64_t have = last->data.size();
  const std::uint64_t left = unasked_bytes(last->header) - have;
  const bool next = piece.number == last->header.seq && piece.offset == have && left > 0 &&
                    piece.bytes == std::min<std::uint64_t>(left, transport::kMaxFramePayload);
  return next ? &*last : nullptr;
}

void MessageChannel::keep_piece(int peer, const FrameHeader& header) {
  HeldFrames::Frame& message = *message_of_piece(peer, header);
  const std::span<const std::byte> bytes = arrived(peer);
  message.data.reserve(unasked_bytes(message.header));
  message.data.insert(message.data.end(), bytes.begin(), bytes.end());
}

std::vector<HeldFrames::Frame> MessageChannel::take_messages(int peer, std::uint64_t group) {
  std::list<HeldFrames::Frame>& all = at(peer).messages;
  std::vector<HeldFrames::Frame> taken;
  if (all.empty()) return taken;
  for (HeldFrames::Frame& one : all) {
    if (one.header.group == group) taken.push_back(std::move(one));
  }
  std::erase_if(all, [&](const HeldFrames::Frame& one) { return one.header.group == group; });
  return taken;
}

}  // namespace tutti::engine
