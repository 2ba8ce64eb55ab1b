#include "transport/tcp/tcp_transport.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

#include "base/format.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"
#include "transport/tcp/tag.hpp"

namespace tutti::transport {
namespace {

constexpr int kEventsPerPoll = 64;
// All ranks may connect to one rank at the same time. If its queue stays full, its kernel drops
// connection requests, and a rank whose requests are dropped reports it as unreachable.
constexpr int kBacklog = 4096;
// While only one connection is used (hot_) it is read directly, and epoll_wait is called only at
// every 8th poll if it had bytes, else at every 4th.
constexpr unsigned kHotPollsBusy = 8;
constexpr unsigned kHotPollsIdle = 4;
// So many polls after a change of the connection that is used, epoll is asked each time: a caller
// yields its core between two polls, and must not do so while another peer's bytes are here.
constexpr unsigned kSeveralPolls = 64;
constexpr long kTickNs = 40'000'000;
// The tick while a dial or the store may show that a peer is lost: the loss is to be reported
// within 100 ms.
constexpr long kSoonTickNs = 5'000'000;

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::listen(TcpOptions options) {
  if (options.identity.size < 1 || options.identity.rank < 0 ||
      options.identity.rank >= options.identity.size)
    return Outcome(Errc::invalid_argument,
                   base::format("cannot listen as rank {} of {}", options.identity.rank,
                                options.identity.size));
  if (options.encrypt) {
    if (Outcome s = secure::check_can_encrypt(options.identity.secret); !s) return s;
  }
  std::unique_ptr<TcpTransport> transport(new TcpTransport(std::move(options)));
  if (Outcome status = transport->start(); !status) return status;
  return transport;
}

Outcome TcpTransport::start() {
  if (!options_.addresses.empty()) {
    if (Outcome s = set_addresses(std::move(options_.addresses)); !s) return s;
  }
  auto listener = os::listen_tcp(options_.bind, kBacklog);
  if (!listener) return listener.status();
  listener_ = std::move(*listener);
  auto listens = os::local_address(listener_.get());
  if (!listens) return listens.status();
  told_ = options_.told.value_or(*listens);
  if (told_.port() == 0) told_.set_port(listens->port());
  epoll_ = os::Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return os::system_error("cannot make an event queue", errno);
  timer_ = os::Fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.valid()) return os::system_error("cannot make a timer", errno);
  if (Outcome s = add_to_epoll(timer_.get(), EPOLLIN, make_tag(Watched::timer, 0, 0)); !s) return s;
  if (Outcome s = add_to_epoll(listener_.get(), EPOLLIN, make_tag(Watched::listener, 0, 0)); !s)
    return s;
  listening_ = true;
  left_ = Outcome(Errc::peer_left, "a rank has left");
  no_memory_ = Outcome(Errc::peer_lost, "lost a connection, and there is no memory to say why");
  const auto size = static_cast<std::size_t>(options_.identity.size);
  connections_.resize(size);
  // From here on these lists never ask for memory: each holds a peer once, or twice after an
  // allocation has failed.
  for (auto* list : {&to_report_, &reporting_, &watched_, &dials_, &unread_, &rereading_})
    list->reserve(2 * size);
  scratch_.resize(kScratch);
  return {};
}

TcpTransport::~TcpTransport() = default;

std::string TcpTransport::address() const { return told_.to_string(); }

Outcome TcpTransport::set_addresses(std::vector<std::string> addresses) {
  if (addresses.size() != static_cast<std::size_t>(options_.identity.size))
    return Outcome(Errc::invalid_argument, base::format("{} addresses for {} ranks",
                                                        addresses.size(), options_.identity.size));
  options_.addresses = std::move(addresses);
  return {};
}

std::string TcpTransport::who(int peer) const {
  const auto& all = options_.addresses;
  const auto index = static_cast<std::size_t>(peer);
  if (index >= all.size() || all[index].empty()) return base::format("rank {}", peer);
  return base::format("rank {} ({})", peer, all[index]);
}

/// Both ends: the error is told to ranks that are neither.
std::string TcpTransport::lost_connection_to(int peer) const {
  return base::format("rank {} ({}) lost the connection to {}", options_.identity.rank, address(),
                      who(peer));
}

bool TcpTransport::is_unanswered(int peer) const noexcept {
  const auto& connection = connections_[static_cast<std::size_t>(peer)];
  return connection != nullptr && connection->unanswered;
}

bool TcpTransport::connected(int peer) const noexcept {
  const auto& connection = connections_[static_cast<std::size_t>(peer)];
  return connection != nullptr && connection->link == Connection::Link::open;
}

Connection* TcpTransport::connection(int peer) noexcept {
  auto& slot = connections_[static_cast<std::size_t>(peer)];
  if (slot == nullptr) slot.reset(new (std::nothrow) Connection(peer));
  return slot.get();
}

bool TcpTransport::can_send(int peer) noexcept {
  const Connection* to = connection(peer);
  return to != nullptr && (to->link == Connection::Link::gone || to->queue.has_room());
}

bool TcpTransport::send(int peer, const FrameHeader& header, const std::byte* payload,
                        std::uint64_t token) noexcept {
  Connection* to = connection(peer);
  if (to == nullptr || to->link == Connection::Link::gone || to->write_error != 0 || closing_)
    return false;
  to->queue.push(header, payload, token);
  if (to->link == Connection::Link::open) {
    note_used(*to);  // the answer comes from there
    if (!to->stalled) flush(*to);
  } else if (to->link == Connection::Link::none) {
    to->link = Connection::Link::dialling;
    note_for_report(peer);  // the next poll dials: it may allocate
  }
  return false;
}

void TcpTransport::keep_payloads(int peer) noexcept {
  Connection* to = connections_[static_cast<std::size_t>(peer)].get();
  if (to == nullptr) return;
  try {
    to->queue.keep_payloads();
  } catch (const std::bad_alloc&) {
    // A payload that cannot be kept cannot be sent, and no frame may be left out: end the stream.
    to->queue.clear();
    to->write_error = ENOMEM;
    if (to->stream.valid()) shutdown(to->stream.fd(), SHUT_RDWR);
  }
}

void TcpTransport::drop_arriving(int peer) noexcept {
  if (Connection* from = connections_[static_cast<std::size_t>(peer)].get()) {
    from->reader.drop_arriving();
  }
}

void TcpTransport::note_used(Connection& one) noexcept {
  if (hot_ == &one) return;
  if (hot_ != nullptr) several_ = kSeveralPolls;
  hot_ = &one;
}

void TcpTransport::note_for_report(int peer) noexcept {
  Connection& connection = *connections_[static_cast<std::size_t>(peer)];
  if (connection.noted) return;
  connection.noted = true;
  to_report_.push_back(peer);
}

bool TcpTransport::report() {
  bool moved = false;
  std::swap(to_report_, reporting_);
  for (const int peer : reporting_) {
    Connection& connection = *connections_[static_cast<std::size_t>(peer)];
    connection.noted = false;
    if (connection.link == Connection::Link::dialling && !connection.stream.valid() &&
        connection.dial_deadline == TimePoint()) {
      try {
        dial(connection);
      } catch (const std::bad_alloc&) {
        dial_again(connection, no_memory_);
      }
      moved = true;
      continue;  // if the dial has lost the peer, the next report() says so, in the order of losses
    }
    if (connection.queue.finished() > connection.reported) {
      connection.reported = connection.queue.finished();
      if (sink_ != nullptr) sink_->on_sent(peer, connection.reported);
      moved = true;
    }
    if (connection.lost && !connection.told) {
      connection.told = true;
      if (sink_ != nullptr && !closing_) sink_->on_lost(peer, connection.why);
      moved = true;
    }
  }
  reporting_.clear();
  return moved;
}

bool TcpTransport::poll() noexcept {
  try {
    return poll_ready();
  } catch (const std::exception& error) {  // no memory: what failed is tried again
    base::log_limited(base::Level::error, "tcp.poll", error.what());
    return false;
  }
}

bool TcpTransport::poll_ready() {
  bool moved = !to_report_.empty() && report();
  if (!unread_.empty()) moved |= read_unread();
  if (several_ > 0) {
    --several_;
  } else if (hot_ != nullptr) {
    const bool got = read(*hot_);
    moved |= got;
    ++hot_polls_;
    if (hot_polls_ % (got ? kHotPollsBusy : kHotPollsIdle) != 0) {
      if (!to_report_.empty()) moved |= report();
      return moved;
    }
  }
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    moved |= handle(event.data.u64, event.events);
  }
  if (!to_report_.empty()) moved |= report();
  return moved;
}

bool TcpTransport::handle(std::uint64_t tag, std::uint32_t events) {
  const std::size_t index = tag_index(tag);
  switch (tag_kind(tag)) {
    case Watched::listener: accept_pending(); return true;
    case Watched::timer: tick(); return false;  // a tick alone is no progress
    case Watched::pending:
      if (pending_[index] == nullptr || pending_[index]->generation != tag_generation(tag))
        return false;
      on_pending(index);
      return true;
    case Watched::connection: break;
  }
  Connection& connection = *connections_[index];
  if (!connection.stream.valid() || connection.generation != tag_generation(tag)) return false;
  if (connection.link == Connection::Link::dialling) {
    on_dial(connection);
    return true;
  }
  bool moved = false;
  if ((events & EPOLLOUT) != 0) {
    connection.stalled = false;
    moved |= flush(connection);
  }
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) moved |= read(connection);
  return moved;
}

bool TcpTransport::flush(Connection& to) noexcept {
  bool moved = false;
  while ((!to.queue.empty() || to.stream.unsent() > 0) && to.write_error == 0) {
    std::array<iovec, SendQueue::kMaxPieces> pieces;
    const std::size_t count = to.queue.pieces(pieces);
    const std::size_t wanted = to.queue.bytes();
    const std::size_t unsent = to.stream.unsent();
    const secure::Moved sent = to.stream.write(std::span(pieces).first(count));
    if (sent.error != 0) {
      // Bytes that have come from the peer are still read. The end of the stream follows them, and
      // then the peer is lost.
      to.write_error = sent.error;
      to.queue.clear();
      shutdown(to.stream.fd(), SHUT_RDWR);
      break;
    }
    to.queue.sent(sent.bytes);
    moved |= sent.bytes > 0 || to.stream.unsent() < unsent;
    if (sent.bytes < wanted || to.stream.unsent() > 0) {
      to.stalled = true;
      break;
    }
  }
  if (moved) {
    if (to.queue.finished() > to.reported) note_for_report(to.peer);
    watch_stall(to);
  }
  if (to.stalled != to.watching_writable) watch_writable(to, to.stalled);
  if (closing_ && to.queue.empty() && to.stream.unsent() == 0 && !to.shut) {
    to.shut = true;
    shutdown(to.stream.fd(), SHUT_WR);
  }
  return moved;
}

void TcpTransport::watch_writable(Connection& to, bool on) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  if (on) event.events |= EPOLLOUT;
  event.data.u64 = make_tag(Watched::connection, static_cast<std::size_t>(to.peer), to.generation);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, to.stream.fd(), &event) == 0)
    to.watching_writable = on;
}

void TcpTransport::ended(Connection& from, int error) noexcept {
  from.unanswered = (error != 0 ? error : from.write_error) == ETIMEDOUT;
  Outcome why = no_memory_;
  try {
    why = reason_of_end(from, error);
  } catch (const std::bad_alloc&) {
  }
  lose(from, std::move(why));
}

Outcome TcpTransport::reason_of_end(const Connection& from, int error) const {
  const int cause = error != 0 ? error : from.write_error;
  if (const std::string& trouble = from.stream.trouble(); !trouble.empty()) {
    return Outcome(
        Errc::refused,
        base::format(
            "{}: the data received is not the data that it encrypted ({}); does something on "
            "the way change packets?",
            lost_connection_to(from.peer), trouble));
  }
  if (cause == ETIMEDOUT) return silent(from, "", options_.link_timeout);  // keep-alive
  return Outcome(
      Errc::peer_lost,
      base::format("{}: {}; its process or host has probably died", lost_connection_to(from.peer),
                   cause != 0 ? text_of(cause) : "closed without a graceful shutdown"));
}

Outcome TcpTransport::silent(const Connection& from, std::string_view more,
                             std::chrono::milliseconds silence) const {
  return Outcome(
      Errc::peer_lost,
      base::format("{}: its host has not answered for {} ms{}; is the network cut or the "
                   "host down?",
                   lost_connection_to(from.peer), silence.count(), more));
}

void TcpTransport::lose(Connection& whom, Outcome why) noexcept {
  whom.link = Connection::Link::gone;
  if (whom.stream.valid()) {
    // Removed by hand: epoll keeps the socket while a forked child holds it open.
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, whom.stream.fd(), nullptr);
    whom.stream.reset();
  }
  whom.queue.clear();
  whom.reader = FrameReader(whom.peer);
  whom.handshake.reset();
  whom.question = nullptr;
  if (hot_ == &whom) hot_ = nullptr;
  if (first_lost_ < 0 && why.code() == Errc::peer_lost) first_lost_ = whom.peer;
  if (base::is_logged(base::Level::debug))
    base::log(base::Level::debug,
              base::format("rank {}: no longer connected with {}{}{}", options_.identity.rank,
                           who(whom.peer), why.ok() ? "" : ": ", why.message()));
  whom.why = std::move(why.with_culprit(whom.peer));
  whom.lost = true;
  note_for_report(whom.peer);
}

void TcpTransport::watch_stall(Connection& to) noexcept {
  if (to.watched) return;
  to.watched = true;
  watched_.push_back(to.peer);
  (void)to.stall.look(to.stream.fd(), Clock::now(),
                      options_.link_timeout);  // from now on, and not from the next tick
  arm_timer(true);
}

void TcpTransport::arm_timer(bool on) noexcept {
  const bool soon = std::any_of(dials_.begin(), dials_.end(), [this](int peer) {
    const Connection& to = *connections_[static_cast<std::size_t>(peer)];
    return to.question != nullptr || to.connecting || to.link == Connection::Link::promised;
  });
  const long wanted = !on ? 0 : soon ? kSoonTickNs : kTickNs;
  if (timer_ns_ == wanted) return;
  timer_ns_ = wanted;
  itimerspec time{};
  time.it_value.tv_nsec = time.it_interval.tv_nsec = wanted;
  timerfd_settime(timer_.get(), 0, &time, nullptr);
}

void TcpTransport::tick() {
  std::uint64_t ticks = 0;
  if (::read(timer_.get(), &ticks, sizeof ticks) < 0) return;
  const TimePoint now = Clock::now();
  check_deadlines(now);
  // Iterates by index, because frames that the sink sends meanwhile may add to the list.
  for (std::size_t i = 0; i < watched_.size();) {
    Connection& to = *connections_[static_cast<std::size_t>(watched_[i])];
    if (on_the_way(to, now)) {
      ++i;
      continue;
    }
    to.watched = false;
    watched_[i] = watched_.back();
    watched_.pop_back();
  }
  arm_timer(!watched_.empty() || !dials_.empty() || places_.count() > 0 || !listening_);
}

bool TcpTransport::on_the_way(Connection& to, TimePoint now) {
  if (to.link != Connection::Link::open) return false;
  const auto verdict = to.stall.look(to.stream.fd(), now, options_.link_timeout);
  if (verdict != os::StallWatch::Verdict::dead) return verdict == os::StallWatch::Verdict::waiting;
  read(to);  // what came before the cut
  if (to.link == Connection::Link::open) {
    reset_when_closed(to.stream.fd());
    to.unanswered = true;
    lose(to, silent(to, ", though data are on the way", to.stall.silence()));
  }
  return false;
}

bool TcpTransport::lingers(Connection& with) noexcept {
  switch (with.link) {
    case Connection::Link::none:
    case Connection::Link::gone: return false;
    case Connection::Link::dialling:
    case Connection::Link::promised: return !with.queue.empty();
    case Connection::Link::open:
      // Everything has reached the other kernel: the peer can read it, whatever becomes of us.
      return !with.shut || unacknowledged(with.stream.fd()) > 0;
  }
  return false;
}

void TcpTransport::close(std::uint64_t drain_ns) noexcept {
  if (closing_) return;
  closing_ = true;
  hot_ = nullptr;
  const TimePoint deadline = Clock::now() + std::chrono::nanoseconds(drain_ns);
  for (auto& connection : connections_) {
    if (connection == nullptr || connection->link != Connection::Link::open) continue;
    connection->reader.drop_arriving();
    connection->queue.push_leave();
    if (!connection->stalled) flush(*connection);
  }
  // To a host that does not answer: the network has a gap. A ping that came from there after the
  // end would be answered by a reset, which takes back what is under way.
  const TimePoint in_gap_by = std::max(deadline, Clock::now() + options_.link_timeout);
  const auto lingering = [&] {
    const TimePoint now = Clock::now();
    return std::any_of(connections_.begin(), connections_.end(), [&](auto& connection) {
      if (connection == nullptr || !lingers(*connection)) return false;
      return now < deadline || (now < in_gap_by && connection->link == Connection::Link::open &&
                                is_under_way(connection->stream.fd()));
    });
  };
  while (lingering()) {
    if (poll()) continue;
    epoll_event event{};
    epoll_wait(epoll_.get(), &event, 1, 1);  // acknowledgements wake nobody: look every 1 ms
  }
  for (auto& connection : connections_) {
    if (connection == nullptr) continue;
    // Unread bytes would turn the end of the stream into a reset.
    if (connection->link == Connection::Link::open) read_and_forget(*connection);
    if (connection->link != Connection::Link::gone) lose(*connection, Outcome());
  }
  for (; places_.count() > 0; places_.release()) continue;
  pending_.clear();
  free_pending_.clear();
  listener_.reset();
  arm_timer(false);
}

}  // namespace tutti::transport
