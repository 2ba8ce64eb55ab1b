#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/request.hpp"

namespace tutti::store {

/// An answer that is shorter always has room. A longer one is kept once for all requests that get
/// it.
inline constexpr std::size_t kShortAnswer = std::size_t{16} << 10;

/// The bytes that a key counts.
std::size_t cost_of_key(const std::string& key, const std::string& value) noexcept;

/// The error for a request that would exceed the bound of all that the table keeps.
Response no_room(std::string_view what);

/// The content of a store, and the requests that wait in it. It has no locks, threads or clock:
/// HashStore and the TCP server have those.
class StoreTable {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::uint64_t;

  /// The answer to a request that had to wait. Consecutive equal answers share one response.
  struct Answer {
    Ticket ticket = 0;
    std::shared_ptr<const Response> response;  ///< null: there was no memory for it
  };

  /// `keeps_answers`: the caller keeps and counts the answers, so they need room, too.
  explicit StoreTable(Limits limits = {}, bool keeps_answers = false)
      : limits_(limits), keeps_answers_(keeps_answers) {}
  StoreTable(const StoreTable&) = delete;
  StoreTable& operator=(const StoreTable&) = delete;

  /// Carries out a checked request. Nothing if it has to wait: its answer comes out of
  /// `take_answer` later, under this ticket (chosen by the caller, unique among those waiting).
  std::optional<Response> submit(Request request, Ticket ticket, Clock::time_point now);
  /// Sets the key unless it is there, and wakes the requests that wait for it. An error if the
  /// table is full.
  Outcome set_if_absent(const std::string& key, std::string text);
  /// Forgets a waiting request.
  void cancel(Ticket ticket) noexcept;
  /// Ends the requests whose time is over.
  void expire(Clock::time_point now) noexcept;
  /// When `expire` has something to do next.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  /// The next answer to a request that had to wait. It is made here, so that not all that wait for
  /// one key get their copies at once.
  std::optional<Answer> take_answer();
  /// True if this many more bytes fit into the bound of all that is kept.
  [[nodiscard]] bool has_room(std::size_t more) const noexcept {
    return used_bytes_ <= limits_.total_bytes && more <= limits_.total_bytes - used_bytes_;
  }
  /// Counts what a server keeps beside the table: bytes received, answers, wills.
  void hold(std::size_t bytes) noexcept { used_bytes_ += bytes; }
  void release(std::size_t bytes) noexcept { used_bytes_ -= bytes; }
  /// How often a key of a waiting request has been looked up.
  [[nodiscard]] std::uint64_t lookups() const noexcept { return lookups_; }

 private:
  using Line = std::list<Ticket>;
  struct Waiting {
    Request request;
    std::size_t cursor = 0;       // the key or queue it stands in line for now
    std::uint64_t deletions = 0;  // when the first key was looked up
    std::size_t cost = 0;
    Line* line = nullptr;  // ready_, or one of key_lines_ or queue_lines_
    Line::iterator place;
    bool expired = false;
    std::shared_ptr<const Response> answer;  // a value of a queue
    std::optional<std::multimap<Clock::time_point, Ticket>::iterator> deadline;
  };
  using Entry = std::unordered_map<Ticket, Waiting>::iterator;

  Response set(const std::string& key, std::string value);
  Response add(const std::string& key, std::int64_t amount);
  Response compare_set(Request& request);
  Response append(const std::string& key, const std::string& value);
  Response push(const std::string& queue, std::string value);
  Response pop(const std::string& queue);
  Response execute(Request& request);
  // Nothing, or the error that an answer of this length cannot be made.
  std::optional<Response> misfit(std::size_t bytes) const;
  Response list_keys() const;
  Response values_of(const std::vector<std::string>& keys) const;

  // Ok, or the error that says that the table is full.
  [[nodiscard]] Outcome check_room(std::size_t more, std::size_t less = 0) const;
  // Lets it wait; ok, or the error that says that the table is full.
  Outcome stand_in_line(Entry entry, Clock::time_point now);
  void wake_key(const std::string& key) noexcept;
  // Moves the cursor to the first key that is absent, or the queue if that is empty; false: none
  // is.
  [[nodiscard]] bool seek_missing(Waiting& waiting);
  // Moves its ticket from there to the line of the key or queue that it lacks.
  void enqueue(Waiting& waiting, Line& from);
  void unqueue(Waiting& waiting) noexcept;
  void make_ready(Waiting& waiting) noexcept;
  void drop_if_empty(const Waiting& waiting) noexcept;
  // Null: it has to wait again.
  std::shared_ptr<const Response> answer_to(Waiting& waiting);
  Response timeout_of(const Request& request) const;
  void forget(Entry entry) noexcept;
  void drop_shared() noexcept {
    shared_.reset();
    shared_request_ = {};
  }

  const Limits limits_;
  const bool keeps_answers_;
  // Bytes of keys, queues and waiting requests, as store_table.cpp counts them, and those that
  // `hold` has added.
  std::size_t used_bytes_ = 0;
  std::unordered_map<std::string, std::string> table_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
  std::unordered_map<Ticket, Waiting> waiting_;
  std::unordered_map<std::string, Line> key_lines_;
  std::unordered_map<std::string, Line> queue_lines_;
  std::multimap<Clock::time_point, Ticket> deadlines_;
  Line ready_;  // in no other line: their answers may be made
  // The last answer that was made, and of what; until a key changes.
  std::shared_ptr<const Response> shared_;
  Request shared_request_;
  std::uint64_t deletions_ = 0;  // of keys
  std::uint64_t lookups_ = 0;
};

}  // namespace tutti::store
