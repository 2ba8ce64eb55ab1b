#include "store/tcp_server_loop.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "os/socket.hpp"
#include "store/graceful_shutdown.hpp"

// The turns of a server: users that come or are lost, and its end. Requests:
// tcp_server_requests.cpp.
namespace tutti::store {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kAcceptsPerTurn = 32;
constexpr milliseconds kPauseWithoutDescriptors{100};
constexpr milliseconds kPauseWithoutMemory{10};

/// Behind the address of the process that was refused; empty where nobody need hear of it.
std::string text_of_refusal(const secure::Handshake& handshake, std::string_view source) {
  using secure::Refusal;
  switch (handshake.refusal()) {
    case Refusal::other_key:
      return base::format(
          ", which has another secret than this process ({}); it is told what to do", source);
    case Refusal::secret_needed:
      return ", which has no secret, as TUTTI_INSECURE says there; unset it there, or set it for "
             "all processes";
    case Refusal::no_secret:
      return ", which has a secret, but this process has none, as TUTTI_INSECURE says here; unset "
             "it, or set it for all processes";
    case Refusal::encryption_needed:
    case Refusal::no_encryption:
      return ": one of the two encrypts its connections and the other does not; give all "
             "processes the same TUTTI_TLS";
    case Refusal::other_job:
      return ", which belongs to another job, or another start of this one; give each job a port "
             "of its own, and all processes of a job the same name (--rdzv-id, TUTTI_JOB)";
    case Refusal::version: return ", which runs another version of tutti; use one version in a job";
    case Refusal::relayed: return base::format(": {}", handshake.failure().message());
    default: return {};
  }
}

}  // namespace

void TcpServer::Loop::shut() noexcept {
  listener_.reset();
  try {
    std::vector<ClosingConnection> users;
    for (const auto& [id, connection] : connections_) {
      if (connection->open() && !connection->doomed)
        users.push_back({std::move(connection->stream), std::move(connection->out)});
    }
    shut_down_gracefully(std::move(users), options_.shutdown_timeout);
  } catch (const std::exception& error) {  // no memory
    base::log(base::Level::info, error.what());
  }
  connections_.clear();
}

void TcpServer::Loop::run_on_loop() noexcept {
  try {
    while (goes_on_on_loop()) continue;
  } catch (const std::exception& error) {
    base::log(base::Level::error,
              base::format("the store at {} ends: {}", address_.to_string(), error.what()));
  }
}

/// One turn; false: it was the last.
bool TcpServer::Loop::goes_on_on_loop() {
  try {
    const auto now = Clock::now();
    store_table_.expire(now);
    expire_on_loop(now);
    look_for_stalls_on_loop(now);
    read_unread_on_loop();
    deliver_on_loop();
    bury_on_loop();
    if (finished_on_loop(now)) return false;
    // Places may be free again.
    if (resting_ && !places_.full()) watch_arrivals_on_loop(true);
    const Outcome status = events_->run_once(next_deadline_on_loop(now));
    if (!status) {
      base::log(base::Level::error,
                base::format("the store at {} ends: {}", address_.to_string(), status.message()));
    }
    return status.ok();
  } catch (const std::bad_alloc&) {
    return await_memory_on_loop();
  }
}

/// The connection for which there was no memory has ended; the others are served.
bool TcpServer::Loop::await_memory_on_loop() {
  try {
    return events_->run_once(Clock::now() + kPauseWithoutMemory).ok();
  } catch (const std::bad_alloc&) {
    return true;  // another one has ended
  }
}

bool TcpServer::Loop::finished_on_loop(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!close_at_) return false;
  if (now >= *close_at_) return true;
  const bool all_came = !options_.users || departed_ >= base::as_size(*options_.users);
  const bool too_late = options_.come_by && now >= *options_.come_by;
  return open_count_ == 0 && (all_came || too_late);
}

/// `now`: as finished_on_loop has just seen it, so that none falls in between.
auto TcpServer::Loop::next_deadline_on_loop(Clock::time_point now)
    -> std::optional<Clock::time_point> {
  if (!unread_.empty()) return Clock::time_point();  // at once
  std::optional<Clock::time_point> next = store_table_.next_deadline();
  const auto consider = [&](const std::optional<Clock::time_point>& other) {
    if (other && (!next || *other < *next)) next = other;
  };
  if (!pending_.empty()) consider(pending_.front().first);
  if (!pending_.empty() && places_.full()) consider(next_look_when_full_);
  consider(listen_again_at_);
  if (!stall_watched_.empty()) consider(next_stall_look_);
  const std::lock_guard lock(mutex_);
  consider(close_at_);
  // Once it is past it is no time to wait for.
  if (close_at_ && options_.come_by && now < *options_.come_by) consider(options_.come_by);
  return next;
}

void TcpServer::Loop::accept_on_loop() {
  for (std::size_t i = 0; i < kAcceptsPerTurn; ++i) {
    const auto room = places_.room();
    if (room == secure::PendingPlaces::Room::no_place) return watch_arrivals_on_loop(false);
    if (room == secure::PendingPlaces::Room::no_descriptor) {
      return rest_on_loop(
          base::format("the store at {} takes no more connections for now: this process has too "
                       "many open files; allow it more (ulimit -n)",
                       address_.to_string()));
    }
    auto accepted = os::accept_connection(listener_.get());
    if (!accepted) return rest_on_loop(accepted.status().message());
    if (!accepted->valid()) return;
    auto connection = std::make_unique<Connection>();
    secure::Nonce nonce;
    if (Outcome status = secure::random_bytes(nonce); !status) {
      base::log_limited(base::Level::error, "store.nonce", status.message());
      continue;
    }
    auto arrived = os::local_address(accepted->get());
    if (!arrived) continue;
    connection->handshake = secure::Handshake::acceptor(party(), nonce, *arrived);
    connection->stream = secure::Stream(std::move(*accepted));
    const int fd = connection->stream.fd();
    auto peer = os::peer_address(fd);
    connection->peer = peer ? peer->to_string() : "a peer that is gone";
    if (!os::set_no_delay(fd) || !os::set_keep_alive(fd, options_.link_timeout)) continue;
    const Id id = connection->id = next_id_++;
    if (!events_->add(fd, EPOLLIN, [this, id](std::uint32_t events) { ready_on_loop(id, events); }))
      continue;
    pending_.emplace_back(Clock::now() + options_.hello_timeout, id);
    connections_.emplace(id, std::move(connection));
    places_.take();
  }
}

/// The connection that waits keeps the listener ready, so look away a while.
void TcpServer::Loop::rest_on_loop(std::string_view why) {
  places_.run_out_of_descriptors();
  base::log_limited(base::Level::warning, "store.accept", why);
  listen_again_at_ = Clock::now() + kPauseWithoutDescriptors;
  watch_arrivals_on_loop(false);
}

void TcpServer::Loop::watch_arrivals_on_loop(bool on) {
  if (on && listen_again_at_) return;
  resting_ = !on;
  if (Outcome status = events_->modify(listener_.get(), on ? std::uint32_t{EPOLLIN} : 0U); !status)
    base::log(base::Level::error, status.message());
}

void TcpServer::Loop::expire_on_loop(Clock::time_point now) {
  if (places_.full() && now >= next_look_when_full_) {
    next_look_when_full_ = now + kFullLookPause;
    for (const auto& [deadline, id] : pending_) {
      if (is_late(id, now))
        doom_on_loop(*connections_.at(id), "not proven in time, and others wait for its place");
    }
  }
  if (listen_again_at_ && now >= *listen_again_at_) {
    listen_again_at_.reset();
    places_.try_again();
  }
  while (!pending_.empty()) {
    const auto entry = connections_.find(pending_.front().second);
    const bool unproven = entry != connections_.end() && !entry->second->open();
    if (unproven && now < pending_.front().first) return;
    if (unproven) doom_on_loop(*entry->second, "said no valid hello in time");
    pending_.pop_front();
  }
}

bool TcpServer::Loop::is_late(Id id, Clock::time_point now) const {
  const auto entry = connections_.find(id);
  return entry != connections_.end() && !entry->second->open() && !entry->second->doomed &&
         now >= places_.deadline(entry->second->times);
}

void TcpServer::Loop::look_for_stalls_on_loop(Clock::time_point now) {
  if (stall_watched_.empty() || now < next_stall_look_) return;
  next_stall_look_ = now + kStallLookPause;
  std::erase_if(stall_watched_, [&](Id id) {
    const auto entry = connections_.find(id);
    if (entry == connections_.end() || entry->second->doomed) return true;
    Connection& connection = *entry->second;
    const auto verdict = connection.stall.look(connection.stream.fd(), now, options_.link_timeout);
    connection.stall_watched = verdict == os::StallWatch::Verdict::waiting;
    if (verdict == os::StallWatch::Verdict::dead) {
      doom_on_loop(connection, base::format("its host has not answered for {} ms",
                                            connection.stall.silence().count()));
    }
    return !connection.stall_watched;
  });
}

void TcpServer::Loop::ready_on_loop(Id id, std::uint32_t events) {
  const auto entry = connections_.find(id);
  if (entry == connections_.end() || entry->second->doomed) return;
  Connection& connection = *entry->second;
  try {
    if ((events & EPOLLOUT) != 0) flush_on_loop(connection);
    if (!connection.doomed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
      read_on_loop(id, connection);
    if (!connection.doomed) update_watch_on_loop(connection);
  } catch (const std::exception& error) {
    // Most likely no memory for what this one sends; the others need not suffer.
    doom_on_loop(connection, error.what());
  }
}

void TcpServer::Loop::read_handshake_on_loop(Connection& connection) {
  // Exactly what is missing and no more: an unproven peer never makes us keep more than one frame.
  while (!connection.open() && !connection.doomed) {
    std::array<std::byte, secure::kHelloBytes> buffer{};
    const std::size_t wanted = std::min(buffer.size(), connection.handshake->wanted());
    const secure::Moved got = connection.stream.read_some(std::span(buffer).first(wanted));
    if (got.error != 0 || got.ended) {
      doom_on_loop(connection, connection.stream.trouble().empty()
                                   ? "closed the connection before it was known"
                                   : connection.stream.trouble());
      return;
    }
    if (got.bytes == 0) return;
    connection.handshake->feed(std::span(buffer).first(got.bytes));
    advance_handshake_on_loop(connection);
  }
}

void TcpServer::Loop::advance_handshake_on_loop(Connection& connection) {
  secure::Handshake& handshake = *connection.handshake;
  connection.times.look(handshake, Clock::now());
  const bool proven = handshake.state() == secure::Handshake::State::proven;
  if (proven) handshake.conclude(secure::Refusal::none);
  const auto words = handshake.outgoing();
  if (!words.empty()) send_on_loop(connection, {words.begin(), words.end()});
  handshake.sent(words.size());
  if (connection.doomed) return;
  if (handshake.state() == secure::Handshake::State::failed) {
    refuse_on_loop(connection);
  } else if (proven) {
    connection.handshake.reset();
    places_.release();
    ++open_count_;
  } else if (handshake.wants_encryption()) {
    auto key = handshake.key_of_encryption();
    const Outcome status =
        key ? connection.stream.encrypt(*key, {secure::Tls::Role::server, secure::Tls::Use::quiet})
            : key.status();
    if (!status) return doom_on_loop(connection, status.message());
    handshake.repeat();
  }
}

void TcpServer::Loop::refuse_on_loop(Connection& connection) {
  const secure::Handshake& handshake = *connection.handshake;
  const secure::Refusal refusal = handshake.refusal();
  const std::string why = text_of_refusal(handshake, options_.secret_source);
  // Beside a launcher's store, ranks of other jobs look for theirs here.
  const bool awaited = secure::differs_within_job(refusal) || options_.told.port() == 0;
  // The user is told, too, but the others wait for it until their time is over.
  if (!why.empty() && (awaited || refusal == secure::Refusal::relayed)) {
    const std::string text = base::format("the store at {} has refused {}{}", address_.to_string(),
                                          connection.peer, why);
    base::log_limited(base::Level::warning, secure::to_string(refusal), text);
    if (awaited && !options_.when_refused.key.empty())
      wills_.emplace_back(options_.when_refused.key, options_.when_refused.begin + text);
  }
  doom_on_loop(connection, handshake.failure().message());
}

void TcpServer::Loop::update_watch_on_loop(Connection& connection) {
  std::uint32_t wanted = 0;
  if (takes_requests(connection)) wanted |= EPOLLIN;
  if (!connection.out.empty() || connection.stream.unsent() > 0) wanted |= EPOLLOUT;
  if ((wanted & EPOLLIN) != 0 && !connection.unread &&
      (connection.stopped || connection.stream.may_have_unread())) {
    connection.unread = true;
    unread_.push_back(connection.id);
  }
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  if (Outcome status = events_->modify(connection.stream.fd(), wanted); !status)
    doom_on_loop(connection, status.message());
}

void TcpServer::Loop::doom_on_loop(Connection& connection, std::string_view why) {
  if (connection.doomed) return;
  // Buried at the end of the turn: callers up the stack still hold the reference.
  connection.doomed = true;
  anyone_doomed_ = true;
  // At once: what others push or set until then must not be given to him.
  for (const auto& [ticket, request_id] : connection.waiting) {
    store_table_.cancel(ticket);
    owners_.erase(ticket);
  }
  connection.waiting.clear();
  if (connection.left) return;
  if (connection.open()) {
    base::log(base::Level::info, base::format("the store at {} has lost user {}: {}",
                                              address_.to_string(), connection.peer, why));
  } else {
    base::log_limited(base::Level::info, "store.pending",
                      base::format("the store at {} has dropped a connection from {}: {}",
                                   address_.to_string(), connection.peer, why));
  }
}

void TcpServer::Loop::bury_on_loop() {
  // A user that is told of a will may turn out to be lost as well.
  while (anyone_doomed_ || !wills_.empty()) {
    if (anyone_doomed_) bury_doomed_on_loop();
    for (; !wills_.empty(); wills_.pop_back()) {
      if (Outcome status = store_table_.set_if_absent(wills_.back().first, wills_.back().second);
          !status)
        base::log(base::Level::warning, status.message());
    }
    deliver_on_loop();
  }
}

void TcpServer::Loop::bury_doomed_on_loop() {
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    Connection& connection = *entry->second;
    if (!connection.doomed) {
      ++entry;
      continue;
    }
    wills_.reserve(wills_.size() + connection.wills.size());  // what follows cannot fail
    if (connection.open()) {
      --open_count_;
      ++departed_;
    } else {
      places_.release();
    }
    events_->remove(connection.stream.fd());
    store_table_.release(connection.held);
    std::ranges::move(connection.wills, std::back_inserter(wills_));
    entry = connections_.erase(entry);
  }
  anyone_doomed_ = false;
}

}  // namespace tutti::store
