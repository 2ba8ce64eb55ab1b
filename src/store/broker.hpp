#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
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
  /// Answers to requests that had to wait.
  std::vector<std::pair<Ticket, Response>> take_answers() { return std::exchange(answers_, {}); }

 private:
  struct Waiting {
    Request request;
    std::string name;  // the key or queue it stands in line for now
    std::size_t cost = 0;
    std::multimap<Clock::time_point, Ticket>::iterator deadline;
  };
  using Line = std::list<Ticket>;

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
  // The first of its keys that is absent, or the queue if that is empty.
  [[nodiscard]] std::optional<std::string> missing(const Request& request) const;
  void enqueue(Ticket ticket, const std::string& name, bool queue);
  void unqueue(Ticket ticket, const Waiting& waiting);
  void finish(Ticket ticket, Response response);
  void forget(std::unordered_map<Ticket, Waiting>::iterator entry);

  Limits limits_;
  std::size_t used_bytes_ = 0;  // of keys, queues and who waits, as they are counted in broker.cpp
  std::unordered_map<std::string, std::string> table_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
  std::unordered_map<Ticket, Waiting> waiting_;
  std::unordered_map<std::string, Line> key_lines_;
  std::unordered_map<std::string, Line> queue_lines_;
  std::multimap<Clock::time_point, Ticket> deadlines_;
  std::vector<std::pair<Ticket, Response>> answers_;
};

}  // namespace tutti::store
