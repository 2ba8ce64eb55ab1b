#include "transport/shm/ring_transport.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "kernels/copy.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/ring_errors.hpp"
#include "transport/shm/words.hpp"

namespace tutti::transport::shm {

// Heads are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(FrameHeader) == kRingAlign && kRingBytes % kRingAlign == 0);

namespace {

constexpr std::size_t kPopulate = 64 * 1024;  // bytes of a ring that get pages together
// Publish the read position rarely: its cache line stays with the sender while little is under way.
// But never leave more than this unpublished, so that a sender without room sees room again.
constexpr std::size_t kSayTaken = 64 * 1024;
static_assert(kSayTaken + 2 * RingTransport::kMostFrame < RingTransport::kShortCycle);
// A sender without room has at least this much under way: see begin_of_next.
constexpr std::size_t kLeastFull =
    RingTransport::kShortCycle - 2 * RingTransport::kMostFrame - kRingAlign;
// A long payload is shown to the receiver in pieces, so that it copies one while we copy the next.
// Few pieces: each costs both ranks a cache line, and with non-temporal stores a fence that waits.
constexpr std::size_t kLeastPiece = 2 * 1024, kMostPiece = 16 * 1024;
// The most bytes from one peer in one poll, so that a thread that wants the driver lock gets it.
constexpr std::size_t kTakePerPoll = 256 * 1024;

constexpr std::uint64_t frame_bytes(std::uint32_t payload) noexcept {
  return (sizeof(FrameHeader) + payload + kRingAlign - 1) / kRingAlign * kRingAlign;
}

// Not inlined: for a number of bytes that it knows the compiler would choose `rep movs` with its
// slow start.
[[gnu::noinline]] void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::size_t place_of(std::uint64_t position) noexcept {
  return static_cast<std::size_t>(position % kRingBytes);
}

// The position of the next frame: here, or at the next begin of the ring if the frame would cross
// the end of the part that is used. After every frame there is room for a head of kSkipType.
std::uint64_t begin_of_next(std::uint64_t written, std::size_t cycle, std::size_t frame) noexcept {
  const std::size_t place = place_of(written);
  return place + frame + kRingAlign <= cycle ? written : written - place + kRingBytes;
}

}  // namespace

RingTransport::Peer::Peer(const Regions& regions, int local)
    : rank(regions.peers[static_cast<std::size_t>(local)].rank),
      region(&regions.peers[static_cast<std::size_t>(local)]),
      mine(&regions.control().ring_counters(local)),
      theirs(&region->control.ring_counters(regions.self)),
      out(regions.ring(local)),
      out_shorts(regions.shorts(local), mine, theirs),
      in(region->ring(regions.self)),
      in_shorts(region->shorts(regions.self), mine, theirs) {}

RingTransport::RingTransport(const RingOptions& options)
    : options_(options), index_of_(static_cast<std::size_t>(options.size), -1) {
  const Regions& regions = *options_.regions;
  peers_.reserve(regions.peers.size());
  for (std::size_t local = 0; local < regions.peers.size(); ++local) {
    if (static_cast<int>(local) == regions.self) continue;
    Peer peer(regions, static_cast<int>(local));
    index_of_[static_cast<std::size_t>(peer.rank)] = static_cast<int>(peers_.size());
    peers_.push_back(std::move(peer));
  }
}

Result<std::unique_ptr<RingTransport>> RingTransport::make(const RingOptions& options) {
  (void)bare();
  return std::unique_ptr<RingTransport>(new RingTransport(options));
}

bool RingTransport::can_send(int peer) noexcept {
  Peer* const to = peer_at(peer);
  if (to == nullptr) return false;
  // The next frame may be a largest one.
  const std::uint64_t end = begin_of_next(to->written, to->cycle, kMostFrame) + kMostFrame;
  if (to->gone || end - to->room_from <= kRingBytes) return true;
  const std::uint64_t taken = taken_by(*to->theirs);
  if (taken < to->room_from || taken > to->written) {
    break_rules(*to, "acknowledges bytes that were not sent");
    return true;
  }
  to->room_from = taken;
  return end - taken <= kRingBytes;
}

bool RingTransport::send(int peer, const FrameHeader& header, const std::byte* payload,
                         std::uint64_t /*token*/) noexcept {
  Peer* const to = peer_at(peer);
  if (to == nullptr || to->gone || closing_) return false;
  if (header.payload_bytes >= kLongPayload && to->cycle == kShortCycle) lengthen(*to);
  const std::uint64_t bytes = frame_bytes(header.payload_bytes);
  const std::uint64_t begin = begin_of_next(to->written, to->cycle, bytes);
  const bool skips = begin != to->written;
  const std::size_t place = place_of(begin);
  if (!populate(*to, skips ? place_of(to->written) + kRingAlign : place + bytes)) return false;
  if (skips) {
    FrameHeader skip;
    skip.type = kSkipType;
    std::memcpy(to->out + place_of(to->written), &skip, sizeof skip);
    if (!populate(*to, bytes)) return false;
  }
  std::byte* const at = to->out + place;
  const bool past = goes_non_temporal(*to, header.payload_bytes);
  const std::size_t quarter = header.payload_bytes / 4 / kRingAlign * kRingAlign;
  const std::size_t piece = past ? kMostPiece : std::clamp(quarter, kLeastPiece, kMostPiece);
  const auto put = [past](std::byte* there, const std::byte* from, std::size_t some) {
    if (past)
      kernels::copy_nt(there, from, some);
    else
      copy(there, from, some);
  };
  FrameHeader head = header;
  if (past) head.reserved = kNonTemporal;
  std::memcpy(at, &head, sizeof head);
  std::size_t copied = 0;
  for (; header.payload_bytes - copied > piece; copied += piece) {
    put(at + sizeof header + copied, payload + copied, piece);
    say_written(*to, begin + sizeof header + copied + piece);
  }
  put(at + sizeof header + copied, payload + copied, header.payload_bytes - copied);
  to->written = begin + bytes;
  say_written(*to, to->written);
  return true;
}

bool RingTransport::goes_non_temporal(Peer& to, std::size_t payload) noexcept {
  if (payload < CacheDistance::kLeastBytes) return false;
  // relaxed: a hint.
  return to.theirs->remote_cache.load(std::memory_order_relaxed) != 0 &&
         ++to.long_frames % CacheDistance::kProbeEvery != 0;
}

void RingTransport::lengthen(Peer& to) noexcept {
  if (long_rings_ >= kLongRings) return;
  ++long_rings_;
  to.cycle = long_cycle(options_.core_cache);
}

/// Makes sure that the ring has pages up to `end`. They stay.
bool RingTransport::populate(Peer& to, std::size_t end) noexcept {
  if (end <= to.populated) return true;
  const std::size_t upto =
      std::min<std::size_t>((end + kPopulate - 1) / kPopulate * kPopulate, kRingBytes);
  if (Outcome s = options_.populate(to.out + to.populated, upto - to.populated); !s.ok()) {
    lose(to, status_of(Errc::resource, [&] {
           return base::format("no room for messages to rank {}: {}", to.rank,
                               std::string_view(s.message()));
         }));
    return false;
  }
  to.populated = upto;
  return true;
}

void RingTransport::say_written(Peer& to, std::uint64_t word) noexcept {
  show_written(*to.mine, word);
  fence_if_needed(options_.publish_fence);
  wake_if_parked(*to.region);
}

void RingTransport::say_taken(Peer& from) noexcept {
  const std::uint64_t before = std::exchange(from.said_taken, from.taken);
  show_taken(*from.mine, from.taken);
  fence_if_needed(options_.publish_fence);
  if (may_wait_for_room(*from.theirs, before, kLeastFull)) wake_if_parked(*from.region);
}

bool RingTransport::poll() noexcept {
  if (sink_ == nullptr || closing_) return false;
  look_for_closed();
  bool moved = false;
  for (Peer& peer : peers_) moved |= look(peer);
  return moved;
}

/// A rank that has closed and has sent us nothing has left; what it has sent was written before.
inline void RingTransport::look_for_closed() noexcept {
  // acquire, here and below: pairs with close.
  const auto closings =
      options_.regions->control().words().closings.load(std::memory_order_acquire);
  if (closings == closings_) return;
  closings_ = closings;
  for (Peer& from : peers_) {
    const bool closed = from.region->words().closed.load(std::memory_order_acquire) != 0;
    if (closed && !from.gone && written_by(*from.theirs) == 0 && !from.in_shorts.expects())
      leave(from);
  }
}

bool RingTransport::poll_from(int peer) noexcept {
  Peer* const from = peer_at(peer);
  if (from == nullptr || sink_ == nullptr || closing_) return false;
  for (int i = 0; i < kLooks; ++i) {
    if (look(*from)) return true;
  }
  return false;
}

/// Takes what has come from this peer. True if something has.
inline bool RingTransport::look(Peer& from) noexcept {
  bool moved = false;
  if (!from.gone) {
    const std::uint64_t word = written_by(*from.theirs);
    // `written` before the line: what was sent before that frame is seen then.
    if (word != from.taken || (!from.inside && from.in_shorts.next(from.taken) != nullptr))
        [[unlikely]] {
      take(from, word);
      moved = true;
    }
  }
  if (from.gone && !from.told) [[unlikely]] {
    from.told = true;
    sink_->on_lost(from.rank, from.why);
    moved = true;
  }
  return moved;
}

/// Takes what has arrived from a peer, or a part of it if that is much.
void RingTransport::take(Peer& from, std::uint64_t word) noexcept {
  const std::uint64_t written = word & ~kLastWord;
  // Never trust numbers from a peer: these checks bound every access below.
  if (written % kRingAlign != 0 || written < from.taken || written - from.taken > kRingBytes) {
    break_rules(from, "announces more bytes than the ring holds");
    return;
  }
  const std::uint64_t begin = from.taken;
  while (from.taken - begin < kTakePerPoll) {
    if (!from.inside) take_shorts(from);
    if (from.gone) return;
    if (from.taken == written) break;
    if (!from.inside && !take_header(from, written)) return;
    if (from.inside && !take_payload(from, written)) return;
    if (from.taken - from.said_taken >= kSayTaken) say_taken(from);
  }
  if (from.taken == written && word != written) {
    if (from.inside) return break_rules(from, "left in the middle of a frame");
    take_shorts(from);  // the loop may have ended after the last frame
    if (from.gone) return;
    leave(from);
  }
}

void RingTransport::leave(Peer& from) noexcept {
  lose(from,
       status_of(Errc::peer_left, [&] { return base::format("rank {} has left", from.rank); }));
}

bool RingTransport::take_header(Peer& from, std::uint64_t written) noexcept {
  FrameHeader& header = from.header;  // a copy: later writes of the peer have no effect
  const std::size_t place = place_of(from.taken);
  std::memcpy(&header, from.in + place, sizeof header);
  if (header.type == kSkipType) {
    const std::uint64_t next = from.taken - place + kRingBytes;
    if (next >= written) {
      break_rules(from, "skips more than it wrote");
      return false;
    }
    from.taken = next;
    return true;
  }
  const auto type = static_cast<FrameType>(header.type);
  // A rank that leaves sets kLastWord, and sends no frame of type leave.
  if (type < kFirstFrameType || type > kLastFrameType || type == FrameType::leave ||
      (header.reserved & ~kNonTemporal) != 0) {
    break_rules(from, "sent a frame of an unknown type");
    return false;
  }
  if (header.payload_bytes > kMaxFramePayload ||
      place + frame_bytes(header.payload_bytes) > kRingBytes) {
    break_rules(from, "announced a frame that is longer than allowed");
    return false;
  }
  from.sample = header.payload_bytes >= CacheDistance::kLeastBytes && header.reserved == 0 &&
                (header.payload_bytes >= CacheDistance::kLargeBytes ||
                 ++from.in_cache % CacheDistance::kSampleEvery == 0);
  header.reserved = 0;
  const std::span<std::byte> target = sink_->on_header(from.rank, header);
  if (target.empty() || target.size() < header.payload_bytes) {
    lose(from, status_of(Errc::refused, [&] {
           return base::format(
               "rank {} sent a frame that fits nothing, or one too many (type {}, "
               "group {:016x}, operation {}): it is not listened to any more",
               from.rank, header.type, header.group, header.seq);
         }));
    return false;
  }
  from.inside = true;
  from.target = target.data();
  from.copied = 0;
  from.taken += sizeof header;
  return true;
}

/// Takes the part of the payload that has come. False: the peer is lost.
bool RingTransport::take_payload(Peer& from, std::uint64_t written) noexcept {
  const std::uint32_t rest = from.header.payload_bytes - from.copied;
  const std::uint64_t there = std::min<std::uint64_t>(rest, written - from.taken);
  if (from.sample && there >= CacheDistance::kLeastBytes) [[unlikely]]
    sample(from, from.in + place_of(from.taken));
  if (from.target != nullptr)
    copy(from.target + from.copied, from.in + place_of(from.taken), there);
  from.copied += static_cast<std::uint32_t>(there);
  // Both counters are multiples of kRingAlign, so the padding of the last piece has come with it.
  from.taken += (there + kRingAlign - 1) / kRingAlign * kRingAlign;
  if (there < rest) return true;
  from.inside = false;
  if (from.target != nullptr) sink_->on_frame(from.rank, from.header);
  return !from.gone;
}

void RingTransport::sample(Peer& from, const std::byte* payload) noexcept {
  from.sample = false;
  from.cache_distance.add(CacheDistance::read_one_line(payload, CacheDistance::kLeastBytes,
                                                       std::chrono::steady_clock::now),
                          from.mine->remote_cache);
}

void RingTransport::drop_arriving(int peer) noexcept {
  if (Peer* const from = peer_at(peer)) from->target = nullptr;
}

void RingTransport::close(std::uint64_t /*drain_ns*/) noexcept {
  if (std::exchange(closing_, true)) return;
  options_.regions->control().words().closed.store(1, std::memory_order_seq_cst);
  for (Peer& peer : peers_) {
    // relaxed: a peer that has left reads nothing any more.
    if (peer.region->words().left.load(std::memory_order_relaxed) != 0) continue;
    if (peer.written > 0 || peer.taken > 0 || peer.out_shorts.used() || peer.in_shorts.used()) {
      say_written(peer, peer.written | kLastWord);
      continue;
    }
    // Its line lies on a page that we have never touched.
    peer.region->control.words().closings.fetch_add(1, std::memory_order_seq_cst);
    fence_if_needed(options_.publish_fence);
    wake_if_parked(*peer.region);
  }
}

void RingTransport::break_rules(Peer& peer, const char* how) noexcept {
  lose(peer, status_of(Errc::refused, [&] {
         return base::format(
             "rank {} {}: it is not listened to any more; does it run another "
             "version of tutti, or is its memory damaged?",
             peer.rank, how);
       }));
}

void RingTransport::lose(Peer& peer, Outcome why) noexcept {
  peer.gone = true;
  peer.why = std::move(why.with_culprit(peer.rank));
}

}  // namespace tutti::transport::shm
