#include "verify/sim/network.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::verify::sim {
namespace {

thread_local TimePoint virtual_now{};

nanoseconds up_to(Random& random, nanoseconds most) noexcept {
  return nanoseconds(random.between(0, most.count()));
}

}  // namespace

Network::Network(int ranks, std::uint64_t seed)
    : ranks_(ranks),
      random_(seed),
      links_(base::as_size(ranks * ranks)),
      dead_(base::as_size(ranks)) {
  for (int rank = 0; rank < ranks; ++rank) ends_.emplace_back(*this, rank);
  // Not zero: a time point of zero means "unset" to the engine.
  virtual_now = TimePoint(std::chrono::hours(1));
}

Network::~Network() = default;

TimePoint Network::now() noexcept { return virtual_now; }

void Network::set_links(const LinkOptions& options) noexcept {
  for (Link& one : links_) one.options = options;
}

void Network::note(std::uint64_t what) noexcept {
  trace_ = (trace_ ^ what) * 0x9fb21c651e98df25ULL;
  trace_ ^= trace_ >> 29;
}

void Network::advance_to(TimePoint when) noexcept {
  virtual_now = std::max(virtual_now, when);
  for (Link& one : links_) {
    if (!one.unsent.empty()) move(one);
  }
}

TimePoint Network::next_event() const noexcept {
  TimePoint next = TimePoint::max();
  const auto consider = [&](TimePoint when) {
    if (when > virtual_now) next = std::min(next, when);  // the past waits for the rank that sleeps
  };
  for (const Link& one : links_) {
    if (!one.flight.empty()) consider(one.flight.front().arrives);
    if (!one.told) consider(one.lost_at);
    if (!one.unsent.empty() && !one.cut && one.flight_bytes < one.options.window_bytes) {
      consider(std::max(one.free_at, virtual_now + nanoseconds(1)));
    }
  }
  return next;
}

/// Lets depart what the wire takes by now. The bytes are read from the sender's memory here, as
/// late as possible: memory that is used again too early shows.
void Network::move(Link& one) noexcept {
  while (!one.unsent.empty() && !one.cut && one.free_at <= virtual_now &&
         one.flight_bytes < one.options.window_bytes) {
    Frame& frame = one.unsent.front();
    Piece piece;
    if (!frame.head_departed) {
      piece.head = true;
      piece.header = frame.header;
      frame.head_departed = true;
    } else {
      const std::size_t left = frame.header.payload_bytes - frame.departed;
      std::size_t bytes = left;
      if (one.options.pieces > 1 && left > 1 && random_.chance(50)) {
        bytes = std::max<std::size_t>(left / base::as_size(one.options.pieces),
                                      1 + random_.below(left));
      }
      const std::byte* const from = frame.payload + frame.departed;
      piece.data.assign(from, from + bytes);
      frame.departed += bytes;
    }
    const std::size_t bytes = piece.bytes();
    const TimePoint departs = std::max(one.free_at, virtual_now - one.options.latency);
    one.free_at = departs + nanoseconds(bytes * 1000 / one.options.bytes_per_microsecond + 1);
    piece.arrives = std::max(
        one.last_arrival, one.free_at + one.options.latency + up_to(random_, one.options.jitter));
    one.last_arrival = piece.arrives;
    one.flight_bytes += bytes;
    one.flight.push_back(std::move(piece));
    if (frame.departed == frame.header.payload_bytes) {
      one.unsent_bytes -= sizeof(FrameHeader) + frame.header.payload_bytes;
      one.sent_token = frame.token;
      one.unsent.pop_front();
    }
  }
}

void Network::lose(int receiver, int sender, nanoseconds within) noexcept {
  Link& in = link(sender, receiver);
  const TimePoint when = virtual_now + up_to(random_, within);
  if (when >= in.lost_at) return;
  in.lost_at = when;
  in.deliver_first = random_.chance(50);
}

void Network::drop(int a, int b, nanoseconds within) noexcept {
  note(1);
  link(a, b).cut = true;
  link(b, a).cut = true;
  link(a, b).unanswered = true;
  link(b, a).unanswered = true;
  lose(a, b, within);
  lose(b, a, within);
}

void Network::kill(int rank, nanoseconds within) noexcept {
  note(2);
  base::at(dead_, rank) = true;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank) continue;
    link(rank, peer).cut = true;
    link(rank, peer).unsent.clear();
    lose(peer, rank, within);
  }
}

void Network::tell_loss(int receiver, int sender, Sink& sink, const Outcome& why) noexcept {
  Link& in = link(sender, receiver);
  Link& out = link(receiver, sender);
  in.told = true;
  in.flight.clear();
  in.flight_bytes = 0;
  in.in_frame = false;
  out.cut = true;
  out.unsent.clear();
  out.unsent_bytes = 0;
  note(static_cast<std::uint64_t>(receiver) << 8 | static_cast<std::uint64_t>(sender) << 16 | 3);
  sink.on_lost(sender, why);
}

bool Network::deliver(int from, int to, Sink& sink, int limit) noexcept {
  Link& in = link(from, to);
  bool moved = false;
  for (; limit > 0 && !in.flight.empty() && in.flight.front().arrives <= virtual_now; --limit) {
    moved = true;
    Piece piece = std::move(in.flight.front());
    in.flight.pop_front();
    in.flight_bytes -= piece.bytes();
    if (piece.head) {
      const auto type = static_cast<FrameType>(piece.header.type);
      note(piece.header.seq << 20 ^ piece.header.offset << 4 ^ piece.header.group ^
           piece.header.type);
      note(static_cast<std::uint64_t>(from) << 8 | static_cast<std::uint64_t>(to));
      if (type == FrameType::leave) {
        tell_loss(to, from, sink, Outcome(Errc::peer_left, "it has left"));
        return true;
      }
      in.arriving = piece.header;
      in.arrived = 0;
      in.in_frame = true;
      in.dropping = false;
      in.into = sink.on_header(from, in.arriving);
      if (in.into.size() < in.arriving.payload_bytes) {
        ++violations_;
        lose(from, to, nanoseconds(0));
        tell_loss(to, from, sink, Outcome(Errc::peer_lost, "it broke the rules of the connection"));
        return true;
      }
    } else {
      if (!in.dropping)
        std::memcpy(in.into.data() + in.arrived, piece.data.data(), piece.data.size());
      in.arrived += piece.data.size();
    }
    if (in.in_frame && in.arrived == in.arriving.payload_bytes) {
      in.in_frame = false;
      if (!in.dropping) sink.on_frame(from, in.arriving);
    }
    if (in.told) return true;
  }
  if (!in.told && in.lost_at <= virtual_now && (!in.deliver_first || in.flight.empty())) {
    tell_loss(to, from, sink, Outcome(Errc::peer_lost, "the connection broke"));
    moved = true;
  }
  return moved;
}

bool SimTransport::is_unanswered(int peer) const noexcept {
  return network_.link(peer, rank_).unanswered;
}

bool SimTransport::can_send(int peer) noexcept {
  const Network::Link& out = network_.link(rank_, peer);
  return network_.link(peer, rank_).told || out.unsent_bytes < out.options.unsent_bytes;
}

bool SimTransport::send(int peer, const FrameHeader& header, const std::byte* payload,
                        std::uint64_t token) noexcept {
  if (!can_send(peer)) ++network_.violations_;
  if (network_.link(peer, rank_).told) return false;
  Network::Link& out = network_.link(rank_, peer);
  ++network_.frames_;
  if (out.unsent.empty()) out.free_at = std::max(out.free_at, Network::now());
  Network::Frame frame;
  frame.header = header;
  frame.payload = payload;
  frame.token = token;
  out.unsent_bytes += sizeof(FrameHeader) + header.payload_bytes;
  out.unsent.push_back(std::move(frame));
  return false;
}

void SimTransport::keep_payloads(int peer) noexcept {
  for (Network::Frame& frame : network_.link(rank_, peer).unsent) {
    if (!frame.kept.empty() || frame.header.payload_bytes == 0) continue;
    frame.kept.assign(frame.payload, frame.payload + frame.header.payload_bytes);
    frame.payload = frame.kept.data();
  }
}

void SimTransport::drop_arriving(int peer) noexcept {
  Network::Link& in = network_.link(peer, rank_);
  if (in.in_frame) in.dropping = true;
}

bool SimTransport::poll() noexcept {
  if (sink_ == nullptr) return false;
  bool moved = false;
  const int first =
      static_cast<int>(network_.random_.below(static_cast<std::uint64_t>(network_.ranks_)));
  for (int i = 0; i < network_.ranks_; ++i) {
    const int peer = (first + i) % network_.ranks_;
    if (peer == rank_) continue;
    Network::Link& out = network_.link(rank_, peer);
    if (out.sent_token != out.told_token && !network_.link(peer, rank_).told) {
      out.told_token = out.sent_token;
      moved = true;
      sink_->on_sent(peer, out.told_token);
    }
    const Network::Link& in = network_.link(peer, rank_);
    if (in.told || (in.flight.empty() && in.lost_at == TimePoint::max())) continue;
    moved |= network_.deliver(peer, rank_, *sink_, 1 + static_cast<int>(network_.random_.below(8)));
  }
  return moved;
}

void SimTransport::close(std::uint64_t) noexcept {
  FrameHeader leave;
  leave.type = static_cast<std::uint8_t>(FrameType::leave);
  for (int peer = 0; peer < network_.ranks_; ++peer) {
    Network::Link& out = network_.link(rank_, peer);
    if (peer == rank_ || out.cut) continue;
    keep_payloads(peer);
    if (out.unsent.empty()) out.free_at = std::max(out.free_at, Network::now());
    Network::Frame frame;
    frame.header = leave;
    frame.token = out.unsent.empty() ? out.sent_token : out.unsent.back().token;
    out.unsent_bytes += sizeof(FrameHeader);
    out.unsent.push_back(std::move(frame));
  }
}

}  // namespace tutti::verify::sim
