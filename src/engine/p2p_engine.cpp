#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.hpp"
#include "engine/p2p_matcher.hpp"

// Point to point, over all groups: finds the matcher of a frame or a ticket, bounds eager messages,
// and keeps those of groups that this rank has not made yet. docs/wire.md has the rules.
namespace tutti::engine {

using transport::Envelope;
using transport::FrameHeader;
using transport::FrameType;

namespace {

constexpr std::uint64_t kMostTag = 0x80000000;  // one more than a caller may use
static_assert(static_cast<std::uint32_t>(kMonitoredBarrierTag) == kMostTag);

// Bound of the memory that unexpected messages of one peer take: a record for each, and their
// bytes in buffers of at most 8 times the size.
static_assert(kMatchCredit * (sizeof(UnexpectedMessage) + MatchQueues::kEach) +
                  8 * kP2PEagerCredit <=
              std::uint64_t{16} << 20);
static_assert(sizeof(HeldFrames::Frame) <=
              sizeof(UnexpectedMessage) + MatchQueues::kEach);  // without a group

/// The envelope of a message is possible.
bool is_sound(const FrameHeader& header) noexcept {
  const auto envelope = transport::decode<Envelope>(header);
  if (envelope.dtype >= kDTypeCount || envelope.tag > kMostTag) return false;
  if (envelope.bytes > std::uint64_t{1} << 62) return false;
  if (envelope.bytes % size_of(static_cast<DType>(envelope.dtype)) != 0) return false;
  if (transport::type_of(header) == FrameType::rts)
    return header.payload_bytes == 0 && envelope.bytes > 0;
  return header.payload_bytes == envelope.bytes && envelope.bytes <= kEagerLimit;
}

}  // namespace

P2PMatcher& Engine::matcher_of(Group& group) {
  if (group.matcher == nullptr) {
    matchers_.reserve(matchers_.size() + 1);
    group.matcher.reset(new P2PMatcher(p2p_, group));
    matchers_.push_back(group.matcher.get());
  }
  return *group.matcher;
}

std::uint64_t Engine::submit_p2p(Group& group, const Collective& call) {
  // relaxed: the driver lock is ours.
  if (group.broken.load(std::memory_order_relaxed)) return kRefusedTicket;
  return matcher_of(group).submit(call);
}

bool Engine::p2p_done(Group& group, std::uint64_t ticket) noexcept {
  return group.matcher == nullptr || group.matcher->is_done(ticket);
}

std::optional<Status> Engine::p2p_outcome(Group& group, std::uint64_t ticket) noexcept {
  if (group.matcher == nullptr) return group.cause;  // broken before the first of them
  return group.matcher->outcome(ticket);
}

int Engine::source(Group& group, std::uint64_t ticket) noexcept {
  return is_p2p(ticket) && group.matcher != nullptr ? group.matcher->source(ticket) : -1;
}

int Engine::release(Group& group, std::uint64_t ticket) noexcept {
  if (!is_p2p(ticket) || group.matcher == nullptr) return -1;
  const int source = group.matcher->source(ticket);
  group.matcher->release(ticket);
  return source;
}

bool Engine::push_p2p() {
  bool moved = false;
  for (std::size_t i = 0; i < matchers_.size(); ++i) {
    if (matchers_[i]->wants_to_push()) moved |= matchers_[i]->push();
  }
  // Another group is the first next time: none fills a transport for ever.
  if (moved && matchers_.size() > 1)
    std::rotate(matchers_.begin(), matchers_.begin() + 1, matchers_.end());
  return moved;
}

void Engine::tick_p2p(TimePoint now) {
  for (std::size_t i = 0; i < matchers_.size(); ++i) matchers_[i]->tick(now);
}

void Engine::forget_matcher(Group& group) noexcept {
  if (group.matcher == nullptr) return;
  std::erase(matchers_, group.matcher.get());
  group.matcher.reset();
}

std::span<std::byte> Engine::place_of_p2p(int peer, const FrameHeader& header) {
  const FrameType type = type_of(header);
  if (type == FrameType::p2p_credit || type == FrameType::cts) {
    if (header.payload_bytes != 0) return {};
    if (type == FrameType::p2p_credit) return channel_.place_buffered(peer);
  }
  if (is_envelope(header) && (!is_sound(header) || !channel_.count_eager(peer, header))) return {};
  Group* const group = groups_.find(header.group);
  // In a group that we have not made only messages come: we have asked for nothing.
  if (group == nullptr) {
    return is_envelope(header) || groups_.is_closed(header.group) ? channel_.place_buffered(peer)
                                                                  : std::span<std::byte>();
  }
  const int rank = group->rank_of(peer);
  if (rank < 0) return {};
  if (group->broken) return channel_.place_buffered(peer);
  std::span<std::byte> into;
  if (!matcher_of(*group).expects(rank, header, into)) return {};
  if (type == FrameType::p2p_data || !into.empty())
    return channel_.place_for(peer, *group->matcher, into);
  return channel_.place_buffered(peer);
}

void Engine::on_p2p_frame(int peer, const FrameHeader& header) {
  FrameOwner* const into = channel_.take_owner(peer);
  if (type_of(header) == FrameType::p2p_credit) {
    channel_.messages_acknowledged(peer, transport::decode<transport::P2PCreditFrame>(header));
    return;
  }
  Group* const group = groups_.find(header.group);
  if (group == nullptr && is_envelope(header) && !groups_.is_closed(header.group)) {
    channel_.keep_message(peer, header);
    return;
  }
  const int rank = group == nullptr || group->broken ? -1 : group->rank_of(peer);
  if (rank < 0) {  // perhaps the group was made meanwhile, without this peer
    channel_.consumed(peer, header);
    return;
  }
  const std::byte* const payload = channel_.arrived(peer).data();
  switch (type_of(header)) {
    case FrameType::eager_message:
    case FrameType::rts:
      matcher_of(*group).on_envelope(rank, header, into == nullptr ? payload : nullptr);
      break;
    case FrameType::cts:
      matcher_of(*group).on_cts(rank, transport::decode<transport::CtsFrame>(header));
      break;
    default:
      if (into != nullptr && into == group->matcher.get())
        group->matcher->on_data(rank, transport::decode<transport::P2PDataFrame>(header), payload);
      break;
  }
}

/// Takes the messages that came for a group before it was made here.
void Engine::adopt_early(Group& group) {
  for (int peer = 0; peer < channel_.size(); ++peer) {
    // First all out, as a mismatch breaks the group.
    for (const HeldFrames::Frame& held : channel_.take_messages(peer, group.id)) {
      const int rank = group.broken ? -1 : group.rank_of(peer);
      if (rank < 0)
        channel_.consumed(peer, held.header);
      else
        matcher_of(group).on_envelope(rank, held.header, held.data.data());
    }
  }
}

}  // namespace tutti::engine
