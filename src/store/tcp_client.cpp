#include "store/tcp_client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "store/wire.hpp"

namespace tutti::store {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

// The server watches the timeouts of requests. After a timeout it gets this time to answer. If it
// has died, or its host answers nothing, the connection shows it.
constexpr milliseconds kSlack = 2s;

// The time between two checks for data that the server's host has not acknowledged, and between two
// checks of a quiet connection (another thread may send meanwhile).
constexpr milliseconds kStallPause = 100ms;
constexpr milliseconds kQuietPause = 500ms;

// The most reads after a server has hung up: more than kernels keep for a connection (64 MiB). The
// announcement of its graceful shutdown comes after all answers.
constexpr int kLastReads = 1024;

Response broken_response(const std::string& why) {
  Response response;
  response.code = Errc::store;
  response.text = why;
  return response;
}

Response silent_response(const std::string& name) {
  Response response;
  response.code = Errc::timeout;
  response.text = base::format(
      "the store at {} has not answered in time; is the process that serves it (rank 0, or "
      "tuttirun) stopped, or the network cut?",
      name);
  return response;
}

/// Held for a moment only; but below a signal handler that ends the process its holder may be this
/// very thread. Not owned: the deadline has passed.
std::unique_lock<std::mutex> lock_until(std::mutex& mutex, os::Deadline deadline) {
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock() && Clock::now() < deadline) {
    (void)os::wait_ready(-1, 0, std::min(deadline, Clock::now() + 1ms));
    (void)lock.try_lock();
  }
  return lock;
}

}  // namespace

Response TcpClient::first_answer(os::Deadline deadline) {
  Lock lock(mutex_);
  return await(kFirstId, deadline, /*breaks=*/false, lock);
}

Response TcpClient::call(const Request& request, os::Deadline deadline, milliseconds longest) {
  while (true) {
    const auto now = Clock::now();
    const bool last = deadline - now <= longest;
    Response response = ask(request, last ? deadline : now + longest, kSlack);
    if (last || response.code != Errc::timeout) return response;
  }
}

Response TcpClient::ask(const Request& request, os::Deadline deadline, milliseconds slack) {
  const auto now = Clock::now();
  const auto timeout = std::max(deadline - now, Clock::duration::zero());
  Request timed = request;
  timed.timeout_ms = static_cast<std::uint32_t>(
      std::min<std::int64_t>(std::chrono::ceil<milliseconds>(timeout).count(), UINT32_MAX));
  // An answer that nobody waits for any more is ignored. But that of a pop has a value that nobody
  // else gets, and half a frame must not be the last one. These end the connection, so they wait as
  // long as a network may be cut.
  const bool pops = request.op == Op::queue_pop || request.op == Op::queue_try_pop;
  const os::Deadline last =
      now + timeout + (slack == slack.zero() ? slack : std::max(slack, link_timeout_));
  const os::Deadline give_up = pops ? last : now + timeout + slack;

  Lock lock = lock_until(mutex_, give_up);
  if (!lock.owns_lock())
    return broken_response("another call of this process holds the connection");
  // Others may send a lot, and have more time for it than we.
  if (!changed_.wait_until(lock, give_up, [this] { return broken_ || !somebody_sends_; }))
    return silent_response(name_);
  if (broken_) return broken_response(*broken_);
  const std::uint64_t id = next_id_++;
  const std::vector<std::byte> frame = encode_request(timed, id);
  slots_.emplace(id, std::nullopt);
  send_alone(frame, last, lock);
  return await(id, give_up, pops, lock);
}

void TcpClient::send_alone(std::span<const std::byte> bytes, os::Deadline deadline, Lock& lock) {
  somebody_sends_ = true;
  lock.unlock();
  Outcome sent;
  bool no_memory = false;
  try {
    sent = send(bytes, deadline);
  } catch (const std::bad_alloc&) {
    no_memory = true;
  }
  lock.lock();
  somebody_sends_ = false;
  if (no_memory) {
    run_out_locked();
  } else if (!sent) {
    // The server's last words before it hung up on us are still there: a graceful shutdown,
    // perhaps.
    for (int i = 0; i < kLastReads && !broken_ && !somebody_reads_; ++i)
      read_for_all(Clock::now(), lock);
    // Half a frame may be out: nothing sensible can follow it.
    lose_locked(sent);
  }
  changed_.notify_all();
}

Outcome TcpClient::send(std::span<const std::byte> bytes, os::Deadline deadline) {
  while (true) {
    {
      // Only while nothing waits: the reading thread needs it, too.
      const Lock lock = lock_until(stream_mutex_, deadline);
      if (!lock.owns_lock()) break;
      const secure::Moved moved = stream_.write_some(bytes);
      if (moved.error != 0) return stream_.status_of(moved, "cannot send");
      bytes = bytes.subspan(moved.bytes);
      if (bytes.empty() && stream_.unsent() == 0) return {};
    }
    auto ready = wait_watching(POLLOUT, deadline);
    if (!ready) return ready.status();
    if (!*ready) break;
  }
  return Outcome(Errc::timeout, "cannot send: the deadline has passed");
}

Response TcpClient::await(std::uint64_t id, os::Deadline give_up, bool breaks, Lock& lock) {
  while (true) {
    const auto slot = slots_.find(id);
    if (slot->second) {
      Response response = *std::move(slot->second);
      slots_.erase(slot);
      return response;
    }
    if (!broken_ && Clock::now() >= give_up) {
      if (!breaks) {
        slots_.erase(slot);
        return silent_response(name_);
      }
      give_up_locked();
    }
    if (broken_) {
      slots_.erase(slot);
      return broken_response(*broken_);
    }
    if (somebody_reads_) {
      changed_.wait_until(lock, give_up);
      continue;
    }
    read_for_all(give_up, lock);
  }
}

void TcpClient::read_for_all(os::Deadline deadline, Lock& lock) {
  somebody_reads_ = true;
  lock.unlock();
  std::vector<std::pair<std::uint64_t, Response>> answers;
  Outcome status;
  bool no_memory = false;
  try {
    status = read_some(deadline, answers);
  } catch (const std::bad_alloc&) {
    no_memory = true;
  }
  lock.lock();
  somebody_reads_ = false;
  for (auto& [answered, response] : answers) {
    if (answered == kGracefulShutdownId) server_left_ = true;
    if (const auto other = slots_.find(answered); other != slots_.end())
      other->second = std::move(response);
  }
  if (no_memory)
    run_out_locked();
  else if (!status)
    lose_locked(status);
  changed_.notify_all();
}

std::optional<std::uint64_t> TcpClient::post(const Request& request) {
  Lock lock(mutex_);
  // First what has come: the server's last words get lost if we send to it after its end.
  if (!broken_ && !somebody_reads_) read_for_all(Clock::now(), lock);
  if (broken_ || somebody_sends_) return std::nullopt;
  auto room = os::wait_ready(stream_.fd(), POLLOUT, Clock::now());
  if (!room || !*room) return std::nullopt;
  const std::uint64_t id = next_id_++;
  const std::vector<std::byte> frame = encode_request(request, id);
  slots_.emplace(id, std::nullopt);
  send_alone(frame, Clock::now(), lock);
  return id;
}

std::optional<Response> TcpClient::answer_to(std::uint64_t id) {
  Lock lock(mutex_);
  const auto slot = slots_.find(id);
  if (slot == slots_.end()) return std::nullopt;
  if (!slot->second && !broken_ && !somebody_reads_) read_for_all(Clock::now(), lock);
  // Found again: others may have come and gone meanwhile.
  const auto now = slots_.find(id);
  if (now == slots_.end()) return std::nullopt;
  if (now->second) {
    Response response = *std::move(now->second);
    slots_.erase(now);
    return response;
  }
  if (!broken_) return std::nullopt;
  slots_.erase(now);
  return broken_response(*broken_);
}

void TcpClient::forget(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  slots_.erase(id);
}

bool TcpClient::broken() {
  const std::lock_guard lock(mutex_);
  return broken_.has_value();
}

bool TcpClient::server_left() {
  const std::lock_guard lock(mutex_);
  return broken_ && server_left_;
}

Outcome TcpClient::read_some(os::Deadline deadline,
                             std::vector<std::pair<std::uint64_t, Response>>& answers) {
  bool may_have_unread = false;
  {
    const std::lock_guard lock(stream_mutex_);
    may_have_unread = stream_.may_have_unread();
  }
  if (!may_have_unread) {
    auto ready = wait_watching(POLLIN, deadline);
    if (!ready) return ready.status();
    if (!*ready) return {};
  }
  const std::size_t before = in_.size();
  in_.resize(before + kReadBytes);
  secure::Moved got;
  Outcome failed;
  {
    const std::lock_guard lock(stream_mutex_);
    got = stream_.read_some(std::span(in_).subspan(before));
    if (got.error != 0) failed = stream_.status_of(got, "cannot receive");
  }
  in_.resize(before + got.bytes);
  if (!failed) return failed;
  if (got.ended) return Outcome(Errc::store, "it was closed from the other side");

  const Limits limits;
  std::size_t used = 0;
  while (in_.size() - used >= kHeaderBytes) {
    const std::span<const std::byte> bytes = std::span<const std::byte>(in_).subspan(used);
    auto header = parse_header(bytes.first<kHeaderBytes>(), limits);
    if (!header) return header.status();
    if (bytes.size() < kHeaderBytes + header->body_bytes) break;
    auto response =
        parse_response(*header, bytes.subspan(kHeaderBytes, header->body_bytes), limits);
    if (!response) return response.status();
    answers.emplace_back(header->id, std::move(*response));
    used += kHeaderBytes + header->body_bytes;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(used));
  return {};
}

Result<bool> TcpClient::wait_watching(short events, os::Deadline deadline) {
  auto pause = kStallPause;
  while (true) {
    auto ready = os::wait_ready(stream_.fd(), events, std::min(deadline, Clock::now() + pause));
    if (!ready || *ready) return ready;
    const auto now = Clock::now();
    {
      const std::lock_guard lock(stream_mutex_);
      const auto verdict = stall_.look(stream_.fd(), now, link_timeout_);
      if (verdict == os::StallWatch::Verdict::dead) {
        return Outcome(Errc::store, base::format("its host has not answered for {} ms",
                                                 stall_.silence().count()));
      }
      pause = verdict == os::StallWatch::Verdict::idle ? kQuietPause : kStallPause;
    }
    if (now >= deadline) return false;
  }
}

void TcpClient::lose_locked(const Outcome& why) {
  break_locked(
      base::format("the connection to the store at {} is lost ({}); the process that "
                   "serves it (rank 0, or tuttirun) has ended or cannot be reached",
                   name_, why.message()));
}

/// In the middle of a frame: nothing sensible can follow.
void TcpClient::run_out_locked() noexcept {
  std::string why = "no memory";  // needs none itself
  try {
    why = base::format(
        "this process has had no memory for a request or an answer of the store at {}, and has "
        "closed its connection",
        name_);
  } catch (const std::bad_alloc&) {
  }
  break_locked(std::move(why));
}

void TcpClient::give_up_locked() {
  break_locked(base::format(
      "the store at {} has stopped answering; is the process that serves it (rank 0, or "
      "tuttirun) stopped, or the network cut?",
      name_));
}

void TcpClient::break_locked(std::string why) {
  if (broken_) return;
  broken_ = std::move(why);
  // A thread that reads or sends wakes up; the server forgets our requests.
  ::shutdown(stream_.fd(), SHUT_RDWR);
  changed_.notify_all();
}

void TcpClient::abandon() {
  const Lock lock(mutex_);
  give_up_locked();
}

void TcpClient::leave(os::Deadline deadline) {
  Request request;
  request.op = Op::leave;
  // No slack: a stopped server reads the request to leave when it goes on.
  ask(request, deadline, milliseconds::zero());
  const Lock lock = lock_until(mutex_, deadline);
  if (!lock.owns_lock()) return;
  break_locked(base::format("this process has left the store at {}", name_));
}

}  // namespace tutti::store
