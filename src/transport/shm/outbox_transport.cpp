#include "transport/shm/outbox_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "transport/shm/doorbell.hpp"

namespace tutti::transport::shm {

// Heads are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(FrameHeader) == kOutboxAlign && kOutboxBytes % kOutboxAlign == 0);

namespace {

constexpr std::size_t kPopulate = 64 * 1024;  // of a ring, at a time
// What was taken is said so late that the line with it stays at the sender while little is under
// way, and so early that a sender that sees no room for a frame will hear of it: after everything
// is taken it misses less than this.
constexpr std::size_t kSayTaken = 64 * 1024;
static_assert(kSayTaken < OutboxTransport::kFull);
// From one peer in one poll, so that whoever wants the token gets it soon.
constexpr std::size_t kTakePerPoll = 256 * 1024;

constexpr std::uint64_t frame_bytes(std::uint32_t payload) noexcept {
  return (sizeof(FrameHeader) + payload + kOutboxAlign - 1) / kOutboxAlign * kOutboxAlign;
}

void copy_in(std::byte* ring, std::uint64_t at, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const auto begin = static_cast<std::size_t>(at % kOutboxBytes);
  const std::size_t first = std::min(bytes, kOutboxBytes - begin);
  std::memcpy(ring + begin, from, first);
  if (first < bytes) std::memcpy(ring, from + first, bytes - first);
}

void copy_out(std::byte* to, const std::byte* ring, std::uint64_t at, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const auto begin = static_cast<std::size_t>(at % kOutboxBytes);
  const std::size_t first = std::min(bytes, kOutboxBytes - begin);
  std::memcpy(to, ring + begin, first);
  if (first < bytes) std::memcpy(to + first, ring, bytes - first);
}

}  // namespace

OutboxTransport::OutboxTransport(const OutboxOptions& options)
    : options_(options), index_of_(static_cast<std::size_t>(options.size), -1) {
  const Regions& regions = *options_.regions;
  for (std::size_t local = 0; local < regions.peers.size(); ++local) {
    if (static_cast<int>(local) == regions.self) continue;
    const RegionPeer& region = regions.peers[local];
    Peer peer;
    peer.rank = region.rank;
    peer.region = &region;
    peer.mine = &regions.mail(static_cast<int>(local));
    peer.out = regions.outbox(static_cast<int>(local));
    peer.theirs = &region.mail(regions.self);
    peer.in = region.outbox(regions.self);
    index_of_[static_cast<std::size_t>(peer.rank)] = static_cast<int>(peers_.size());
    peers_.push_back(std::move(peer));
  }
}

Result<std::unique_ptr<OutboxTransport>> OutboxTransport::make(const OutboxOptions& options) {
  const Regions& regions = *options.regions;
  const std::size_t lines = regions.peers.size() * sizeof(Mail);
  if (Status s =
          options.populate(regions.arena + kMailOffset, (lines + 4095) / std::size_t{4096} * 4096);
      !s.ok()) {
    return s;
  }
  return std::unique_ptr<OutboxTransport>(new OutboxTransport(options));
}

bool OutboxTransport::can_send(int peer) noexcept {
  Peer* const to = peer_at(peer);
  if (to == nullptr) return false;
  if (to->gone || to->written - to->room_from <= kFull) return true;
  // acquire: pairs with say_taken; its reads of the ring lie before it.
  const std::uint64_t taken = to->theirs->taken.load(std::memory_order_acquire);
  if (taken < to->room_from || taken > to->written) {
    break_rules(*to, "says that it took what was not sent");
    return true;
  }
  to->room_from = taken;
  return to->written - taken <= kFull;
}

void OutboxTransport::send(int peer, const FrameHeader& header, const std::byte* payload,
                           std::uint64_t token) noexcept {
  Peer* const to = peer_at(peer);
  if (to == nullptr || to->gone || closing_) return;
  const std::uint64_t bytes = frame_bytes(header.payload_bytes);
  const std::uint64_t end =
      std::min<std::uint64_t>(to->written % kOutboxBytes + bytes, kOutboxBytes);
  if (end > to->populated) {  // the ring is taken into use once, from its begin to its end
    const std::size_t upto =
        std::min<std::size_t>((end + kPopulate - 1) / kPopulate * kPopulate, kOutboxBytes);
    if (Status s = options_.populate(to->out + to->populated, upto - to->populated); !s.ok()) {
      lose(*to, Status(s.code(), fmt::format("no room for messages to rank {}: {}", peer,
                                             std::string_view(s.message()))));
      return;
    }
    to->populated = upto;
  }
  copy_in(to->out, to->written, reinterpret_cast<const std::byte*>(&header), sizeof header);
  copy_in(to->out, to->written + sizeof header, payload, header.payload_bytes);
  to->written += bytes;
  to->token = token;
  say_written(*to, to->written);
}

void OutboxTransport::say_written(Peer& to, std::uint64_t word) noexcept {
  to.mine->written.store(word, std::memory_order_release);  // pairs with poll
  // A full fence, as in Engine::ring_all.
  if (options_.publish_fence) __sync_synchronize();
  ring(*to.region);
}

void OutboxTransport::say_taken(Peer& from) noexcept {
  const std::uint64_t before = std::exchange(from.said_taken, from.taken);
  from.mine->taken.store(from.taken, std::memory_order_release);  // pairs with can_send
  if (options_.publish_fence) __sync_synchronize();
  // Does it wait for room, and has it that now? Then it has seen `before`, and whatever it wrote
  // lies before its fence. relaxed: ordered as the park word (ring).
  const std::uint64_t written = from.theirs->written.load(std::memory_order_relaxed) & ~kLastWord;
  if (written - before > kFull && written - from.taken <= kFull) ring(*from.region);
}

bool OutboxTransport::poll() noexcept {
  if (sink_ == nullptr || closing_) return false;
  bool moved = false;
  for (Peer& peer : peers_) {
    if (peer.token != peer.told_token) {
      peer.told_token = peer.token;
      sink_->on_sent(peer.rank, peer.told_token);
      moved = true;
    }
    if (!peer.gone) {
      // acquire: pairs with say_written; the frames lie before it.
      const std::uint64_t word = peer.theirs->written.load(std::memory_order_acquire);
      if (word != peer.taken) [[unlikely]] {
        take(peer, word);
        moved = true;
      }
    }
    if (peer.gone && !peer.told) [[unlikely]] {
      peer.told = true;
      sink_->on_lost(peer.rank, peer.why);
      moved = true;
    }
  }
  return moved;
}

/// Takes what has arrived from a peer, or a part of it if that is much.
void OutboxTransport::take(Peer& from, std::uint64_t word) noexcept {
  const std::uint64_t written = word & ~kLastWord;
  // Nothing that a peer writes is believed: these bound every access below.
  if (written % kOutboxAlign != 0 || written < from.taken || written - from.taken > kOutboxBytes) {
    break_rules(from, "says that it sent more than there is room for");
    return;
  }
  const std::uint64_t begin = from.taken;
  while (from.taken != written && from.taken - begin < kTakePerPoll) {
    if (!take_frame(from, written)) return;
    if (from.taken - from.said_taken >= kSayTaken) say_taken(from);
  }
  if (from.taken == written && word != written) {
    lose(from, Status(Errc::peer_left, fmt::format("rank {} has left", from.rank)));
  }
}

bool OutboxTransport::take_frame(Peer& from, std::uint64_t written) noexcept {
  FrameHeader header;  // a copy: what a peer changes behind our back changes nothing here
  std::memcpy(&header, from.in + from.taken % kOutboxBytes, sizeof header);
  const auto type = static_cast<FrameType>(header.type);
  // Leaving is told by the counters of the outbox, not by a frame.
  if (type < kFirstFrameType || type > kLastFrameType || type == FrameType::leave ||
      header.reserved != 0) {
    break_rules(from, "sent a frame of an unknown type");
    return false;
  }
  if (header.payload_bytes > kMaxFramePayload ||
      frame_bytes(header.payload_bytes) > written - from.taken) {
    break_rules(from, "announced a frame that is longer than allowed, or than what it sent");
    return false;
  }
  const std::span<std::byte> target = sink_->on_header(from.rank, header);
  if (target.empty() || target.size() < header.payload_bytes) {
    lose(from, Status(Errc::refused,
                      fmt::format("rank {} sent a frame that fits nothing (type {}, group {:016x}, "
                                  "operation {}): it is not listened to any more",
                                  from.rank, header.type, header.group, header.seq)));
    return false;
  }
  copy_out(target.data(), from.in, from.taken + sizeof header, header.payload_bytes);
  from.taken += frame_bytes(header.payload_bytes);
  sink_->on_frame(from.rank, header);
  return !from.gone;
}

void OutboxTransport::close(std::uint64_t /*drain_ns*/) noexcept {
  if (std::exchange(closing_, true)) return;
  for (Peer& peer : peers_) say_written(peer, peer.written | kLastWord);
}

void OutboxTransport::break_rules(Peer& peer, const char* how) noexcept {
  lose(peer, Status(Errc::refused,
                    fmt::format("rank {} {}: it is not listened to any more; does it run another "
                                "version of tutti, or is its memory damaged?",
                                peer.rank, how)));
}

void OutboxTransport::lose(Peer& peer, Status why) noexcept {
  peer.gone = true;
  peer.why = std::move(why.with_culprit(peer.rank));
}

}  // namespace tutti::transport::shm
