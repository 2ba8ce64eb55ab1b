#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "os/socket.hpp"
#include "transport/tcp/tag.hpp"
#include "transport/tcp/tcp_transport.hpp"

// Those who have dialled us, until they have proven who they are.
namespace tutti::transport {
namespace {

constexpr int kAcceptsPerPoll = 16;
// A dial without an answer for so long may be of a way that leads in the other direction only.
constexpr auto kOneWay = std::chrono::milliseconds(200);

}  // namespace

void TcpTransport::accept_strangers() {
  for (int i = 0; i < kAcceptsPerPoll; ++i) {
    // The rest waits in the kernel's queue: an honest dialer that was dropped would dial again.
    if (stranger_count_ == max_strangers()) return rest_listener();
    auto fd = os::accept_connection(listener_.get());
    if (!fd) {
      // No descriptors: the listener would stay readable for ever, so it rests until the next tick.
      base::log_limited(base::Level::warning, "tcp.accept", fd.status().message());
      return rest_listener();
    }
    if (!fd->valid()) return;
    ++counters_.accepted;
    auto address = os::peer_address(fd->get());
    secure::Nonce nonce;
    if (!address || !secure::random_bytes(nonce).ok()) continue;
    tune_stream(fd->get(), *address, options_.link_timeout);
    auto stranger = std::make_unique<Stranger>(
        Stranger{secure::Stream(std::move(*fd)), secure::Handshake::acceptor(party(), nonce),
                 *address, Clock::now(), next_generation_++});
    if (free_strangers_.empty()) {
      strangers_.emplace_back();
      free_strangers_.reserve(strangers_.capacity());  // so that giving a place back cannot fail
      free_strangers_.push_back(strangers_.size() - 1);
    }
    const std::size_t index = free_strangers_.back();
    const auto tag = make_tag(Watched::stranger, index, stranger->generation);
    if (!add_to_epoll(stranger->stream.fd(), EPOLLIN, tag).ok()) continue;
    free_strangers_.pop_back();
    strangers_[index] = std::move(stranger);
    ++stranger_count_;
    arm_timer(true);
  }
}

/// Until a place is free, or the next tick: it would stay readable for ever.
void TcpTransport::rest_listener() noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  listening_ = false;
  ++counters_.rests;
  arm_timer(true);
}

void TcpTransport::listen_again() noexcept {
  if (listening_ || !listener_.valid() || stranger_count_ == max_strangers()) return;
  listening_ = add_to_epoll(listener_.get(), EPOLLIN, make_tag(Watched::listener, 0, 0)).ok();
}

/// While all places are taken those that have not said their hello make room: the ones who wait may
/// be ranks, whose hello has come with the connection.
void TcpTransport::drop_late_strangers(TimePoint now) {
  const bool full = stranger_count_ == max_strangers();
  for (std::size_t i = 0; stranger_count_ > 0 && i < strangers_.size(); ++i) {
    if (strangers_[i] == nullptr) continue;
    const auto since = now - strangers_[i]->accepted;
    const bool silent = strangers_[i]->handshake.peer() < 0;
    if (since >= options_.handshake_timeout) {
      drop_stranger(i, "it has not proven itself in time");
    } else if (full && silent && since >= options_.hello_timeout) {
      drop_stranger(i, "it has not said its hello in time, and others wait for its place");
    }
  }
}

void TcpTransport::drop_stranger(std::size_t index, std::string_view why) {
  ++counters_.strangers;
  base::log_limited(base::Level::warning, "tcp.stranger",
                    fmt::format("rank {} dropped a connection from {}: {}", options_.rank,
                                strangers_[index]->address.to_string(), why));
  forget_stranger(index);
}

void TcpTransport::forget_stranger(std::size_t index) noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, strangers_[index]->stream.fd(), nullptr);
  take_stranger(index).reset();
}

std::unique_ptr<TcpTransport::Stranger> TcpTransport::take_stranger(std::size_t index) noexcept {
  const bool was_full = stranger_count_ == max_strangers();
  free_strangers_.push_back(index);
  --stranger_count_;
  if (was_full) listen_again();
  return std::move(strangers_[index]);
}

void TcpTransport::on_stranger(std::size_t index) {
  Stranger& stranger = *strangers_[index];
  Status trouble;
  if (!talk(stranger.stream, stranger.handshake, secure::Tls::Role::server, trouble)) {
    // A higher rank that dialled at the same moment hangs up when it gets our connection.
    const int peer = stranger.handshake.peer();
    if (peer > options_.rank && connections_[static_cast<std::size_t>(peer)] != nullptr &&
        connections_[static_cast<std::size_t>(peer)]->link != Connection::Link::none) {
      ++counters_.crossings;
      return forget_stranger(index);
    }
    return drop_stranger(index, trouble.message());
  }
  switch (stranger.handshake.state()) {
    case secure::Handshake::State::failed:
      return drop_stranger(index, stranger.handshake.failure().message());
    case secure::Handshake::State::proven:
      // Told the verdict only in TLS, if there is to be any: until then it is a stranger.
      if (auto shaken = stranger.stream.shake(); shaken && *shaken) conclude(index);
      return;
    default: return;
  }
}

secure::Refusal TcpTransport::judge_proven(const Connection& with) const noexcept {
  switch (with.link) {
    case Connection::Link::gone: return secure::Refusal::gone;
    case Connection::Link::open: return secure::Refusal::connected;
    case Connection::Link::dialling:
      // Both dialled: the lower rank's connection stays. We are the lower one only as long as our
      // own attempt is in the air, and the network has answered it or may still do.
      if (with.stream.valid() && options_.rank < with.peer &&
          (!with.connecting || Clock::now() - with.connecting_since < kOneWay))
        return secure::Refusal::crossed;
      break;
    case Connection::Link::promised: return secure::Refusal::none;
    case Connection::Link::none: break;
  }
  return closing_ && with.queue.empty() ? secure::Refusal::leaving : secure::Refusal::none;
}

void TcpTransport::conclude(std::size_t index) {
  Stranger& stranger = *strangers_[index];
  Connection* with = connection(stranger.handshake.peer());
  if (with == nullptr) return drop_stranger(index, "no memory for its connection");
  const secure::Refusal refusal = judge_proven(*with);
  stranger.handshake.conclude(refusal);
  Status trouble;
  if (!talk(stranger.stream, stranger.handshake, secure::Tls::Role::server, trouble))
    return drop_stranger(index, trouble.message());
  if (refusal == secure::Refusal::crossed) ++counters_.crossings;
  if (refusal != secure::Refusal::none) return forget_stranger(index);  // nothing to remark
  hang_up(*with);  // our own dial, if there is one: its frames go over this connection
  const std::unique_ptr<Stranger> accepted = take_stranger(index);
  with->generation = next_generation_++;
  open(*with, std::move(accepted->stream), accepted->address);
}

}  // namespace tutti::transport
