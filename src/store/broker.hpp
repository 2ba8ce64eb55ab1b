#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/request.hpp"

namespace tutti::store {

/// The table behind a store, and who waits for what in it. No locks, no threads, no clock of its
/// own: HashStore and the TCP server bring these.
class Broker {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::uint64_t;

  explicit Broker(Limits limits = {}) : limits_(limits) {}

  /// Carries out a checked request. Nothing if it has to wait: its answer comes out of
  /// `take_answers` later, under this ticket (chosen by the caller, unique among those waiting).
  std::optional<Response> submit(Request request, Ticket ticket, Clock::time_point now);
  /// Sets the key unless it is there, and wakes who waits for it. An error if the table is full.
  Status set_if_absent(const std::string& key, std::string text);
  /// Forgets a waiting request.
  void cancel(Ticket ticket);
  /// Ends the requests whose time is over.
  void expire(Clock::time_point now);
  /// When `expire` has something to do next.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  /// Answers to requests that had to wait; one object where several get the same.
  std::vector<std::pair<Ticket, std::shared_ptr<const Response>>> take_answers() {
    return std::exchange(answers_, {});
  }
  /// Whether so many bytes more fit the bound of all that is kept.
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
    bool in_line = false;
    Line::iterator place;
    std::multimap<Clock::time_point, Ticket>::iterator deadline;
  };

  Response set(const std::string& key, std::string value);
  Response add(const std::string& key, std::int64_t amount);
  Response compare_set(Request& request);
  Response append(const std::string& key, const std::string& value);
  Response push(const std::string& queue, std::string value);
  Response pop(const std::string& queue);
  Response execute(Request& request);
  Response values_of(const std::vector<std::string>& keys) const;

  // Ok, or the error that says that the table is full.
  Status reserve(std::size_t more, std::size_t less = 0);
  void wake_key(const std::string& key);
  // Moves the cursor to the first key that is absent, or the queue if that is empty; false: none
  // is.
  [[nodiscard]] bool seek_missing(Waiting& waiting);
  void enqueue(Ticket ticket, Waiting& waiting);
  void unqueue(const Waiting& waiting);
  void finish(Ticket ticket, std::shared_ptr<const Response> response);
  void forget(std::unordered_map<Ticket, Waiting>::iterator entry);

  Limits limits_;
  // Of keys, queues and who waits, as they are counted in broker.cpp, and what `hold` was told.
  std::size_t used_bytes_ = 0;
  std::unordered_map<std::string, std::string> table_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
  std::unordered_map<Ticket, Waiting> waiting_;
  std::unordered_map<std::string, Line> key_lines_;
  std::unordered_map<std::string, Line> queue_lines_;
  std::multimap<Clock::time_point, Ticket> deadlines_;
  std::vector<std::pair<Ticket, std::shared_ptr<const Response>>> answers_;
  std::uint64_t deletions_ = 0;  // of keys
  std::uint64_t lookups_ = 0;
};

}  // namespace tutti::store
