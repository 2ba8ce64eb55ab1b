#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
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

}  // namespace

void TcpTransport::accept_strangers() {
  for (int i = 0; i < kAcceptsPerPoll; ++i) {
    auto fd = os::accept_connection(listener_.get());
    if (!fd) {
      // No descriptors: the listener would stay readable for ever, so it rests until the next tick.
      base::log_limited(base::Level::warning, "tcp.accept", fd.status().message());
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
      listening_ = false;
      arm_timer(true);
      return;
    }
    if (!fd->valid()) return;
    ++counters_.accepted;
    if (stranger_count_ == kMaxStrangers) {
      const auto oldest =
          std::min_element(strangers_.begin(), strangers_.end(),
                           [](const auto& a, const auto& b) { return a->number < b->number; });
      drop_stranger(static_cast<std::size_t>(oldest - strangers_.begin()),
                    "too many unproven connections, and it is the oldest");
    }
    auto address = os::peer_address(fd->get());
    secure::Nonce nonce;
    if (!address || !secure::random_bytes(nonce).ok()) continue;
    tune_stream(fd->get(), *address, options_.link_timeout);
    const auto slot = std::find(strangers_.begin(), strangers_.end(), nullptr);
    const auto index = static_cast<std::size_t>(slot - strangers_.begin());
    const std::uint32_t generation = next_generation_++;
    if (!add_to_epoll(fd->get(), EPOLLIN, make_tag(Watched::stranger, index, generation)).ok())
      continue;
    *slot = std::make_unique<Stranger>(Stranger{
        secure::Stream(std::move(*fd)), secure::Handshake::acceptor(party(), nonce), *address,
        Clock::now() + options_.handshake_timeout, generation, next_stranger_++});
    ++stranger_count_;
    arm_timer(true);
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
  strangers_[index].reset();
  --stranger_count_;
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
      // own attempt is in the air.
      if (with.stream.valid() && options_.rank < with.peer) return secure::Refusal::crossed;
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
  const std::unique_ptr<Stranger> accepted = std::move(strangers_[index]);
  --stranger_count_;
  with->generation = next_generation_++;
  open(*with, std::move(accepted->stream), accepted->address);
}

}  // namespace tutti::transport
