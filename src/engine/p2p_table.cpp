#include "engine/p2p_table.hpp"

#include <algorithm>

#include "engine/p2p_matcher.hpp"

namespace tutti::engine {

using transport::Envelope;
using transport::FrameHeader;
using transport::FrameType;

namespace {

/// The library's own tags follow those of callers on the wire.
constexpr std::uint64_t kMostTag = static_cast<std::uint32_t>(kFirstBackendTag + kBackendTags - 1);
static_assert(static_cast<std::uint32_t>(kLibraryTag) == 0x80000000);

// Checks the bound of the memory that unexpected messages of one peer take: a record for each, and
// their bytes in buffers of at most 8 times the size.
static_assert(kMatchCredit * (sizeof(UnexpectedMessage) + MatchQueues::kEach) +
                  8 * kMostEager.messages <=
              std::uint64_t{28} << 20);
static_assert(sizeof(HeldFrames::Frame) <=
              sizeof(UnexpectedMessage) + MatchQueues::kEach);  // without a group

/// True if the envelope of a message has possible values.
bool is_sound(const FrameHeader& header) noexcept {
  const auto envelope = transport::decode<Envelope>(header);
  if (envelope.dtype >= kDTypeCount || envelope.tag > kMostTag) return false;
  if (envelope.bytes > std::uint64_t{1} << 62) return false;
  if (envelope.bytes % size_of(static_cast<DType>(envelope.dtype)) != 0) return false;
  if (transport::type_of(header) == FrameType::rts) {
    if (header.payload_bytes != 0 || envelope.bytes == 0) return false;
    const auto rts = transport::decode<transport::RtsFrame>(header);
    if (rts.ahead == 0) return true;
    return rts.bytes > kEagerLimit && rts.ahead <= rts.bytes && !rts.on_gpu &&
           (rts.ahead == rts.bytes || rts.ahead % transport::kMaxFramePayload == 0);
  }
  return header.payload_bytes == envelope.bytes && envelope.bytes <= kEagerLimit;
}

}  // namespace

P2PTable::P2PTable(const P2PShared& shared, const GroupTable& groups)
    : shared_(shared), channel_(shared.channel), groups_(groups) {}

P2PMatcher& P2PTable::matcher_of(Group& group) {
  if (group.matcher == nullptr) {
    matchers_.reserve(matchers_.size() + 1);
    group.matcher.reset(new P2PMatcher(shared_, group));
    matchers_.push_back(group.matcher.get());
  }
  return *group.matcher;
}

std::uint64_t P2PTable::submit(Group& group, const Collective& call,
                               std::optional<std::uint64_t> record) noexcept {
  std::uint64_t ticket = kRefusedTicket;
  // relaxed: the driver lock is ours.
  if (group.broken.load(std::memory_order_relaxed)) return ticket;
  shared_.propagation.guarded(&group, [&] {
    P2PMatcher& matcher = group.matcher != nullptr ? *group.matcher : matcher_of(group);
    ticket = call.kind == Kind::send && matcher.send_short(call) ? kDoneTicket
                                                                 : matcher.submit(call, record);
  });
  return ticket;
}

bool P2PTable::may_take_short(const Group& group, const Collective& call) const noexcept {
  // relaxed: as above.
  return shared_.running == 0 && group.matcher != nullptr &&
         !group.broken.load(std::memory_order_relaxed) && group.matcher->may_take_short(call);
}

int P2PTable::only_sender(const Group& group, std::uint64_t ticket) const noexcept {
  return shared_.running == 1 && group.matcher != nullptr ? group.matcher->sender_of(ticket) : -1;
}

bool P2PTable::is_done(const Group& group, std::uint64_t ticket) noexcept {
  return group.matcher == nullptr || group.matcher->is_done(ticket);
}

bool P2PTable::may_have_failed(const Group& group, std::uint64_t ticket) noexcept {
  return group.matcher == nullptr || group.matcher->may_have_failed(ticket);
}

std::optional<Outcome> P2PTable::outcome(const Group& group, std::uint64_t ticket) noexcept {
  if (group.matcher == nullptr) return group.cause;  // broken before the first of them
  return group.matcher->outcome(ticket);
}

void P2PTable::on_done(Group& group, std::uint64_t ticket, Callback callback) {
  group.matcher->on_done(ticket, callback);
}

Received P2PTable::received(const Group& group, std::uint64_t ticket) noexcept {
  return group.matcher == nullptr ? Received() : group.matcher->received(ticket);
}

std::optional<ProbedMessage> P2PTable::probed(const Group& group, std::uint64_t ticket) noexcept {
  return group.matcher == nullptr ? std::nullopt : group.matcher->probed(ticket);
}

bool P2PTable::holds_message(const Group& group, std::uint64_t ticket) noexcept {
  return group.matcher != nullptr && group.matcher->holds_message(ticket);
}

Received P2PTable::release(Group& group, std::uint64_t ticket) noexcept {
  Received received;
  if (group.matcher == nullptr) return received;
  shared_.propagation.guarded(&group, [&] { received = group.matcher->release(ticket); });
  return received;
}

bool P2PTable::cancel(Group& group, std::uint64_t ticket) noexcept {
  bool cancelled = false;
  if (group.matcher == nullptr) return cancelled;
  shared_.propagation.guarded(&group, [&] { cancelled = group.matcher->cancel(ticket); });
  return cancelled;
}

std::string P2PTable::describe(const Group& group, std::uint64_t ticket) {
  return group.matcher == nullptr ? "group '" + group.name + "'" : group.matcher->describe(ticket);
}

bool P2PTable::push_all() {
  bool moved = false;
  for (std::size_t i = 0; i < matchers_.size(); ++i) {
    if (matchers_[i]->wants_to_push()) moved |= matchers_[i]->push();
  }
  // Another group comes first next time, so that none keeps a transport full for ever.
  if (moved && matchers_.size() > 1)
    std::rotate(matchers_.begin(), matchers_.begin() + 1, matchers_.end());
  return moved;
}

std::string P2PTable::running_text() {
  for (P2PMatcher* const matcher : matchers_) {
    if (std::string text = matcher->running_text(); !text.empty()) return text;
  }
  return {};
}

void P2PTable::tick(TimePoint now) {
  for (std::size_t i = 0; i < matchers_.size(); ++i) matchers_[i]->tick(now);
}

TimePoint P2PTable::next_deadline() const noexcept {
  TimePoint least = TimePoint::max();
  for (const P2PMatcher* const matcher : matchers_)
    least = std::min(least, matcher->next_deadline());
  return least;
}

void P2PTable::forget(Group& group) noexcept {
  if (group.matcher == nullptr) return;
  if (last_ == &group) last_ = nullptr;
  std::erase(matchers_, group.matcher.get());
  group.matcher.reset();
}

std::span<std::byte> P2PTable::place_of(int peer, const FrameHeader& header) {
  const FrameType type = type_of(header);
  if (type == FrameType::p2p_credit || type == FrameType::cts) {
    if (header.payload_bytes != 0) return {};
    if (type == FrameType::p2p_credit) return channel_.place_buffered(peer);
  }
  if (is_envelope(header) && (!is_sound(header) || !channel_.count_eager(peer, header))) return {};
  Group* const group = groups_.find(header.group);
  // In a group that we have not made only messages can come, and pieces ahead of a CTS.
  if (group == nullptr) {
    const bool allowed = is_envelope(header) || groups_.is_closed(header.group) ||
                         channel_.expects_piece(peer, header);
    return allowed ? channel_.place_buffered(peer) : std::span<std::byte>();
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

bool P2PTable::on_short(int peer, const transport::ShortHead& head,
                        const std::byte* payload) noexcept {
  Group* const group =
      last_ != nullptr && last_->id == head.group ? last_ : groups_.find(head.group);
  // relaxed: the driver lock is ours.
  if (group == nullptr || group->matcher == nullptr ||
      group->broken.load(std::memory_order_relaxed))
    return false;
  last_ = group;
  const int rank = group->rank_of(peer);
  const bool sound = head.dtype < kDTypeCount && head.tag <= kMostTag &&
                     head.bytes % size_of(static_cast<DType>(head.dtype)) == 0;
  if (rank < 0 || !sound || !group->matcher->is_next(rank, head.number)) return false;
  if (!channel_.count_short(peer, head.bytes)) return false;
  shared_.propagation.guarded(group, [&] { group->matcher->on_short(rank, head, payload); });
  return true;
}

void P2PTable::on_frame(int peer, const FrameHeader& header) {
  FrameOwner* const into = channel_.take_owner(peer);
  if (type_of(header) == FrameType::p2p_credit) {
    channel_.messages_acknowledged(peer, transport::decode<transport::P2PCreditFrame>(header));
    return;
  }
  Group* const group = groups_.find(header.group);
  if (group == nullptr && !groups_.is_closed(header.group)) {
    if (is_envelope(header))
      channel_.keep_message(peer, header);
    else if (channel_.expects_piece(peer, header))
      channel_.keep_piece(peer, header);
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
      matcher_of(*group).on_envelope(rank, header, into == nullptr ? payload : nullptr,
                                     header.payload_bytes);
      break;
    case FrameType::cts:
      matcher_of(*group).on_cts(rank, transport::decode<transport::CtsFrame>(header));
      break;
    default: {
      // Without an owner: the group was made after the head had come.
      const auto data = transport::decode<transport::P2PDataFrame>(header);
      if (group->matcher != nullptr &&
          (into == group->matcher.get() || (into == nullptr && data.ahead)))
        group->matcher->on_data(rank, data, payload);
      break;
    }
  }
}

void P2PTable::adopt_early(Group& group) {
  for (int peer = 0; peer < channel_.size(); ++peer) {
    // take_messages takes all of them at once, because a mismatch breaks the group.
    for (const HeldFrames::Frame& held : channel_.take_messages(peer, group.id)) {
      const int rank = group.broken ? -1 : group.rank_of(peer);
      if (rank < 0)
        channel_.consumed(peer, held.header);
      else
        matcher_of(group).on_envelope(rank, held.header, held.data.data(), held.data.size());
    }
  }
}

}  // namespace tutti::engine
