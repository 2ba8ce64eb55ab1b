#include <algorithm>
#include <optional>

#include "engine/engine.hpp"
#include "engine/names.hpp"

// Finds the operation that a frame belongs to, and ends operations that cannot go on.
// docs/design/wire.md has the rules.
namespace tutti::engine {

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

void Engine::deliver_held(Op& op, int rank) {
  if (!interpreter_.deliver_held(op, rank)) report(op, interpreter_.take_finding());
}

/// Breaks the group of an operation that cannot go on, or asks another rank for its last calls.
void Engine::report(Op& op, const Interpreter::Finding& finding) {
  using What = Interpreter::Finding::What;
  Group& group = *op.group;
  switch (finding.what) {
    case What::line: break_for(group, agreement_.differs_in_lines(op, finding.rank)); break;
    case What::frame:
      break_for(group, agreement_.differs(op, finding.rank, finding.frame.call, finding.frame.seq));
      break;
    case What::splits:
      break_group(group, agreement_.splits_differ(op, finding.rank, finding.frame));
      break;
    case What::outside:
      break_group(
          group, Outcome(Errc::internal, op_text(op) + ": " + name_of(world_, group, finding.rank) +
                                             " exposes staging outside its arena"));
      break;
    case What::unmapped: break_for_memory(&group); break;
  }
}

std::span<std::byte> Engine::on_header(int peer, const FrameHeader& header) noexcept {
  channel_.arriving(peer, header);
  try {
    return place_of_frame(peer, header);
  } catch (const std::bad_alloc&) {  // reads and drops the payload: its sender did nothing wrong
    const std::span<std::byte> place = channel_.place_spilled(peer);
    break_for_memory(nullptr);
    return place;
  }
}

std::span<std::byte> Engine::place_of_frame(int peer, const FrameHeader& header) {
  if (header.payload_bytes > transport::kMaxFramePayload) return {};
  if (transport::is_p2p(header)) return p2p_.place_of(peer, header);
  if (type_of(header) == FrameType::data) return place_of_data(peer, header);
  if (is_held_early(header) && !channel_.may_hold(peer, header)) return {};
  return channel_.place_buffered(peer);
}

std::span<std::byte> Engine::place_of_data(int peer, const FrameHeader& header) {
  if (!channel_.count_eager(peer, header)) return {};
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = groups_.find(data.group);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  if (group != nullptr && rank < 0) return {};
  if (group != nullptr && group->broken) return channel_.place_buffered(peer);
  if (group == nullptr ? !groups_.is_closed(data.group) : data.seq > group->window.started()) {
    // We give no credit for an operation before we begin it, so only eager data can come.
    return data.eager ? channel_.place_kept(peer) : std::span<std::byte>();
  }
  if (group == nullptr) return channel_.place_buffered(peer);  // the group is closed: dropped
  Op& op = group->window.at(data.seq);
  if (op.seq != data.seq) return channel_.place_buffered(peer);
  if (op.fingerprint != data.fingerprint) {
    break_for(*group, agreement_.differs(op, rank, data.call, data.seq));
  } else if (op.streams.is_open() && op.agreement.disagreeing_rank < 0) {
    if (!MessageChannel::splits_differ(op.streams, rank, data))
      return channel_.place_in_stream(peer, op.streams, rank, data);
    break_group(*group, agreement_.splits_differ(op, rank, data));
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
    p2p_.on_frame(peer, header);
  else if (type_of(header) != FrameType::data)
    on_control(peer, header, channel_.arrived(peer));
  else if (channel_.is_kept(peer))
    keep_data(peer, header);
  else
    channel_.stream_arrived(peer, header);
}

/// Keeps a data frame that could not be used when its head came. Since then the operation may have
/// begun, the receive been posted, or the group been made (without this peer) or broken.
void Engine::keep_data(int peer, const FrameHeader& header) {
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = groups_.find(data.group);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  if (group == nullptr ? groups_.is_closed(data.group)
                       : rank < 0 || group->broken.load(std::memory_order_relaxed)) {
    channel_.consumed(peer, header);
    return;
  }
  Op* const op = group == nullptr ? nullptr : &group->window.at(data.seq);
  if (op == nullptr || op->seq != data.seq || !op->streams.is_open())
    channel_.keep(peer, header);
  else if (channel_.keep_in_stream(peer, op->streams, rank, data))
    deliver_held(*op, rank);
}

void Engine::on_sent(int peer, std::uint64_t token) noexcept { channel_.on_sent(peer, token); }

bool Engine::has_unsent() const noexcept { return channel_.has_unsent(); }

}  // namespace tutti::engine
