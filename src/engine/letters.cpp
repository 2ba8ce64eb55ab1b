#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.hpp"
#include "engine/mailbox.hpp"

// Point to point, over all groups: which mailbox a frame or a ticket belongs to, what may come
// unasked, and what comes before there is a group. docs/wire.md tells the rules.
namespace tutti::engine {

using transport::FrameHeader;
using transport::FrameType;

namespace {

constexpr std::uint64_t kMostTag = 0x80000000;  // one more than a caller may use
static_assert(static_cast<std::uint32_t>(kMonitoredBarrierTag) == kMostTag);

// What the letters of a peer take while they wait for their recvs, all in all: what is kept of
// each, and their bytes in buffers of at most 8 times the size.
static_assert(kLetters * (sizeof(Arrival) + Shelves::kEach) + 8 * kUnaskedPool <= std::uint64_t{16}
                                                                                      << 20);
static_assert(sizeof(HeldFrames::Frame) <= sizeof(Arrival) + Shelves::kEach);  // without a group

bool is_letter(const FrameHeader& header) noexcept {
  return static_cast<FrameType>(header.type) == FrameType::p2p_letter;
}

/// What its sender says of a message can be true.
bool is_sound(const FrameHeader& header) noexcept {
  if (header.call[0] >= kDTypeCount || header.call[1] > kMostTag || header.offset != 0)
    return false;
  if (header.call[2] > std::uint64_t{1} << 62) return false;
  if (header.call[2] % size_of(static_cast<DType>(header.call[0])) != 0) return false;
  if (header.payload_bytes == 0) return true;
  return header.payload_bytes == header.call[2] && header.payload_bytes <= kUnasked;
}

}  // namespace

void MailboxDeleter::operator()(Mailbox* mail) const noexcept { delete mail; }

Mailbox& Engine::mail_of(Group& group) {
  if (group.mail == nullptr) {
    mail_.reserve(mail_.size() + 1);
    group.mail.reset(new Mailbox(*this, group));
    mail_.push_back(group.mail.get());
  }
  return *group.mail;
}

std::uint64_t Engine::submit_transfer(Group& group, const Collective& call) {
  if (group.broken.load(std::memory_order_relaxed)) return kRefusedTicket;  // the token is ours
  return mail_of(group).submit(call);
}

bool Engine::transfer_done(Group& group, std::uint64_t ticket) noexcept {
  return group.mail == nullptr || group.mail->is_done(ticket);
}

std::optional<Status> Engine::transfer_outcome(Group& group, std::uint64_t ticket) noexcept {
  if (group.mail == nullptr) return group.cause;  // broken before the first of them
  return group.mail->outcome(ticket);
}

int Engine::source(Group& group, std::uint64_t ticket) noexcept {
  return is_transfer(ticket) && group.mail != nullptr ? group.mail->source(ticket) : -1;
}

int Engine::release(Group& group, std::uint64_t ticket) noexcept {
  if (!is_transfer(ticket) || group.mail == nullptr) return -1;
  const int source = group.mail->source(ticket);
  group.mail->release(ticket);
  return source;
}

bool Engine::push_letters() {
  bool moved = false;
  for (std::size_t i = 0; i < mail_.size(); ++i) {
    if (mail_[i]->wants_to_push()) moved |= mail_[i]->push();
  }
  // Another group is the first next time: none fills a transport for ever.
  if (moved && mail_.size() > 1) std::rotate(mail_.begin(), mail_.begin() + 1, mail_.end());
  return moved;
}

void Engine::tick_letters(TimePoint now) {
  for (std::size_t i = 0; i < mail_.size(); ++i) mail_[i]->tick(now);
}

void Engine::forget_mail(Group& group) noexcept {
  if (group.mail == nullptr) return;
  std::erase(mail_, group.mail.get());
  group.mail.reset();
}

void Engine::release_letters(const Mailbox& mail, std::size_t peer) noexcept {
  Peer& with = peers_[peer];
  bool any = false;
  for (OutFrame& frame : with.out) {
    if (frame.mail != &mail) continue;
    frame.mail = nullptr;
    any = true;
  }
  if (any) world_.route[peer]->keep_payloads(static_cast<int>(peer));
  if (with.into_mail != &mail) return;
  world_.route[peer]->drop_arriving(static_cast<int>(peer));
  with.into_mail = nullptr;
  // Nobody will tell of its end: what it counted is free again.
  if (is_letter(with.arriving))
    took_letter(static_cast<int>(peer), letter_cost(with.arriving.payload_bytes));
}

void Engine::took_letter(int global, std::uint64_t cost) noexcept {
  Postage& post = peers_[static_cast<std::size_t>(global)].post;
  ++post.taken_letters;
  post.taken_bytes += cost;
  if (post.taken_letters - post.reported_letters < kLettersReport &&
      post.taken_bytes - post.reported_bytes < kUnaskedReport)
    return;
  Peer& to = peers_[static_cast<std::size_t>(global)];
  if (to.lost || to.left) return;
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(FrameType::p2p_credit);
  header.offset = post.taken_bytes;
  header.call[0] = post.taken_letters;
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
    post.reported_letters = post.taken_letters;
    post.reported_bytes = post.taken_bytes;
    flush_control(global);
  } catch (const std::bad_alloc&) {  // the next report says it
  }
}

bool Engine::expects_letter(int peer, const FrameHeader& header, std::span<std::byte>& into) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.into_mail = nullptr;
  const auto type = static_cast<FrameType>(header.type);
  if (type == FrameType::p2p_credit && (header.group == 0 || header.payload_bytes != 0))
    return header.payload_bytes == 0;
  if (type == FrameType::p2p_letter) {
    if (!is_sound(header)) return false;
    Postage& post = from.post;
    ++post.seen_letters;
    if (header.payload_bytes > 0) post.seen_bytes += letter_cost(header.payload_bytes);
    if (post.seen_letters - post.reported_letters > kLetters ||
        post.seen_bytes - post.reported_bytes > kUnaskedPool)
      return false;
  }
  Group* const group = group_of(header.group);
  // Nobody has asked us for anything in a group that we have not made: letters only.
  if (group == nullptr) return type == FrameType::p2p_letter || is_closed(header.group);
  const int rank = rank_of(*group, peer);
  if (rank < 0) return false;
  if (group->broken) return true;
  if (!mail_of(*group).expects(rank, header, into)) return false;
  if (type == FrameType::p2p_data || !into.empty()) from.into_mail = group->mail.get();
  return true;
}

void Engine::on_letter_frame(int peer, const FrameHeader& header) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  Mailbox* const into = std::exchange(from.into_mail, nullptr);
  if (static_cast<FrameType>(header.type) == FrameType::p2p_credit && header.group == 0) {
    Postage& post = from.post;
    post.acked_bytes = std::max(post.acked_bytes, std::min(header.offset, post.sent_bytes));
    post.acked_letters = std::max(post.acked_letters, std::min(header.call[0], post.sent_letters));
    return;
  }
  Group* const group = group_of(header.group);
  const std::uint64_t cost = is_letter(header) ? letter_cost(header.payload_bytes) : 0;
  if (group == nullptr && is_letter(header) && !is_closed(header.group)) {
    const std::byte* const data = from.buffer.data();
    from.early.push_back({header, std::vector<std::byte>(data, data + header.payload_bytes)});
    return;
  }
  if (group == nullptr || group->broken) {
    if (is_letter(header)) took_letter(peer, cost);
    return;
  }
  const int rank = rank_of(*group, peer);
  if (rank < 0) {  // the group was made meanwhile, without this peer
    if (is_letter(header)) took_letter(peer, cost);
    return;
  }
  switch (static_cast<FrameType>(header.type)) {
    case FrameType::p2p_letter:
      mail_of(*group).on_letter(rank, header, into == nullptr ? from.buffer.data() : nullptr);
      break;
    case FrameType::p2p_credit: mail_of(*group).on_credit(rank, header); break;
    default:
      if (into != nullptr && into == group->mail.get())
        into->on_data(rank, header, from.buffer.data());
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
        took_letter(static_cast<int>(p), letter_cost(held.header.payload_bytes));
      else
        mail_of(group).on_letter(rank, held.header, held.data.data());
    }
  }
}

}  // namespace tutti::engine
