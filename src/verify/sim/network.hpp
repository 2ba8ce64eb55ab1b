#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/index.hpp"
#include "transport/transport.hpp"
#include "verify/sim/random.hpp"

namespace tutti::verify::sim {

using transport::FrameHeader;
using transport::FrameType;
using transport::Sink;
using transport::Transport;

using TimePoint = std::chrono::steady_clock::time_point;
using std::chrono::nanoseconds;

/// One direction between two ranks.
struct LinkOptions {
  nanoseconds latency{20'000};
  nanoseconds jitter{10'000};  ///< at most so much is added
  std::size_t bytes_per_microsecond = 1000;
  std::size_t unsent_bytes = 128 * 1024;  ///< can_send is false from here on
  std::size_t window_bytes = 256 * 1024;  ///< on the wire, and arrived but not read
  int pieces = 3;                         ///< a payload arrives in at most so many
};

class Network;

/// The end of the network at one rank.
class SimTransport final : public Transport {
 public:
  SimTransport(Network& network, int rank) noexcept : network_(network), rank_(rank) {}

  [[nodiscard]] const char* name() const noexcept override { return "simulated"; }
  void set_sink(Sink* sink) noexcept override { sink_ = sink; }
  [[nodiscard]] bool can_send(int peer) noexcept override;
  bool send(int peer, const FrameHeader& header, const std::byte* payload,
            std::uint64_t token) noexcept override;
  void keep_payloads(int peer) noexcept override;
  void drop_arriving(int peer) noexcept override;
  bool poll() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }
  [[nodiscard]] bool is_unanswered(int peer) const noexcept override;
  void close(std::uint64_t drain_ns) noexcept override;

 private:
  Network& network_;
  int rank_;
  Sink* sink_ = nullptr;
};

/// A network in virtual time: everything that happens follows from the seed and from the order of
/// the calls. One thread; the caller of the simulation drives the ranks.
class Network {
 public:
  Network(int ranks, std::uint64_t seed);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// The virtual time of this thread's simulation.
  [[nodiscard]] static TimePoint now() noexcept;
  [[nodiscard]] SimTransport& transport(int rank) noexcept { return base::at(ends_, rank); }
  void set_links(const LinkOptions& options) noexcept;

  void advance_to(TimePoint when) noexcept;
  /// When something moves next without anybody's help; max() if nothing will.
  [[nodiscard]] TimePoint next_event() const noexcept;

  /// The way between two ranks is cut; both notice that nothing answers within `within`.
  void drop(int a, int b, nanoseconds within) noexcept;
  /// A rank is gone: what it had sent arrives or not; the others hear of it within `within`.
  void kill(int rank, nanoseconds within) noexcept;

  /// A hash over everything that happened so far.
  [[nodiscard]] std::uint64_t trace() const noexcept { return trace_; }
  void note(std::uint64_t what) noexcept;
  /// Frames that were refused by their receiver, or came when can_send was false.
  [[nodiscard]] int violations() const noexcept { return violations_; }
  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }

 private:
  friend class SimTransport;

  struct Frame {
    FrameHeader header;
    const std::byte* payload = nullptr;
    std::vector<std::byte> kept;
    std::uint64_t token = 0;
    std::size_t departed = 0;  ///< bytes of payload
    bool head_departed = false;
  };
  struct Piece {
    TimePoint arrives;
    bool head = false;
    FrameHeader header;
    std::vector<std::byte> data;
    [[nodiscard]] std::size_t bytes() const noexcept {
      return head ? sizeof(FrameHeader) : data.size();
    }
  };
  struct Link {
    LinkOptions options;
    // The sender's side.
    std::deque<Frame> unsent;
    std::size_t unsent_bytes = 0;
    TimePoint free_at{};
    std::uint64_t sent_token = 0;
    std::uint64_t told_token = 0;
    // On the wire.
    std::deque<Piece> flight;
    std::size_t flight_bytes = 0;
    TimePoint last_arrival{};
    bool cut = false;  ///< nothing departs any more
    // The receiver's side.
    FrameHeader arriving;
    std::span<std::byte> into;
    std::size_t arrived = 0;
    bool in_frame = false;
    bool dropping = false;
    // The receiver's knowledge of the sender.
    TimePoint lost_at = TimePoint::max();
    bool deliver_first = false;  ///< what is on the wire arrives before the loss is seen
    bool told = false;
    bool unanswered = false;  ///< lost, and its sender runs
  };

  [[nodiscard]] Link& link(int from, int to) noexcept {
    return base::at(links_, from * ranks_ + to);
  }
  void move(Link& link) noexcept;
  bool deliver(int from, int to, Sink& sink, int limit) noexcept;
  void lose(int receiver, int sender, nanoseconds within) noexcept;
  void tell_loss(int receiver, int sender, Sink& sink, const Outcome& why) noexcept;

  int ranks_;
  Random random_;
  std::vector<Link> links_;
  std::deque<SimTransport> ends_;
  std::vector<bool> dead_;
  std::uint64_t trace_ = 0;
  std::uint64_t frames_ = 0;
  int violations_ = 0;
};

}  // namespace tutti::verify::sim
