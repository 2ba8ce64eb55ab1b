#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "os/address.hpp"
#include "os/event_loop.hpp"
#include "os/fd.hpp"
#include "os/stall_watch.hpp"
#include "secure/handshake.hpp"
#include "secure/pending_places.hpp"
#include "secure/stream.hpp"
#include "store/answer_queue.hpp"
#include "store/credentials.hpp"
#include "store/store_table.hpp"
#include "store/tcp_server.hpp"
#include "store/wire.hpp"

namespace tutti::store {

/// The state of the server's thread, and the code that it runs. Other threads touch only
/// `closing_`.
class TcpServer::Loop {
 public:
  using Clock = std::chrono::steady_clock;

  Loop(TcpServerOptions options, os::Fd listener, os::Address address,
       std::unique_ptr<os::EventLoop> events)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        address_(address),
        events_(std::move(events)),
        store_table_(options_.limits, true),
        places_({options_.max_pending, options_.hello_timeout, options_.timeout_when_full}) {}

  Outcome watch_listener() {
    return events_->add(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_on_loop(); });
  }
  void run_on_loop() noexcept;
  void close(std::chrono::milliseconds linger) {
    const std::lock_guard lock(mutex_);
    if (!close_at_) close_at_ = base::deadline_after(Clock::now(), linger);
    events_->wake();
  }
  [[nodiscard]] const os::Address& address() const noexcept { return address_; }
  /// Frees the port, announces the shutdown to the remaining users and hangs up; when the thread
  /// has ended.
  void shut() noexcept;

 private:
  // Between two looks at all pending connections while no place is left.
  static constexpr std::chrono::milliseconds kFullLookPause{50};
  // Between two looks at a user whose host has not acknowledged its answers.
  static constexpr std::chrono::milliseconds kStallLookPause{100};

  using Id = std::uint64_t;
  struct Connection {
    std::uint64_t id = 0;
    secure::Stream stream;
    std::string peer;
    std::optional<secure::Handshake> handshake;  // until the user is known
    secure::PendingPlaces::Times times{Clock::now()};
    bool doomed = false;
    bool left = false;
    bool unread = false;  // listed: its socket may not tell of all that has come
    std::uint32_t watched = EPOLLIN;

    [[nodiscard]] bool open() const noexcept { return !handshake; }

    std::vector<std::byte> in;
    bool stopped = false;          // whole requests may be in it, but too many answers are unread
    std::size_t in_used = 0;       // bytes at the front of `in` that are done with
    std::size_t skip = 0;          // bytes to come of a request for which there was no room ...
    std::uint64_t skipped_id = 0;  // ... and its number
    std::size_t held = 0;          // bytes, as the table has been told
    AnswerQueue out;
    os::StallWatch stall;
    bool stall_watched = false;  // listed in stall_watched_

    std::unordered_map<StoreTable::Ticket, std::uint64_t> waiting;  // ticket -> request id
    // Keys and values that are set when this user is lost. Few: kMaxWills.
    std::vector<std::pair<std::string, std::string>> wills;
  };

  [[nodiscard]] secure::Party party() const {
    return store_party(options_.identity, options_.encrypt, options_.secret_source, options_.told);
  }
  [[nodiscard]] bool goes_on_on_loop();
  [[nodiscard]] bool await_memory_on_loop();
  [[nodiscard]] bool finished_on_loop(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline_on_loop(Clock::time_point now);
  void accept_on_loop();
  void watch_arrivals_on_loop(bool on);
  void rest_on_loop(std::string_view why);
  void expire_on_loop(Clock::time_point now);
  void look_for_stalls_on_loop(Clock::time_point now);
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
  Response change_wills(Connection& connection, Request request);
  void respond_on_loop(Connection& connection, const Response& response, std::uint64_t request_id);
  [[nodiscard]] AnswerQueue::Bytes share_on_loop(std::vector<std::byte> frame);
  void answer_on_loop(StoreTable::Ticket ticket, const Response& response,
                      const AnswerQueue::Bytes& frame);
  [[nodiscard]] bool takes_requests(const Connection& connection) const noexcept {
    const AnswerQueue& out = connection.out;
    return out.empty() ||
           (out.bytes() <= options_.max_unread_bytes && store_table_.has_room(kShortAnswer));
  }
  static void grow(Connection& connection, std::size_t more, const Limits& limits);
  void make_room_on_loop(Connection& connection);
  [[nodiscard]] std::size_t skip_on_loop(Connection& connection, std::span<const std::byte> bytes);
  void count_held_on_loop(Connection& connection) noexcept;
  [[nodiscard]] bool is_late(Id id, Clock::time_point now) const;
  void send_on_loop(Connection& connection, std::vector<std::byte> bytes);
  void flush_on_loop(Connection& connection);
  void update_watch_on_loop(Connection& connection);
  void doom_on_loop(Connection& connection, std::string_view why);
  void bury_on_loop();
  /// Drops all connections that are marked as lost, and keeps their wills.
  void bury_doomed_on_loop();

  TcpServerOptions options_;
  os::Fd listener_;
  os::Address address_;
  std::unique_ptr<os::EventLoop> events_;
  StoreTable store_table_;
  std::array<std::byte, kReadBytes> scratch_;  // what has just been read, of whomever
  StoreTable::Ticket next_ticket_ = 1;
  Id next_id_ = 1;
  std::unordered_map<Id, std::unique_ptr<Connection>> connections_;
  std::unordered_map<StoreTable::Ticket, Id> owners_;
  secure::PendingPlaces places_;
  std::deque<std::pair<Clock::time_point, Id>> pending_;  // by deadline; proven ones drop out
  Clock::time_point next_look_when_full_{};
  std::vector<Id> unread_;
  std::vector<Id> stall_watched_;  // answers may be on their way to them
  Clock::time_point next_stall_look_{};
  std::size_t open_count_ = 0;
  std::size_t departed_ = 0;
  bool anyone_doomed_ = false;
  std::vector<std::pair<std::string, std::string>> wills_;  // to be carried out
  bool resting_ = false;  // the listener: no place or no descriptor
  std::optional<Clock::time_point> listen_again_at_;

  std::mutex mutex_;
  std::optional<Clock::time_point> close_at_;  // guarded by mutex_
};

}  // namespace tutti::store
