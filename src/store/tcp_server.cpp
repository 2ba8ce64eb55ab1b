#include "store/tcp_server.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/deadline.hpp"
#include "base/forks.hpp"
#include "base/log.hpp"
#include "os/event_loop.hpp"
#include "os/socket.hpp"
#include "secure/stream.hpp"
#include "store/answer_queue.hpp"
#include "store/broker.hpp"
#include "store/credentials.hpp"
#include "store/farewell.hpp"
#include "store/wire.hpp"

namespace tutti::store {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What one user may bring in before the others have their turn.
constexpr std::size_t kReadsPerTurn = 16;
// So many answers unread: no more requests are read from this user.
constexpr std::size_t kStopReadingBytes = std::size_t{64} << 20;
constexpr std::size_t kAcceptsPerTurn = 32;
constexpr milliseconds kPauseWithoutDescriptors{100};

/// Once per job, however many groups it makes.
void warn_without_secret(const os::Address& address, const std::string& job) {
  struct Warned {
    base::ForkMutex mutex;
    std::set<std::string> jobs;
  };
  static auto* const warned = new Warned;  // never destroyed: stores may be served at exit
  {
    const std::lock_guard lock(warned->mutex);
    if (!warned->jobs.insert(fmt::format("{} {}", address.to_string(), job)).second) return;
  }
  base::log(base::Level::warning,
            fmt::format("the store at {} has no secret (TUTTI_INSECURE=1): anybody who reaches "
                        "this port can join, read and change data",
                        address.to_string()));
}

}  // namespace

/// Everything behind the thread. Only `closing_` is touched from outside.
class TcpServer::Loop {
 public:
  Loop(TcpServerOptions options, os::Fd listener, os::Address address,
       std::unique_ptr<os::EventLoop> events)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        address_(address),
        events_(std::move(events)),
        broker_(options_.limits) {}

  Status watch_listener() {
    return events_->add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_on_loop(); });
  }
  void run_on_loop() noexcept;
  void close(milliseconds linger) {
    const std::lock_guard lock(mutex_);
    if (!close_at_) close_at_ = base::deadline_after(Clock::now(), linger);
    events_->wake();
  }
  [[nodiscard]] const os::Address& address() const noexcept { return address_; }
  /// Frees the port, says farewell to those who are left and hangs up; when the thread has ended.
  void shut() noexcept;

 private:
  using Id = std::uint64_t;
  struct Connection {
    std::uint64_t id = 0;
    secure::Stream stream;
    std::string peer;
    std::optional<secure::Handshake> handshake;  // until the user is known
    bool doomed = false;
    bool left = false;
    bool unread = false;  // listed: its socket may not tell of all that has come
    std::uint32_t watched = EPOLLIN;

    [[nodiscard]] bool open() const noexcept { return !handshake; }

    std::vector<std::byte> in;
    std::size_t in_used = 0;  // bytes at the front of `in` that are done with
    AnswerQueue out;

    std::unordered_map<Broker::Ticket, std::uint64_t> waiting;  // ticket -> request id
    // What is set when this user is lost. Few: kMaxWills.
    std::vector<std::pair<std::string, std::string>> wills;
  };

  [[nodiscard]] Credentials credentials() const noexcept {
    return {options_.secret, options_.job, options_.generation, options_.encrypt,
            options_.secret_source};
  }
  [[nodiscard]] bool finished_on_loop(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline_on_loop(Clock::time_point now);
  void accept_on_loop();
  void expire_on_loop(Clock::time_point now);
  void ready_on_loop(Id id, std::uint32_t events);
  void read_on_loop(Id id, Connection& connection);
  void read_unread_on_loop();
  void read_handshake_on_loop(Connection& connection);
  void advance_handshake_on_loop(Connection& connection);
  void refuse_on_loop(Connection& connection);
  void handle_frames_on_loop(Id id, Connection& connection);
  void handle_request_on_loop(Id id, Connection& connection, const FrameHeader& header,
                              Request request);
  void deliver_on_loop();
  Response enroll_on_loop(Connection& connection, Request request);
  static Response change_wills(Connection& connection, Request request);
  void respond_on_loop(Connection& connection, const Response& response, std::uint64_t request_id);
  void send_on_loop(Connection& connection, std::vector<std::byte> bytes);
  void flush_on_loop(Connection& connection);
  void update_watch_on_loop(Connection& connection);
  void doom_on_loop(Connection& connection, std::string_view why);
  void bury_on_loop();
  /// Takes leave of all who are doomed; returns their wills.
  std::vector<std::pair<std::string, std::string>> bury_doomed_on_loop();

  TcpServerOptions options_;
  os::Fd listener_;
  os::Address address_;
  std::unique_ptr<os::EventLoop> events_;
  Broker broker_;
  std::array<std::byte, kReadBytes> scratch_;  // what has just been read, of whomever
  Broker::Ticket next_ticket_ = 1;
  Id next_id_ = 1;
  std::unordered_map<Id, std::unique_ptr<Connection>> connections_;
  std::unordered_map<Broker::Ticket, Id> owners_;
  std::deque<std::pair<Clock::time_point, Id>> strangers_;  // by deadline; proven ones drop out
  std::vector<Id> unread_;
  std::size_t stranger_count_ = 0;
  std::size_t open_count_ = 0;
  std::size_t departed_ = 0;
  bool anyone_doomed_ = false;
  std::optional<Clock::time_point> listen_again_at_;

  std::mutex mutex_;
  std::optional<Clock::time_point> close_at_;  // guarded by mutex_
};

void TcpServer::Loop::shut() noexcept {
  listener_.reset();
  try {
    std::vector<Parting> users;
    for (const auto& [id, connection] : connections_) {
      if (connection->open() && !connection->doomed)
        users.push_back({std::move(connection->stream), std::move(connection->out)});
    }
    part_from(std::move(users), options_.farewell_timeout);
  } catch (const std::exception& error) {  // no memory
    base::log(base::Level::info, error.what());
  }
  connections_.clear();
}

void TcpServer::Loop::run_on_loop() noexcept {
  try {
    while (true) {
      const auto now = Clock::now();
      broker_.expire(now);
      expire_on_loop(now);
      read_unread_on_loop();
      deliver_on_loop();
      bury_on_loop();
      if (finished_on_loop(now)) return;
      if (Status status = events_->run_once(next_deadline_on_loop(now)); !status) {
        base::log(base::Level::error,
                  fmt::format("the store at {} ends: {}", address_.to_string(), status.message()));
        return;
      }
    }
  } catch (const std::exception& error) {
    base::log(base::Level::error,
              fmt::format("the store at {} ends: {}", address_.to_string(), error.what()));
  }
}

bool TcpServer::Loop::finished_on_loop(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!close_at_) return false;
  if (now >= *close_at_) return true;
  const bool all_came = !options_.users || departed_ >= static_cast<std::size_t>(*options_.users);
  const bool too_late = options_.come_by && now >= *options_.come_by;
  return open_count_ == 0 && (all_came || too_late);
}

/// `now`: as finished_on_loop has just seen it, so that none falls in between.
std::optional<Clock::time_point> TcpServer::Loop::next_deadline_on_loop(Clock::time_point now) {
  if (!unread_.empty()) return Clock::time_point();  // at once
  std::optional<Clock::time_point> next = broker_.next_deadline();
  const auto consider = [&](const std::optional<Clock::time_point>& other) {
    if (other && (!next || *other < *next)) next = other;
  };
  if (!strangers_.empty()) consider(strangers_.front().first);
  consider(listen_again_at_);
  const std::lock_guard lock(mutex_);
  consider(close_at_);
  // Once it is past it is no time to wait for.
  if (close_at_ && options_.come_by && now < *options_.come_by) consider(options_.come_by);
  return next;
}

void TcpServer::Loop::accept_on_loop() {
  for (std::size_t i = 0; i < kAcceptsPerTurn; ++i) {
    auto accepted = os::accept_connection(listener_.get());
    if (!accepted) {
      // Out of descriptors: the waiting connection keeps the listener ready, so look away a while.
      base::log_limited(base::Level::warning, "store.accept", accepted.status().message());
      listen_again_at_ = Clock::now() + kPauseWithoutDescriptors;
      if (Status status = events_->modify(listener_.get(), 0); !status)
        base::log(base::Level::error, status.message());
      return;
    }
    if (!accepted->valid()) return;
    auto connection = std::make_unique<Connection>();
    secure::Nonce nonce;
    if (Status status = secure::random_bytes(nonce); !status) {
      base::log_limited(base::Level::error, "store.nonce", status.message());
      continue;
    }
    connection->handshake = secure::Handshake::acceptor(credentials().party(), nonce);
    connection->stream = secure::Stream(std::move(*accepted));
    const int fd = connection->stream.fd();
    auto peer = os::peer_address(fd);
    connection->peer = peer ? peer->to_string() : "a peer that is gone";
    if (!os::set_no_delay(fd) || !os::set_keep_alive(fd)) continue;
    const Id id = connection->id = next_id_++;
    if (!events_->add(fd, EPOLLIN, [this, id](std::uint32_t events) { ready_on_loop(id, events); }))
      continue;
    connections_.emplace(id, std::move(connection));
    strangers_.emplace_back(Clock::now() + options_.hello_timeout, id);
    if (++stranger_count_ > options_.max_strangers) {
      const auto oldest = std::ranges::find_if(strangers_, [&](const auto& entry) {
        const auto found = connections_.find(entry.second);
        return found != connections_.end() && !found->second->open() && !found->second->doomed;
      });
      doom_on_loop(*connections_.at(oldest->second), "too many unproven connections");
    }
  }
}

void TcpServer::Loop::expire_on_loop(Clock::time_point now) {
  if (listen_again_at_ && now >= *listen_again_at_) {
    listen_again_at_.reset();
    if (Status status = events_->modify(listener_.get(), EPOLLIN); !status)
      base::log(base::Level::error, status.message());
  }
  while (!strangers_.empty()) {
    const auto entry = connections_.find(strangers_.front().second);
    const bool unproven = entry != connections_.end() && !entry->second->open();
    if (unproven && now < strangers_.front().first) return;
    if (unproven) doom_on_loop(*entry->second, "said no valid hello in time");
    strangers_.pop_front();
  }
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

void TcpServer::Loop::read_on_loop(Id id, Connection& connection) {
  if (!connection.open()) {
    read_handshake_on_loop(connection);
    return;
  }
  for (std::size_t i = 0; i < kReadsPerTurn && !connection.doomed; ++i) {
    const secure::Moved got = connection.stream.read_some(scratch_);
    if (got.error != 0 || got.ended) {
      doom_on_loop(connection, got.ended
                                   ? "closed the connection"
                                   : connection.stream.status_of(got, "cannot receive").message());
      return;
    }
    connection.in.insert(connection.in.end(), scratch_.begin(),
                         scratch_.begin() + static_cast<std::ptrdiff_t>(got.bytes));
    if (got.bytes == 0) return;
    handle_frames_on_loop(id, connection);
    if (got.bytes < kReadBytes || connection.out.bytes() > kStopReadingBytes) return;
  }
}

void TcpServer::Loop::read_unread_on_loop() {
  for (const Id id : std::exchange(unread_, {})) {
    const auto entry = connections_.find(id);
    if (entry == connections_.end()) continue;
    entry->second->unread = false;
    ready_on_loop(id, EPOLLIN);
  }
}

void TcpServer::Loop::read_handshake_on_loop(Connection& connection) {
  // Exactly what is missing and no more: a stranger never makes us keep more than one frame.
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
    --stranger_count_;
    ++open_count_;
  } else if (handshake.wants_encryption()) {
    auto key = handshake.key_of_encryption();
    const Status status =
        key ? connection.stream.encrypt(*key, {secure::Tls::Role::server, secure::Tls::Use::quiet})
            : key.status();
    if (!status) return doom_on_loop(connection, status.message());
    handshake.repeat();
  }
}

void TcpServer::Loop::refuse_on_loop(Connection& connection) {
  // The user is told, too, but the others wait for it until their time is over.
  const auto warn = [&](const char* name, const std::string& why) {
    base::log_limited(base::Level::warning, name,
                      fmt::format("the store at {} has refused {}{}", address_.to_string(),
                                  connection.peer, why));
  };
  const secure::Refusal refusal = connection.handshake->refusal();
  if (refusal == secure::Refusal::other_key) {
    warn("store.key", fmt::format(", which has another secret than this process ({}); it is told "
                                  "what to do",
                                  options_.secret_source));
  }
  if (refusal == secure::Refusal::encryption_needed || refusal == secure::Refusal::no_encryption) {
    warn("store.encryption",
         ": one of the two encrypts its connections and the other does not; give all processes "
         "the same TUTTI_TLS");
  }
  doom_on_loop(connection, connection.handshake->failure().message());
}

void TcpServer::Loop::handle_frames_on_loop(Id id, Connection& connection) {
  while (!connection.doomed) {
    const std::span<const std::byte> bytes =
        std::span<const std::byte>(connection.in).subspan(connection.in_used);
    if (bytes.size() < kHeaderBytes) break;
    auto header = parse_header(bytes.first<kHeaderBytes>(), options_.limits);
    if (!header) {
      doom_on_loop(connection, header.status().message());
      return;
    }
    if (bytes.size() < kHeaderBytes + header->body_bytes) break;
    auto request =
        parse_request(*header, bytes.subspan(kHeaderBytes, header->body_bytes), options_.limits);
    if (!request) {
      doom_on_loop(connection, request.status().message());
      return;
    }
    connection.in_used += kHeaderBytes + header->body_bytes;
    handle_request_on_loop(id, connection, *header, std::move(*request));
  }
  // Moved to the front only when most of the buffer is done with, so that bytes move once.
  if (connection.in_used > 0 && connection.in_used * 2 >= connection.in.size()) {
    connection.in.erase(connection.in.begin(),
                        connection.in.begin() + static_cast<std::ptrdiff_t>(connection.in_used));
    connection.in_used = 0;
    if (connection.in.empty() && connection.in.capacity() > 4 * kReadBytes)
      connection.in.shrink_to_fit();
  }
}

void TcpServer::Loop::handle_request_on_loop(Id id, Connection& connection,
                                             const FrameHeader& header, Request request) {
  if (request.op == Op::leave) {
    connection.left = true;
    connection.wills.clear();
    respond_on_loop(connection, {}, header.id);
    return;
  }
  if (request.op == Op::set_will || request.op == Op::drop_will) {
    respond_on_loop(connection, change_wills(connection, std::move(request)), header.id);
    return;
  }
  if (request.op == Op::enroll) {
    respond_on_loop(connection, enroll_on_loop(connection, std::move(request)), header.id);
    deliver_on_loop();
    return;
  }
  if (connection.waiting.size() >= options_.max_waiting) {
    Response response;
    response.code = Errc::store;
    response.text = fmt::format("{} requests of this process wait already", options_.max_waiting);
    respond_on_loop(connection, response, header.id);
    return;
  }
  const Broker::Ticket ticket = next_ticket_++;
  if (auto response = broker_.submit(std::move(request), ticket, Clock::now())) {
    respond_on_loop(connection, *response, header.id);
  } else {
    connection.waiting.emplace(ticket, header.id);
    owners_.emplace(ticket, id);
  }
  deliver_on_loop();
}

Response TcpServer::Loop::enroll_on_loop(Connection& connection, Request request) {
  Request add;
  add.op = Op::add;
  add.keys = {request.keys[0]};
  add.amount = 1;
  Response counted = *broker_.submit(std::move(add), next_ticket_++, Clock::now());
  if (counted.code != Errc::ok) return counted;
  Request will;
  will.op = Op::set_will;
  will.keys = {fmt::format("{}{}{}", request.keys[1], counted.number, request.keys[2])};
  will.values = std::move(request.values);
  Response left = change_wills(connection, std::move(will));
  return left.code == Errc::ok ? counted : left;
}

Response TcpServer::Loop::change_wills(Connection& connection, Request request) {
  std::erase_if(connection.wills, [&](const auto& will) { return will.first == request.keys[0]; });
  if (request.op == Op::drop_will) return {};
  Response response;
  if (connection.wills.size() >= Store::kMaxWills) {
    response.code = Errc::store;
    response.text = fmt::format("this process has {} wills already", Store::kMaxWills);
    return response;
  }
  if (request.values[0].size() > Store::kMaxWillBytes) {
    response.code = Errc::invalid_argument;
    response.text = fmt::format("a will of {} bytes is too long, {} is the limit",
                                request.values[0].size(), Store::kMaxWillBytes);
    return response;
  }
  connection.wills.emplace_back(std::move(request.keys[0]), std::move(request.values[0]));
  return response;
}

void TcpServer::Loop::deliver_on_loop() {
  for (const auto& [ticket, response] : broker_.take_answers()) {
    const auto owner = owners_.find(ticket);
    if (owner == owners_.end()) continue;  // doomed by an answer before this one
    Connection& connection = *connections_.at(owner->second);
    owners_.erase(owner);
    const auto waiting = connection.waiting.find(ticket);
    const std::uint64_t request_id = waiting->second;
    connection.waiting.erase(waiting);
    respond_on_loop(connection, response, request_id);
    if (!connection.doomed) update_watch_on_loop(connection);
  }
}

void TcpServer::Loop::respond_on_loop(Connection& connection, const Response& response,
                                      std::uint64_t request_id) {
  send_on_loop(connection, encode_response(response, request_id, options_.limits));
}

void TcpServer::Loop::send_on_loop(Connection& connection, std::vector<std::byte> bytes) {
  if (!connection.out.empty() &&
      connection.out.bytes() + bytes.size() > options_.max_unread_bytes) {
    doom_on_loop(connection, "does not read its answers");
    return;
  }
  connection.out.push(std::move(bytes));
  flush_on_loop(connection);
}

void TcpServer::Loop::flush_on_loop(Connection& connection) {
  const secure::Moved sent = connection.out.flush(connection.stream);
  if (sent.error != 0)
    doom_on_loop(connection, connection.stream.status_of(sent, "cannot send").message());
}

void TcpServer::Loop::update_watch_on_loop(Connection& connection) {
  std::uint32_t wanted = 0;
  if (connection.out.bytes() <= kStopReadingBytes) wanted |= EPOLLIN;
  if (!connection.out.empty() || connection.stream.unsent() > 0) wanted |= EPOLLOUT;
  if ((wanted & EPOLLIN) != 0 && !connection.unread && connection.stream.may_have_unread()) {
    connection.unread = true;
    unread_.push_back(connection.id);
  }
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  if (Status status = events_->modify(connection.stream.fd(), wanted); !status)
    doom_on_loop(connection, status.message());
}

void TcpServer::Loop::doom_on_loop(Connection& connection, std::string_view why) {
  if (connection.doomed) return;
  // Buried at the end of the turn: callers up the stack still hold the reference.
  connection.doomed = true;
  anyone_doomed_ = true;
  // At once: what others push or set until then must not be given to him.
  for (const auto& [ticket, request_id] : connection.waiting) {
    broker_.cancel(ticket);
    owners_.erase(ticket);
  }
  connection.waiting.clear();
  if (connection.left) return;
  if (connection.open()) {
    base::log(base::Level::info, fmt::format("the store at {} has lost user {}: {}",
                                             address_.to_string(), connection.peer, why));
  } else {
    base::log_limited(base::Level::info, "store.stranger",
                      fmt::format("the store at {} has dropped a connection from {}: {}",
                                  address_.to_string(), connection.peer, why));
  }
}

void TcpServer::Loop::bury_on_loop() {
  // Whoever is told of a will may turn out to be lost as well.
  while (std::exchange(anyone_doomed_, false)) {
    for (auto& [key, text] : bury_doomed_on_loop()) {
      if (Status status = broker_.set_if_absent(key, std::move(text)); !status)
        base::log(base::Level::warning, status.message());
    }
    deliver_on_loop();
  }
}

std::vector<std::pair<std::string, std::string>> TcpServer::Loop::bury_doomed_on_loop() {
  std::vector<std::pair<std::string, std::string>> wills;
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    Connection& connection = *entry->second;
    if (!connection.doomed) {
      ++entry;
      continue;
    }
    if (connection.open()) {
      --open_count_;
      ++departed_;
    } else {
      --stranger_count_;
    }
    events_->remove(connection.stream.fd());
    std::ranges::move(connection.wills, std::back_inserter(wills));
    entry = connections_.erase(entry);
  }
  return wills;
}

TcpServer::TcpServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {
  // Signals belong to the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([raw = loop_.get()] { raw->run_on_loop(); });
  pthread_setname_np(thread_.native_handle(), "tutti-store");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Result<std::unique_ptr<TcpServer>> TcpServer::start(TcpServerOptions options) {
  if (options.encrypt) {
    if (Status status = secure::check_can_encrypt(options.secret); !status) return status;
  }
  auto listener = os::listen_tcp(options.address);
  if (!listener) return listener.status();
  auto address = os::local_address(listener->get());
  if (!address) return address.status();
  if (options.secret.empty()) warn_without_secret(*address, options.job);
  auto events = os::EventLoop::create();
  if (!events) return events.status();
  auto loop = std::make_unique<Loop>(std::move(options), std::move(*listener), *address,
                                     std::move(*events));
  if (Status status = loop->watch_listener(); !status) return status;
  return std::unique_ptr<TcpServer>(new TcpServer(std::move(loop)));
}

TcpServer::~TcpServer() { close(milliseconds::zero()); }

const os::Address& TcpServer::address() const noexcept { return loop_->address(); }

void TcpServer::close(milliseconds linger) {
  if (!thread_.joinable()) return;
  loop_->close(linger);
  thread_.join();
  loop_->shut();
}

}  // namespace tutti::store
