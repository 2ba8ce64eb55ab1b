#include <sys/epoll.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "os/socket.hpp"
#include "transport/tcp/tag.hpp"
#include "transport/tcp/tcp_transport.hpp"

// Connections that others have dialled, until they have proven their rank.
namespace tutti::transport {
namespace {

constexpr int kAcceptsPerPoll = 16;
// If our dial has no answer after this time, the network may let only the peer connect to us.
constexpr auto kOneWay = std::chrono::milliseconds(200);

}  // namespace

void TcpTransport::accept_pending() {
  for (int i = 0; i < kAcceptsPerPoll; ++i) {
    // The rest waits in the kernel's queue. Dropping them would make honest diallers dial again.
    const auto room = places_.room();
    if (room == secure::PendingPlaces::Room::no_descriptor) {
      base::log_limited(base::Level::warning, "tcp.accept",
                        base::format("rank {} takes no more connections for now: this process has "
                                     "too many open files; allow it more (ulimit -n)",
                                     options_.identity.rank));
    }
    if (room != secure::PendingPlaces::Room::free) return rest_listener();
    auto fd = os::accept_connection(listener_.get());
    if (!fd) {
      places_.run_out_of_descriptors();
      base::log_limited(base::Level::warning, "tcp.accept", fd.status().message());
      return rest_listener();
    }
    if (!fd->valid()) return;
    ++counters_.accepted;
    auto address = os::peer_address(fd->get());
    auto arrived = os::local_address(fd->get());
    secure::Nonce nonce;
    if (!address || !arrived || !secure::random_bytes(nonce).ok()) continue;
    tune_stream(fd->get(), options_.link_timeout);
    auto pending = std::make_unique<PendingConnection>(PendingConnection{
        secure::Stream(std::move(*fd)), secure::Handshake::acceptor(party(), nonce, *arrived),
        *address, secure::PendingPlaces::Times(Clock::now()), next_generation_++});
    if (free_pending_.empty()) {
      pending_.emplace_back();
      free_pending_.reserve(pending_.capacity());  // so that giving a place back cannot fail
      free_pending_.push_back(pending_.size() - 1);
    }
    const std::size_t index = free_pending_.back();
    const auto tag = make_tag(Watched::pending, index, pending->generation);
    if (!add_to_epoll(pending->stream.fd(), EPOLLIN, tag).ok()) continue;
    free_pending_.pop_back();
    pending_[index] = std::move(pending);
    places_.take();
    arm_timer(true);
  }
}

/// Takes the listener out of epoll until a place is free, or until the next tick: it would stay
/// readable for ever.
void TcpTransport::rest_listener() noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listening_ = false;
  ++counters_.rests;
  arm_timer(true);
}

void TcpTransport::listen_again() noexcept {
  if (listening_ || !listener_.valid()) return;
  places_.try_again();
  if (places_.full()) return;
  listening_ = add_to_epoll(listener_.get(), EPOLLIN, make_tag(Watched::listener, 0, 0)).ok();
}

void TcpTransport::drop_late_pending(TimePoint now) {
  const bool full = places_.full();
  std::vector<std::size_t> late;  // all of them: the first that goes makes room
  for (std::size_t i = 0; places_.count() > 0 && i < pending_.size(); ++i) {
    if (pending_[i] != nullptr && now >= places_.deadline(pending_[i]->times)) late.push_back(i);
  }
  for (const std::size_t index : late) {
    drop_pending(index, full ? "it has not proven itself in time, and others wait for its place"
                             : "it has not proven itself in time");
  }
}

void TcpTransport::drop_pending(std::size_t index, std::string_view why, base::Level level) {
  ++counters_.dropped;
  base::log_limited(level, level == base::Level::warning ? "tcp.pending" : "tcp.hung_up",
                    base::format("rank {} dropped a connection from {}: {}", options_.identity.rank,
                                 pending_[index]->address.to_string(), why));
  forget_pending(index);
}

void TcpTransport::forget_pending(std::size_t index) noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pending_[index]->stream.fd(), nullptr);
  take_pending(index).reset();
}

std::unique_ptr<TcpTransport::PendingConnection> TcpTransport::take_pending(
    std::size_t index) noexcept {
  const bool was_full = places_.full();
  free_pending_.push_back(index);
  places_.release();
  if (was_full) listen_again();
  return std::move(pending_[index]);
}

void TcpTransport::on_pending(std::size_t index) {
  PendingConnection& pending = *pending_[index];
  Outcome trouble;
  if (!talk(pending.stream, pending.handshake, secure::Tls::Role::server, trouble)) {
    // A rank that dialled at the same moment as we did hangs up when it gets our connection.
    const int peer = pending.handshake.peer();
    if (peer > options_.identity.rank && connections_[static_cast<std::size_t>(peer)] != nullptr &&
        connections_[static_cast<std::size_t>(peer)]->link != Connection::Link::none) {
      ++counters_.crossings;
      return forget_pending(index);
    }
    // It may have hung up before we could read its hello: then we do not know the rank, so this is
    // no warning.
    const bool silent = peer < 0 && trouble.code() == Errc::peer_lost;
    return drop_pending(index, trouble.message(),
                        silent ? base::Level::info : base::Level::warning);
  }
  pending.times.look(pending.handshake, Clock::now());
  switch (pending.handshake.state()) {
    case secure::Handshake::State::failed:
      return drop_pending(index, pending.handshake.failure().message());
    case secure::Handshake::State::proven:
      // The verdict is sent in TLS only: until that is set up the connection stays pending.
      if (auto shaken = pending.stream.shake(); shaken && *shaken) conclude(index);
      return;
    default: return;
  }
}

secure::Refusal TcpTransport::judge_proven(const Connection& with) const noexcept {
  switch (with.link) {
    case Connection::Link::gone: return secure::Refusal::gone;
    case Connection::Link::open: return secure::Refusal::connected;
    case Connection::Link::dialling:
      // Both dialled: the lower rank's connection stays. We claim it only while our own attempt
      // runs, and while the network has answered it or may still answer.
      if (with.stream.valid() && options_.identity.rank < with.peer &&
          (!with.connecting || Clock::now() - with.connecting_since < kOneWay))
        return secure::Refusal::crossed;
      break;
    case Connection::Link::promised: return secure::Refusal::none;
    case Connection::Link::none: break;
  }
  return closing_ && with.queue.empty() ? secure::Refusal::leaving : secure::Refusal::none;
}

void TcpTransport::conclude(std::size_t index) {
  PendingConnection& pending = *pending_[index];
  Connection* with = connection(pending.handshake.peer());
  if (with == nullptr) return drop_pending(index, "no memory for its connection");
  const secure::Refusal refusal = judge_proven(*with);
  pending.handshake.conclude(refusal);
  Outcome trouble;
  if (!talk(pending.stream, pending.handshake, secure::Tls::Role::server, trouble))
    return drop_pending(index, trouble.message());
  if (refusal == secure::Refusal::crossed) ++counters_.crossings;
  if (refusal != secure::Refusal::none) return forget_pending(index);  // nothing to log
  hang_up(*with);  // our own dial, if there is one: its frames go over this connection
  const std::unique_ptr<PendingConnection> accepted = take_pending(index);
  with->generation = next_generation_++;
  open(*with, std::move(accepted->stream), accepted->address);
}

}  // namespace tutti::transport
