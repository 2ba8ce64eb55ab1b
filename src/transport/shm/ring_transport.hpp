#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <tutti/error.hpp>

#include "transport/region.hpp"
#include "transport/shm/cache_distance.hpp"
#include "transport/shm/short_messages.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::shm {

struct RingOptions {
  const Regions* regions = nullptr;  ///< of our host; they outlive the transport
  int size = 1;                      ///< of the world
  /// Allocates the pages, or returns an error if memory is short.
  std::function<Outcome(std::byte* data, std::size_t size)> populate;
  bool publish_fence = false;  ///< sleepers cannot fence for us (see engine::World)
  std::size_t core_cache = std::size_t{1} << 20;  ///< os::core_cache_bytes
};

/// Frames between the ranks of one host, through rings in their arenas: the sender writes a ring in
/// its arena, the receiver publishes in its own how far it has read. No system call, except to wake
/// a peer that sleeps. Short messages have lines of their own behind the ring; each says how much
/// of the ring comes before it.
///
/// send copies the payload, so it is free at once, and on_sent is never called. The receiver
/// copies a long one while it is still being written, so a frame may arrive over several polls.
/// Host::ended reports the death of a peer; what the peer had sent can be read as long as the
/// memory is mapped.
///
/// Like every Transport it belongs to the holder of the driver lock. Before sleeping: set our park
/// word, fence, and poll() once more; a peer that sends or frees room wakes us.
class RingTransport final : public Transport {
 public:
  static Result<std::unique_ptr<RingTransport>> make(const RingOptions& options);

  static constexpr std::size_t kMostFrame = sizeof(FrameHeader) + kMaxFramePayload;
  /// The part of a ring that is used while only short frames pass: it stays in the caches.
  static constexpr std::size_t kShortCycle = 512 * 1024;
  /// From a payload of this size on more of the ring is used. A line that the reader still has in
  /// the cache of its core is up to 20 times as expensive to write as one that has left it
  /// (measured: 64 KiB there and back 15 us in a ring of 512 KiB, 7 us in one of 4 MiB; caches of 1
  /// MiB). A line that has left the cache which all cores share is expensive for both ranks
  /// (measured: 2 MiB there and back 390 us in a ring of 4 MiB, 230 us in one of 1 MiB; caches of
  /// 512 KiB).
  static constexpr std::size_t kLongPayload = 8 * 1024;
  [[nodiscard]] static constexpr std::size_t long_cycle(std::size_t core_cache) noexcept {
    return std::clamp(2 * core_cache / kRingAlign * kRingAlign, kShortCycle, kRingBytes);
  }
  /// At most this many rings are used so, because it costs memory.
  static constexpr int kLongRings = 8;

  [[nodiscard]] const char* name() const noexcept override { return "ring"; }
  void set_sink(Sink* sink) noexcept override { sink_ = sink; }
  [[nodiscard]] bool can_send(int peer) noexcept override;
  bool send(int peer, const FrameHeader& header, const std::byte* payload,
            std::uint64_t token) noexcept override;
  bool send_short(int peer, const ShortHead& head, const std::byte* payload) noexcept override;
  [[nodiscard]] ShortLook take_short(int peer, const ShortHead& head,
                                     std::byte* into) noexcept override;
  /// Nothing to do: no payload is read after send.
  void keep_payloads(int /*peer*/) noexcept override {}
  void drop_arriving(int peer) noexcept override;
  bool poll() noexcept override;
  bool poll_from(int peer) noexcept override;
  /// None: peers wake the thread that sleeps for this rank.
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }
  /// Publishes that no frame follows. Waits for nobody: frames can be read after our end.
  void close(std::uint64_t drain_ns) noexcept override;

 private:
  struct Peer {
    Peer(const Regions& regions, int local);
    int rank;                  ///< of the world
    const RegionPeer* region;  ///< wakes it
    RingCounters* mine;
    const RingCounters* theirs;
    // Frames to this peer.
    std::byte* out;
    ShortWriter out_shorts;
    std::uint64_t written = 0;
    std::uint64_t room_from = 0;      ///< `taken` of the peer, as last seen
    std::size_t cycle = kShortCycle;  ///< bytes of the ring that are used
    std::size_t populated = 0;        ///< bytes of the ring that have pages
    std::uint64_t long_frames = 0;    ///< sent frames that might have used non-temporal stores
    // Frames from this peer.
    const std::byte* in;
    ShortReader in_shorts;
    std::uint64_t taken = 0;
    std::uint64_t said_taken = 0;  ///< the last `taken` that we have published
    bool inside = false;           ///< a frame arrives: `header`, and `copied` bytes so far
    FrameHeader header;
    std::byte* target = nullptr;  ///< of its payload; null: it is dropped
    std::uint32_t copied = 0;
    std::uint64_t in_cache = 0;          ///< frames that might have been sampled
    bool sample = false;                 ///< the frame that arrives is to be sampled
    CacheDistance cache_distance{true};  ///< the result of the samples
    bool gone = false;                   ///< left, lost or refused: `why`
    bool told = false;
    Outcome why;
  };

  /// Looks at one peer in a poll: the way to the next poll takes longer than several of them.
  static constexpr int kLooks = 8;

  explicit RingTransport(const RingOptions& options);
  [[nodiscard]] Peer* peer_at(int rank) noexcept {
    const int at = index_of_[static_cast<std::size_t>(rank)];
    return at < 0 ? nullptr : &peers_[static_cast<std::size_t>(at)];
  }
  bool look(Peer& from) noexcept;
  void look_for_closed() noexcept;
  void take(Peer& from, std::uint64_t word) noexcept;
  void take_shorts(Peer& from) noexcept;
  [[nodiscard]] bool take_header(Peer& from, std::uint64_t written) noexcept;
  [[nodiscard]] bool take_payload(Peer& from, std::uint64_t written) noexcept;
  /// Should this frame be written with non-temporal stores?
  [[nodiscard]] static bool goes_non_temporal(Peer& to, std::size_t payload) noexcept;
  static void sample(Peer& from, const std::byte* payload) noexcept;
  void lengthen(Peer& to) noexcept;
  [[nodiscard]] bool populate(Peer& to, std::size_t end) noexcept;
  void say_taken(Peer& from) noexcept;
  void say_written(Peer& to, std::uint64_t word) noexcept;
  void break_rules(Peer& peer, const char* how) noexcept;
  static void leave(Peer& from) noexcept;
  static void lose(Peer& peer, Outcome why) noexcept;

  RingOptions options_;
  Sink* sink_ = nullptr;
  bool closing_ = false;
  int long_rings_ = 0;
  std::uint32_t closings_ = 0;  ///< RankWords::closings, as last seen
  std::vector<Peer> peers_;     ///< all ranks of our host but us
  std::vector<int> index_of_;   ///< in peers_, by rank of the world; -1: not there
};

}  // namespace tutti::transport::shm
