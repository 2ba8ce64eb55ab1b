#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.hpp"
#include "engine/p2p_matcher.hpp"

// Point to point, over all groups: which p2p_matcher a frame or a ticket belongs to, what may come
// unasked, and what comes before there is a group. docs/wire.md tells the rules.
namespace tutti::engine {

using transport::Envelope;
using transport::FrameHeader;
using transport::FrameType;

namespace {

constexpr std::uint64_t kMostTag = 0x80000000;  // one more than a caller may use
static_assert(static_cast<std::uint32_t>(kMonitoredBarrierTag) == kMostTag);

// What the letters of a peer take while they wait for their recvs, all in all: what is kept of
// each, and their bytes in buffers of at most 8 times the size.
static_assert(kMatchCredit * (sizeof(UnexpectedMessage) + MatchQueues::kEach) +
                  8 * kP2PEagerCredit <=
              std::uint64_t{16} << 20);
static_assert(sizeof(HeldFrames::Frame) <=
              sizeof(UnexpectedMessage) + MatchQueues::kEach);  // without a group

/// What its sender says of a message can be true.
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

void P2PMatcherDeleter::operator()(P2PMatcher* matcher) const noexcept { delete matcher; }

P2PMatcher& Engine::matcher_of(Group& group) {
  if (group.matcher == nullptr) {
    matchers_.reserve(matchers_.size() + 1);
    group.matcher.reset(new P2PMatcher(*this, group));
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

void Engine::release_unexpected(const P2PMatcher& matcher, std::size_t peer) noexcept {
  Peer& with = peers_[peer];
  bool any = false;
  for (OutFrame& frame : with.out) {
    if (frame.matcher != &matcher) continue;
    frame.matcher = nullptr;
    any = true;
  }
  if (any) world_.route[peer]->keep_payloads(static_cast<int>(peer));
  if (with.into_matcher != &matcher) return;
  world_.route[peer]->drop_arriving(static_cast<int>(peer));
  with.into_matcher = nullptr;
  // Nobody will tell of its end: what it counted is free again.
  if (is_envelope(with.arriving))
    took_eager(static_cast<int>(peer), unexpected_cost(with.arriving.payload_bytes));
}

void Engine::took_eager(int global, std::uint64_t cost) noexcept {
  Peer& to = peers_[static_cast<std::size_t>(global)];
  to.matches.take(1);
  to.eager_messages.take(cost);
  if (!to.matches.report_due() && !to.eager_messages.report_due()) return;
  if (to.lost || to.left) return;
  const FrameHeader header =
      encode(transport::P2PCreditFrame{to.matches.taken(), to.eager_messages.taken()});
  // Not dropped where the queue is long: who waits for it would wait for ever. But one says what
  // those before it said, so of a peer that floods us and reads nothing no more than one waits.
  const auto waits = std::find_if(to.control.begin(), to.control.end(), [&](const Control& one) {
    return one.header.type == header.type;
  });
  try {
    if (waits != to.control.end())
      waits->header = header;
    else
      push_control(global, {header, {}});
    to.matches.reported();
    to.eager_messages.reported();
    flush_control(global);
  } catch (const std::bad_alloc&) {  // the next report says it
  }
}

bool Engine::expects_p2p(int peer, const FrameHeader& header, std::span<std::byte>& into) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.into_matcher = nullptr;
  const FrameType type = type_of(header);
  if (type == FrameType::p2p_credit) return header.payload_bytes == 0;
  if (type == FrameType::cts && header.payload_bytes != 0) return false;
  if (is_envelope(header)) {
    if (!is_sound(header)) return false;
    const bool within = from.matches.receive(1);
    if (!from.eager_messages.receive(unexpected_cost(header.payload_bytes)) || !within)
      return false;
  }
  Group* const group = group_of(header.group);
  // In a group that we have not made only messages come: we have asked for nothing.
  if (group == nullptr) return is_envelope(header) || is_closed(header.group);
  const int rank = rank_of(*group, peer);
  if (rank < 0) return false;
  if (group->broken) return true;
  if (!matcher_of(*group).expects(rank, header, into)) return false;
  if (type == FrameType::p2p_data || !into.empty()) from.into_matcher = group->matcher.get();
  return true;
}

void Engine::on_p2p_frame(int peer, const FrameHeader& header) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  P2PMatcher* const into = std::exchange(from.into_matcher, nullptr);
  if (type_of(header) == FrameType::p2p_credit) {
    const auto [messages, bytes] = transport::decode<transport::P2PCreditFrame>(header);
    from.matches.acknowledge(messages);
    from.eager_messages.acknowledge(bytes);
    return;
  }
  Group* const group = group_of(header.group);
  const std::uint64_t cost = is_envelope(header) ? unexpected_cost(header.payload_bytes) : 0;
  if (group == nullptr && is_envelope(header) && !is_closed(header.group)) {
    const std::byte* const data = from.buffer.data();
    from.early.push_back({header, std::vector<std::byte>(data, data + header.payload_bytes)});
    return;
  }
  if (group == nullptr || group->broken) {
    if (is_envelope(header)) took_eager(peer, cost);
    return;
  }
  const int rank = rank_of(*group, peer);
  if (rank < 0) {  // the group was made meanwhile, without this peer
    if (is_envelope(header)) took_eager(peer, cost);
    return;
  }
  switch (type_of(header)) {
    case FrameType::eager_message:
    case FrameType::rts:
      matcher_of(*group).on_envelope(rank, header, into == nullptr ? from.buffer.data() : nullptr);
      break;
    case FrameType::cts:
      matcher_of(*group).on_cts(rank, transport::decode<transport::CtsFrame>(header));
      break;
    default:
      if (into != nullptr && into == group->matcher.get())
        into->on_data(rank, transport::decode<transport::P2PDataFrame>(header), from.buffer.data());
      break;
  }
}

/// What came for a group before it was made here.
void Engine::adopt_early(Group& group) {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    std::deque<HeldFrames::Frame>& early = peers_[p].early;
    if (early.empty()) continue;
    const int rank = rank_of(group, static_cast<int>(p));
    // First all out, as a mismatch breaks the group.
    std::vector<HeldFrames::Frame> ours;
    for (HeldFrames::Frame& held : early) {
      if (held.header.group == group.id) ours.push_back(std::move(held));
    }
    std::erase_if(early,
                  [&](const HeldFrames::Frame& held) { return held.header.group == group.id; });
    for (const HeldFrames::Frame& held : ours) {
      if (rank < 0 || group.broken)
        took_eager(static_cast<int>(p), unexpected_cost(held.header.payload_bytes));
      else
        matcher_of(group).on_envelope(rank, held.header, held.data.data());
    }
  }
}

}  // namespace tutti::engine
