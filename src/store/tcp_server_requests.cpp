#include "store/tcp_server_loop.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "os/socket.hpp"

// A server reads the requests of its users and answers them.
namespace tutti::store {
namespace {

// Reads from one user before the others have their turn.
constexpr std::size_t kReadsPerTurn = 16;
// An answer that is shorter is sent where there is no room either. That there is none fits, too.
constexpr std::size_t kShortestAnswer = 256;

}  // namespace

void TcpServer::Loop::read_on_loop(Id id, Connection& connection) {
  if (!connection.open()) {
    read_handshake_on_loop(connection);
    return;
  }
  if (connection.stopped) handle_frames_on_loop(id, connection);
  for (std::size_t i = 0; i < kReadsPerTurn && !connection.doomed && !connection.stopped; ++i) {
    const secure::Moved got = connection.stream.read_some(scratch_);
    if (got.error != 0 || got.ended) {
      doom_on_loop(connection, got.ended
                                   ? "closed the connection"
                                   : connection.stream.status_of(got, "cannot receive").message());
      return;
    }
    if (got.bytes == 0) return;
    const auto come = std::span<const std::byte>(scratch_).first(got.bytes);
    const auto kept = come.subspan(skip_on_loop(connection, come));
    grow(connection, kept.size(), options_.limits);
    connection.in.insert(connection.in.end(), kept.begin(), kept.end());
    handle_frames_on_loop(id, connection);
    if (!connection.doomed) make_room_on_loop(connection);
    if (got.bytes < kReadBytes || !takes_requests(connection)) return;
  }
}

/// As a vector grows, but not far beyond the end of the request that comes.
void TcpServer::Loop::grow(Connection& connection, std::size_t more, const Limits& limits) {
  std::vector<std::byte>& in = connection.in;
  const std::size_t needed = in.size() + more;
  if (needed <= in.capacity() || needed <= 4 * kReadBytes) return;
  std::size_t most = needed;
  const auto bytes = std::span<const std::byte>(in).subspan(connection.in_used);
  if (bytes.size() >= kHeaderBytes) {
    if (auto header = parse_header(bytes.first<kHeaderBytes>(), limits))
      most = connection.in_used + kHeaderBytes + header->body_bytes + kReadBytes;
  }
  in.reserve(std::max(needed, std::min(2 * in.capacity(), most)));
}

void TcpServer::Loop::read_unread_on_loop() {
  for (const Id id : std::exchange(unread_, {})) {
    const auto entry = connections_.find(id);
    if (entry == connections_.end()) continue;
    entry->second->unread = false;
    ready_on_loop(id, EPOLLIN);
  }
}

void TcpServer::Loop::handle_frames_on_loop(Id id, Connection& connection) {
  connection.stopped = false;
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
    if (!takes_requests(connection)) {
      connection.stopped = true;
      break;
    }
    auto request =
        parse_request(*header, bytes.subspan(kHeaderBytes, header->body_bytes), options_.limits);
    if (!request) {
      doom_on_loop(connection, request.status().message());
      return;
    }
    connection.in_used += kHeaderBytes + header->body_bytes;
    // The request's bytes are about to be counted where they are kept.
    store_table_.release(std::exchange(connection.held, 0));
    handle_request_on_loop(id, connection, *header, std::move(*request));
  }
  // Moved to the front only when most of the buffer is done with, so that bytes move once.
  if (connection.in_used > 0 && connection.in_used * 2 >= connection.in.size()) {
    connection.in.erase(connection.in.begin(),
                        connection.in.begin() + static_cast<std::ptrdiff_t>(connection.in_used));
    connection.in_used = 0;
    const std::size_t capacity = connection.in.capacity();
    if (connection.in.empty() ? capacity > kReadBytes
                              : capacity > 4 * kReadBytes && connection.in.size() <= kReadBytes)
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
    response.text = base::format("{} requests of this process wait already", options_.max_waiting);
    respond_on_loop(connection, response, header.id);
    return;
  }
  const StoreTable::Ticket ticket = next_ticket_++;
  if (auto response = store_table_.submit(std::move(request), ticket, Clock::now())) {
    respond_on_loop(connection, *response, header.id);
  } else {
    try {
      connection.waiting.emplace(ticket, header.id);
      owners_.emplace(ticket, id);
    } catch (...) {  // it must take nothing from a queue
      store_table_.cancel(ticket);
      throw;
    }
  }
  deliver_on_loop();
}

Response TcpServer::Loop::enroll_on_loop(Connection& connection, Request request) {
  Request add;
  add.op = Op::add;
  add.keys = {request.keys[0]};
  add.amount = 1;
  Response counted = *store_table_.submit(std::move(add), next_ticket_++, Clock::now());
  if (counted.code != Errc::ok) return counted;
  Request will;
  will.op = Op::set_will;
  will.keys = {base::format("{}{}{}", request.keys[1], counted.number, request.keys[2])};
  will.values = std::move(request.values);
  Response left = change_wills(connection, std::move(will));
  return left.code == Errc::ok ? counted : left;
}

Response TcpServer::Loop::change_wills(Connection& connection, Request request) {
  std::erase_if(connection.wills, [&](const auto& will) { return will.first == request.keys[0]; });
  count_held_on_loop(connection);
  if (request.op == Op::drop_will) return {};
  Response response;
  if (connection.wills.size() >= Store::kMaxWills) {
    response.code = Errc::store;
    response.text = base::format("this process has {} wills already", Store::kMaxWills);
    return response;
  }
  if (request.values[0].size() > Store::kMaxWillBytes) {
    response.code = Errc::invalid_argument;
    response.text = base::format("a will of {} bytes is too long, {} is the limit",
                                 request.values[0].size(), Store::kMaxWillBytes);
    return response;
  }
  if (!store_table_.has_room(cost_of_key(request.keys[0], request.values[0])))
    return no_room("this will");
  connection.wills.emplace_back(std::move(request.keys[0]), std::move(request.values[0]));
  count_held_on_loop(connection);
  return response;
}

/// Counts the bytes of a request that is not all there. Where there is no room for them, the rest
/// is read and forgotten.
void TcpServer::Loop::make_room_on_loop(Connection& connection) {
  const std::size_t capacity = connection.in.capacity();
  if (connection.in.size() > kReadBytes && connection.skip == 0 && !connection.stopped &&
      !store_table_.has_room(capacity - std::min(capacity, connection.held))) {
    const auto bytes = std::span<const std::byte>(connection.in).subspan(connection.in_used);
    auto header = parse_header(bytes.first<kHeaderBytes>(), options_.limits);
    connection.skip = kHeaderBytes + header->body_bytes - bytes.size();
    connection.skipped_id = header->id;
    connection.in = {};
    connection.in_used = 0;
  }
  count_held_on_loop(connection);
}

std::size_t TcpServer::Loop::skip_on_loop(Connection& connection,
                                          std::span<const std::byte> bytes) {
  const std::size_t skipped = std::min(connection.skip, bytes.size());
  connection.skip -= skipped;
  if (skipped > 0 && connection.skip == 0)
    respond_on_loop(connection, no_room("a request that has come"), connection.skipped_id);
  return skipped;
}

void TcpServer::Loop::count_held_on_loop(Connection& connection) noexcept {
  std::size_t held = connection.out.own_bytes();
  if (connection.in.capacity() > kReadBytes) held += connection.in.capacity();
  // As the keys that they become, for which there is room then.
  for (const auto& [key, text] : connection.wills) held += cost_of_key(key, text);
  store_table_.hold(held);
  store_table_.release(connection.held);
  connection.held = held;
}

void TcpServer::Loop::deliver_on_loop() {
  std::shared_ptr<const Response> encoded;
  AnswerQueue::Bytes frame;
  while (const auto answer = store_table_.take_answer()) {
    const auto& [ticket, response] = *answer;
    const auto owner = owners_.find(ticket);
    if (owner == owners_.end()) continue;
    Connection& connection = *connections_.at(owner->second);
    try {
      if (response == nullptr) throw std::bad_alloc();
      if (response != encoded) {
        frame.reset();  // gone before the next one is made
        frame = share_on_loop(encode_response(*response, 0, options_.limits));
        encoded = response;
      }
      answer_on_loop(ticket, *response, frame);
    } catch (const std::bad_alloc& error) {
      encoded.reset();
      doom_on_loop(connection, error.what());
    }
  }
}

/// `frame`: the response, encoded for all users that get it.
void TcpServer::Loop::answer_on_loop(StoreTable::Ticket ticket, const Response& response,
                                     const AnswerQueue::Bytes& frame) {
  const auto owner = owners_.find(ticket);
  Connection& connection = *connections_.at(owner->second);
  const auto waiting = connection.waiting.find(ticket);
  const std::uint64_t request_id = waiting->second;
  if (frame->size() < kShortAnswer || !store_table_.has_room(0)) {
    respond_on_loop(connection, response, request_id);
  } else {
    connection.out.push_shared(frame, request_id);
    flush_on_loop(connection);
  }
  if (connection.doomed) return;
  connection.waiting.erase(waiting);
  owners_.erase(owner);
  update_watch_on_loop(connection);
}

/// Counted as long as anyone has not been sent all of it.
AnswerQueue::Bytes TcpServer::Loop::share_on_loop(std::vector<std::byte> frame) {
  const std::size_t size = frame.size();
  auto bytes = std::make_unique<const std::vector<std::byte>>(std::move(frame));
  store_table_.hold(size);
  // It is released, too, if there is no memory for the count of its owners.
  return {bytes.release(), [this, size](const std::vector<std::byte>* all) {
            store_table_.release(size);
            delete all;
          }};
}

void TcpServer::Loop::respond_on_loop(Connection& connection, const Response& response,
                                      std::uint64_t request_id) {
  std::vector<std::byte> frame = encode_response(response, request_id, options_.limits);
  // Behind others only what is short: a user may wait for many at once.
  const std::size_t fits_always = connection.out.empty() ? kShortAnswer : kShortestAnswer;
  if (frame.size() >= fits_always && !store_table_.has_room(frame.size()))
    frame = encode_response(no_room("the answer"), request_id, options_.limits);
  send_on_loop(connection, std::move(frame));
}

void TcpServer::Loop::send_on_loop(Connection& connection, std::vector<std::byte> bytes) {
  connection.out.push(std::move(bytes));
  flush_on_loop(connection);
}

void TcpServer::Loop::flush_on_loop(Connection& connection) {
  const secure::Moved sent = connection.out.flush(connection.stream);
  count_held_on_loop(connection);
  if (sent.error != 0)
    doom_on_loop(connection, connection.stream.status_of(sent, "cannot send").message());
  if (connection.doomed || connection.stall_watched) return;
  connection.stall_watched = true;
  if (stall_watched_.empty()) next_stall_look_ = Clock::now() + kStallLookPause;
  stall_watched_.push_back(connection.id);
}

}  // namespace tutti::store
