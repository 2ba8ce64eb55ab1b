#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"
#include "transport/tcp/tag.hpp"
#include "transport/tcp/tcp_transport.hpp"

// Connections that we dial, until they are open. Those that others dial: tcp_pending.cpp.
namespace tutti::transport {
namespace {

// So long before a dial is given up, its host may be lost: ask the store which rank was lost first.
// The store takes up to three questions, and an answer is too old after a second.
constexpr auto kAskBefore = std::chrono::milliseconds(800);
// How long we wait for the dial of a peer that said that its own dial is on its way.
constexpr auto kPromiseTime = std::chrono::milliseconds(50);
// How long the store's answer (which rank was lost first) may take once a host does not answer.
constexpr auto kAnswerOfStore = std::chrono::milliseconds(60);
// How long a peer that has closed its listener may take to tell the store that it leaves.
constexpr auto kLeavingTime = std::chrono::seconds(2);

std::string told_last(const Outcome& trouble) {
  return trouble.ok() ? "" : base::format("; last: {}", trouble.message());
}

}  // namespace

secure::Party TcpTransport::party() const {
  return {.identity = options_.identity, .encrypts = options_.encrypt, .told = told_};
}

Outcome TcpTransport::add_to_epoll(int fd, std::uint32_t events, std::uint64_t tag) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return os::system_error("cannot watch a socket", errno);
  return {};
}

void TcpTransport::dial(Connection& to) {
  const TimePoint now = Clock::now();
  if (to.dial_deadline == TimePoint()) to.dial_deadline = now + options_.link_timeout;
  const auto index = static_cast<std::size_t>(to.peer);
  const std::string text = index < options_.addresses.size() ? options_.addresses[index] : "";
  auto address = os::Address::parse_endpoint(text);
  if (!address) return give_up_dial(to, address.status());
  to.address = *address;
  secure::Nonce nonce;
  if (Outcome s = secure::random_bytes(nonce); !s) return give_up_dial(to, s);
  secure::Handshake handshake = secure::Handshake::dialler(party(), to.peer, nonce, *address);
  auto fd = os::start_connect(*address);
  if (!fd) {
    // Descriptors or ports may be free again soon, and routes or our own address come back.
    return dial_again(to, fd.status());
  }
  if (Outcome s = take_socket(to, std::move(*fd)); !s) return dial_again(to, s);
  to.handshake = std::move(handshake);
  to.connecting = true;
  to.connecting_since = now;
  to.stall = os::StallWatch();
  watch_dial(to);
}

/// Makes `fd` the socket of this dial, and adds it to epoll.
Outcome TcpTransport::take_socket(Connection& to, os::Fd fd) {
  tune_stream(fd.get(), options_.link_timeout);
  to.generation = next_generation_++;
  const auto tag = make_tag(Watched::connection, static_cast<std::size_t>(to.peer), to.generation);
  if (Outcome s = add_to_epoll(fd.get(), EPOLLIN | EPOLLOUT, tag); !s) return s;
  to.stream = secure::Stream(std::move(fd));
  return {};
}

void TcpTransport::watch_dial(Connection& to) noexcept {
  if (!to.in_dials) dials_.push_back(to.peer);
  to.in_dials = true;
  arm_timer(true);
}

/// Watches a dial whose connection the peer's host has accepted. Its process may be stopped, for
/// any time: the deadlines of operations bound that. If the network was cut before its answer came,
/// keep-alive ends the connection.
void TcpTransport::await_handshake(Connection& to, TimePoint now) {
  const auto verdict = to.stall.look(to.stream.fd(), now, options_.link_timeout);
  if (verdict == os::StallWatch::Verdict::idle) to.stood_still = true;
  if (verdict != os::StallWatch::Verdict::dead) return;
  give_up_silent(to, base::format("its host has not answered for {} ms, though a handshake is on "
                                  "the way; is the network cut or the host down?",
                                  to.stall.silence().count()));
}

void TcpTransport::give_up_silent(Connection& to, std::string text) {
  to.verdict_by = Clock::now() + kAnswerOfStore;
  to.unanswered = true;
  give_up_dial(to, Outcome(Errc::peer_lost, std::move(text)));
}

void TcpTransport::hang_up(Connection& to) noexcept {
  if (to.stream.valid()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, to.stream.fd(), nullptr);
    to.stream.reset();
  }
  to.handshake.reset();
  to.connecting = false;
}

void TcpTransport::dial_again(Connection& to, const Outcome& why) {
  hang_up(to);
  to.last_trouble = why;
  // The time for which the peer stood still does not count as failing.
  if (std::exchange(to.stood_still, false) && !std::exchange(to.went_on, true))
    to.dial_deadline = Clock::now() + options_.link_timeout;
  to.next_dial = Clock::now() + to.pause.next();
  ++counters_.redials;
  watch_dial(to);
}

void TcpTransport::give_up_dial(Connection& to, const Outcome& why) {
  to.unreachable = Outcome(
      why.code(), base::format("rank {} ({}) cannot connect to {}: {}", options_.identity.rank,
                               address(), who(to.peer), why.message()));
  hang_up(to);                           // not before: `why` may lie in its handshake
  to.link = Connection::Link::dialling;  // not gone yet: it may dial us meanwhile
  if (to.unreachable.code() != Errc::peer_left) ask_first_lost(to);
  if (!judge_unreachable(to)) watch_dial(to);
}

void TcpTransport::ask_first_lost(Connection& about) {
  if (matters_who_was_lost(about) && options_.first_lost && !about.question)
    about.question = options_.first_lost(about.peer);
}

/// The rank lost first has broken the groups, so after that one more lost rank needs no question.
/// But a peer that refuses connections may have left gracefully, and then groups that do not
/// contain the first lost rank are not broken.
bool TcpTransport::matters_who_was_lost(const Connection& to) const noexcept {
  return !closing_ && (first_lost_ < 0 || to.refused);
}

/// Gives the peer up, unless the question which rank was lost first is still open.
bool TcpTransport::judge_unreachable(Connection& to) {
  if (to.question && matters_who_was_lost(to)) {
    const std::optional<Outcome> first = to.question();
    if (!first && Clock::now() < to.verdict_by) return false;
    if (first && first->code() == Errc::refused) {
      if (to.refused && Clock::now() < to.leaves_by) {
        to.question = options_.first_lost(to.peer);
        return false;
      }
      note_that_it_runs(to, *first);
    }
    // It never connected to us, so nothing that it has sent to us could still be on its way.
    const bool in_peace = first && (first->ok() || first->code() == Errc::peer_left);
    if (in_peace && to.refused)
      to.unreachable = Outcome(Errc::peer_left, std::string(to.unreachable.message()));
    if (first && !first->ok()) lose_the_first(to, *first);
  }
  if (to.link == Connection::Link::dialling) lose(to, to.unreachable);
  return true;
}

/// The store is reached from both ends, so the network lets some ports through.
void TcpTransport::note_that_it_runs(Connection& to, const Outcome& store) const {
  std::string text(to.unreachable.message());
  if (to.refused)
    text = base::format("rank {} ({}) cannot connect to {}: connection refused",
                        options_.identity.rank, address(), who(to.peer));
  to.unreachable = Outcome(
      to.unreachable.code(),
      base::format("{}{} {}", text, text.ends_with('?') ? " Yet" : "; but", store.message()));
  to.unanswered = true;
}

void TcpTransport::lose_the_first(const Connection& unreachable, const Outcome& first) {
  const bool known = first.code() == Errc::peer_lost || first.code() == Errc::peer_left;
  const int rank = known ? first.culprit().value_or(-1) : -1;
  if (first_lost_ >= 0 || rank < 0 || rank >= options_.identity.size) return;
  first_lost_ = rank;
  if (rank == options_.identity.rank || rank == unreachable.peer) return;
  Connection* whom = connection(rank);
  if (whom == nullptr) return;
  if (whom->link == Connection::Link::open) read(*whom);  // takes what it had sent before
  if (whom->link != Connection::Link::gone)
    lose(*whom, Outcome(Errc::peer_lost, base::format("{}: {}", who(rank), first.message())));
}

bool TcpTransport::talk(secure::Stream& stream, secure::Handshake& handshake,
                        secure::Tls::Role role, Outcome& trouble) {
  std::array<std::byte, secure::kLongestFrame> buffer;
  while (true) {
    while (!handshake.outgoing().empty()) {
      const secure::Moved sent = stream.write_some(handshake.outgoing());
      // A new socket has room for so few bytes; if it takes none, something is wrong with it.
      if (sent.error != 0)
        trouble = stream.status_of(sent, "cannot send");
      else if (sent.bytes == 0)
        trouble = Outcome(Errc::peer_lost, "its connection takes nothing");
      if (!trouble) return false;
      handshake.sent(sent.bytes);
    }
    if (handshake.wants_encryption() && !stream.encrypted()) {
      auto key = handshake.key_of_encryption();
      trouble = key ? stream.encrypt(*key, {role}) : key.status();
      if (!trouble) return false;
    }
    auto shaken = stream.shake();
    if (!shaken) trouble = shaken.status();
    if (!trouble) return false;
    const std::size_t wanted = handshake.wanted();
    if (!*shaken || wanted == 0) return true;
    // Never more than belongs to the handshake: frames may follow.
    const secure::Moved got = stream.read_some(std::span(buffer).first(wanted));
    if (got.error != 0)
      trouble = stream.status_of(got, "cannot receive");
    else if (got.ended)
      trouble = Outcome(Errc::peer_lost, "it closed the connection before both sides were proven");
    if (!trouble) return false;
    if (got.bytes == 0) return true;
    handshake.feed(std::span(buffer).first(got.bytes));
  }
}

void TcpTransport::on_dial(Connection& to) {
  if (to.connecting) {
    if (Outcome s = os::connect_result(to.stream.fd()); !s) {
      // Each rank listens before its address is known: nobody there means that it has ended.
      if (s.code() == Errc::refused) {
        to.refused = true;
        to.question = nullptr;  // an answer from before its end is out of date
        to.leaves_by = Clock::now() + kLeavingTime;
        s = Outcome(Errc::peer_lost,
                    "connection refused: nobody listens there any more; has its process ended, or "
                    "does a firewall refuse it?");
      } else if (s.code() == Errc::peer_lost) {
        // This answer comes from the network and not from the host, and may be over in a moment (an
        // ARP lookup failed while a link was down). So it counts as no answer.
        return dial_again(to, s);
      } else if (s.code() == Errc::timeout) {
        return dial_again(to, s);  // the kernel's limit, which may be shorter than ours
      }
      return give_up_dial(to, s);
    }
    to.connecting = false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 =
        make_tag(Watched::connection, static_cast<std::size_t>(to.peer), to.generation);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, to.stream.fd(), &event);
  }
  if (to.stood_still && os::take_error(to.stream.fd()) == ETIMEDOUT) {
    return give_up_silent(to, base::format("its host has not answered for {} ms, and no handshake "
                                           "has come; is the network cut or the host down?",
                                           options_.link_timeout.count()));
  }
  Outcome trouble;
  if (!talk(to.stream, *to.handshake, secure::Tls::Role::client, trouble)) {
    // A failure of TLS itself would happen again, so dialling again is of no use.
    if (to.stream.encrypted() && trouble.code() != Errc::peer_lost)
      return give_up_dial(to, trouble);
    return dial_again(to, trouble);
  }
  switch (to.handshake->state()) {
    case secure::Handshake::State::running:
    case secure::Handshake::State::proven:
      to.stood_still = false;
      return watch_dial(to);  // the bytes that we have just sent must arrive, too
    case secure::Handshake::State::accepted: {
      const os::Address address = to.address;
      return open(to, std::move(to.stream), address);
    }
    case secure::Handshake::State::crossed:
      hang_up(to);
      to.link = Connection::Link::promised;
      // Its own dial should be here by then. If it has died meanwhile, dialling again shows it.
      to.next_dial = Clock::now() + kPromiseTime;
      watch_dial(to);
      return;
    case secure::Handshake::State::failed: return give_up_dial(to, to.handshake->failure());
  }
}

void TcpTransport::open(Connection& with, secure::Stream stream, const os::Address& address) {
  with.stream = std::move(stream);
  with.address = address;
  with.handshake.reset();
  with.question = nullptr;
  with.unreachable = Outcome();
  with.stall = os::StallWatch();
  with.link = Connection::Link::open;
  if (base::is_logged(base::Level::debug))
    base::log(base::Level::debug,
              base::format("rank {}: connected with {}{}", options_.identity.rank, who(with.peer),
                           with.stream.encrypted() ? ", TLS" : ""));
  choose_congestion_control(with.stream.fd());
  watch_writable(with, false);
  if (closing_) with.queue.push_leave();
  flush(with);
  note_unread(with);
}

void TcpTransport::check_deadlines(TimePoint now) {
  drop_late_pending(now);
  listen_again();
  // Dialling may end in losing the peer, but never adds to the list.
  for (std::size_t i = 0; i < dials_.size(); ++i) {
    Connection& to = *connections_[static_cast<std::size_t>(dials_[i])];
    const bool open_yet =
        to.link != Connection::Link::dialling && to.link != Connection::Link::promised;
    if (open_yet) continue;
    if (!to.unreachable.ok()) {
      (void)judge_unreachable(to);
    } else if (!to.connecting && to.stream.valid()) {
      await_handshake(to, now);
    } else if (to.dial_deadline <= now) {
      give_up_silent(
          to, base::format("no connection after {} ms{}; is the network cut, its host down, a "
                           "firewall between, or its process stopped and its queue full "
                           "(net.core.somaxconn)?",
                           options_.link_timeout.count(), told_last(to.last_trouble)));
    } else if (to.connecting) {
      // Before the deadline: after it there is no time left for an answer.
      if (to.dial_deadline - now < kAskBefore) ask_first_lost(to);
      if (to.question) (void)to.question();  // it asks the store one thing after the other
    } else if (to.next_dial <= now) {
      to.link = Connection::Link::dialling;
      dial(to);
    }
  }
  std::erase_if(dials_, [this](int peer) {
    Connection& to = *connections_[static_cast<std::size_t>(peer)];
    to.in_dials = (to.link == Connection::Link::dialling && !to.stood_still) ||
                  to.link == Connection::Link::promised;
    return !to.in_dials;
  });
}

}  // namespace tutti::transport
