#include "store/broker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/shown.hpp"

namespace tutti::store {
namespace {

constexpr std::size_t kNamesInTimeout = 16;
constexpr std::size_t kShown = 128;  // bytes of a key or value in a message

// An entry costs more than its bytes, so that names alone, or empty values, find an end too: the
// nodes of tables and the strings in them, rounded up.
constexpr std::size_t kKeyCost = 128;
constexpr std::size_t kQueueCost = 768;  // an empty std::deque has a block already
constexpr std::size_t kQueuedCost = 48;
constexpr std::size_t kWaitingCost = 512;     // itself, its deadline, its place in a line
constexpr std::size_t kWaitingItemCost = 48;  // each of its keys

std::size_t cost_of_key(const std::string& key, const std::string& value) noexcept {
  return kKeyCost + key.size() + value.size();
}
std::size_t cost_of_queue(const std::string& name) noexcept { return kQueueCost + name.size(); }
std::size_t cost_of_queued(const std::string& value) noexcept { return kQueuedCost + value.size(); }
std::size_t cost_of_waiting(const Request& request) noexcept {
  std::size_t cost = kWaitingCost;
  std::size_t longest = 0;
  for (const std::string& key : request.keys) {
    cost += kWaitingItemCost + key.size();
    longest = std::max(longest, key.size());
  }
  return cost + 2 * longest;  // the line it stands in has its name, and it has that too
}

bool waits(Op op) noexcept {
  return op == Op::get || op == Op::wait || op == Op::multi_get || op == Op::queue_pop;
}

Response failure(Errc code, std::string text) {
  Response response;
  response.code = code;
  response.text = std::move(text);
  return response;
}

Response failure(const Status& status) {
  return failure(status.code(), std::string(status.message()));
}

Response number(std::int64_t value) {
  Response response;
  response.number = value;
  return response;
}

Response value(std::string text) {
  Response response;
  response.values.push_back(std::move(text));
  return response;
}

}  // namespace

std::optional<Response> Broker::submit(Request request, Ticket ticket, Clock::time_point now) {
  if (!waits(request.op)) return execute(request);
  Waiting waiting;
  waiting.request = std::move(request);
  waiting.deletions = deletions_;
  if (!seek_missing(waiting)) return execute(waiting.request);
  waiting.cost = cost_of_waiting(waiting.request);
  if (Status status = reserve(waiting.cost); !status) return failure(status);
  waiting.deadline =
      deadlines_.emplace(now + std::chrono::milliseconds(waiting.request.timeout_ms), ticket);
  enqueue(ticket, waiting_[ticket] = std::move(waiting));
  return std::nullopt;
}

void Broker::cancel(Ticket ticket) {
  const auto entry = waiting_.find(ticket);
  if (entry == waiting_.end()) return;
  unqueue(entry->second);
  forget(entry);
}

void Broker::expire(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Ticket ticket = deadlines_.begin()->second;
    const Waiting& waiting = waiting_.at(ticket);
    Response response = failure(Errc::timeout, "");
    for (const std::string& key : waiting.request.keys) {
      if (response.values.size() == kNamesInTimeout) break;
      if (waiting.request.op == Op::queue_pop || !table_.contains(key))
        response.values.push_back(key);
    }
    unqueue(waiting);
    finish(ticket, std::make_shared<const Response>(std::move(response)));
  }
}

std::optional<Broker::Clock::time_point> Broker::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

Response Broker::execute(Request& request) {
  switch (request.op) {
    case Op::set: return set(request.keys[0], std::move(request.values[0]));
    case Op::get:
    case Op::multi_get: return values_of(request.keys);
    case Op::add: return add(request.keys[0], request.amount);
    case Op::check:
      return number(std::ranges::all_of(
          request.keys, [&](const std::string& key) { return table_.contains(key); }));
    case Op::wait:
    case Op::leave:
    case Op::set_will:
    case Op::drop_will:
    case Op::enroll: return {};
    case Op::compare_set: return compare_set(request);
    case Op::delete_key: {
      const auto entry = table_.find(request.keys[0]);
      if (entry == table_.end()) return number(0);
      used_bytes_ -= cost_of_key(entry->first, entry->second);
      table_.erase(entry);
      ++deletions_;
      return number(1);
    }
    case Op::num_keys: return number(static_cast<std::int64_t>(table_.size()));
    case Op::list_keys: {
      Response response;
      for (const auto& entry : table_) response.values.push_back(entry.first);
      std::ranges::sort(response.values);
      return response;
    }
    case Op::append: return append(request.keys[0], request.values[0]);
    case Op::multi_set: {
      for (std::size_t i = 0; i < request.keys.size(); ++i) {
        Response response = set(request.keys[i], std::move(request.values[i]));
        if (response.code != Errc::ok) return response;
      }
      return {};
    }
    case Op::queue_push: return push(request.keys[0], std::move(request.values[0]));
    case Op::queue_pop:
    case Op::queue_try_pop: return pop(request.keys[0]);
    case Op::queue_len: {
      const auto queue = queues_.find(request.keys[0]);
      return number(queue == queues_.end() ? 0 : static_cast<std::int64_t>(queue->second.size()));
    }
  }
  return failure(Errc::internal, "a request with an unknown operation");
}

Status Broker::set_if_absent(const std::string& key, std::string text) {
  if (table_.contains(key)) return {};
  Response response = set(key, std::move(text));
  return Status(response.code, std::move(response.text));
}

Status Broker::reserve(std::size_t more, std::size_t less) {
  const std::size_t after = used_bytes_ - less + more;
  if (after > limits_.total_bytes) {
    return Status(Errc::store, fmt::format("the store is full: {} of {} bytes are used; delete "
                                           "keys that are no longer needed",
                                           used_bytes_, limits_.total_bytes));
  }
  used_bytes_ = after;
  return {};
}

Response Broker::set(const std::string& key, std::string text) {
  const auto entry = table_.find(key);
  const std::size_t less = entry == table_.end() ? 0 : cost_of_key(key, entry->second);
  if (Status status = reserve(cost_of_key(key, text), less); !status) return failure(status);
  if (entry != table_.end())
    entry->second = std::move(text);
  else
    table_.emplace(key, std::move(text));
  wake_key(key);
  return {};
}

Response Broker::add(const std::string& key, std::int64_t amount) {
  std::int64_t sum = 0;
  if (const auto entry = table_.find(key); entry != table_.end()) {
    const std::string& text = entry->second;
    const char* end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data(), end, sum);
    if (error != std::errc() || parsed != end) {
      return failure(Errc::invalid_argument,
                     fmt::format("the value of key \"{}\" is not a number that fits 64 bits: "
                                 "\"{}\"",
                                 base::shown(key, kShown), base::shown(text, kShown)));
    }
  }
  if (__builtin_add_overflow(sum, amount, &sum)) {
    return failure(Errc::invalid_argument, fmt::format("the sum in key \"{}\" does not fit 64 bits",
                                                       base::shown(key, kShown)));
  }
  Response response = set(key, fmt::format("{}", sum));
  response.number = sum;
  return response;
}

Response Broker::compare_set(Request& request) {
  const std::string& key = request.keys[0];
  const std::string& expected = request.values[0];
  std::string& desired = request.values[1];
  const auto entry = table_.find(key);
  const bool absent = entry == table_.end();
  if (absent ? !expected.empty() : entry->second != expected)
    return value(absent ? expected : entry->second);
  Response response = set(key, desired);
  response.values.push_back(std::move(desired));
  return response;
}

Response Broker::append(const std::string& key, const std::string& text) {
  const auto entry = table_.find(key);
  if (entry == table_.end()) return set(key, text);
  if (entry->second.size() + text.size() > limits_.value_bytes) {
    return failure(Errc::invalid_argument,
                   fmt::format("the value of key \"{}\" would have {} bytes, {} is the limit",
                               base::shown(key, kShown), entry->second.size() + text.size(),
                               limits_.value_bytes));
  }
  if (Status status = reserve(text.size()); !status) return failure(status);
  entry->second += text;
  return {};
}

Response Broker::push(const std::string& queue, std::string text) {
  if (const auto line = queue_lines_.find(queue); line != queue_lines_.end()) {
    const Ticket ticket = line->second.front();
    unqueue(waiting_.at(ticket));
    finish(ticket, std::make_shared<const Response>(value(std::move(text))));
    return {};
  }
  const std::size_t first = queues_.contains(queue) ? 0 : cost_of_queue(queue);
  if (Status status = reserve(first + cost_of_queued(text)); !status) return failure(status);
  queues_[queue].push_back(std::move(text));
  return {};
}

Response Broker::pop(const std::string& queue) {
  const auto entry = queues_.find(queue);
  if (entry == queues_.end()) return number(0);
  Response response = value(std::move(entry->second.front()));
  response.number = 1;
  used_bytes_ -= cost_of_queued(response.values[0]);
  entry->second.pop_front();
  if (entry->second.empty()) {
    used_bytes_ -= cost_of_queue(entry->first);
    queues_.erase(entry);
  }
  return response;
}

Response Broker::values_of(const std::vector<std::string>& keys) const {
  // Counted first: many names of one long value must not make an endless answer.
  std::size_t bytes = 0;
  for (const std::string& key : keys) bytes += table_.at(key).size();
  if (bytes > limits_.body_bytes) {
    return failure(Errc::store,
                   fmt::format("the answer has {} bytes, {} is the limit; ask for fewer keys at "
                               "once",
                               bytes, limits_.body_bytes));
  }
  Response response;
  for (const std::string& key : keys) response.values.push_back(table_.at(key));
  return response;
}

bool Broker::seek_missing(Waiting& waiting) {
  const std::vector<std::string>& keys = waiting.request.keys;
  if (waiting.request.op == Op::queue_pop) return !queues_.contains(keys[0]);
  while (true) {
    for (; waiting.cursor < keys.size(); ++waiting.cursor) {
      ++lookups_;
      if (!table_.contains(keys[waiting.cursor])) return true;
    }
    if (waiting.deletions == deletions_) return false;
    // One of those behind the cursor may be gone again: all over.
    waiting.deletions = deletions_;
    waiting.cursor = 0;
  }
}

void Broker::wake_key(const std::string& key) {
  const auto entry = key_lines_.find(key);
  if (entry == key_lines_.end()) return;
  const Line line = std::move(entry->second);
  key_lines_.erase(entry);
  // First: if memory ends on the way, those who are left stand in no line, and end at their time.
  for (const Ticket ticket : line) waiting_.at(ticket).in_line = false;
  Request last;  // many wait for the same: they get one answer
  std::shared_ptr<const Response> answer;
  for (const Ticket ticket : line) {
    Waiting& waiting = waiting_.at(ticket);
    if (seek_missing(waiting)) {
      enqueue(ticket, waiting);
      continue;
    }
    const bool same = answer != nullptr &&
                      (last.op == Op::wait) == (waiting.request.op == Op::wait) &&
                      last.keys == waiting.request.keys;
    if (!same) {
      answer = std::make_shared<const Response>(execute(waiting.request));
      last = std::move(waiting.request);
    }
    finish(ticket, answer);
  }
}

void Broker::enqueue(Ticket ticket, Waiting& waiting) {
  auto& lines = waiting.request.op == Op::queue_pop ? queue_lines_ : key_lines_;
  Line& line = lines[waiting.request.keys[waiting.cursor]];
  waiting.place = line.insert(line.end(), ticket);
  waiting.in_line = true;
}

void Broker::unqueue(const Waiting& waiting) {
  if (!waiting.in_line) return;
  auto& lines = waiting.request.op == Op::queue_pop ? queue_lines_ : key_lines_;
  const auto line = lines.find(waiting.request.keys[waiting.cursor]);
  line->second.erase(waiting.place);
  if (line->second.empty()) lines.erase(line);
}

void Broker::finish(Ticket ticket, std::shared_ptr<const Response> response) {
  forget(waiting_.find(ticket));
  answers_.emplace_back(ticket, std::move(response));
}

void Broker::forget(std::unordered_map<Ticket, Waiting>::iterator entry) {
  used_bytes_ -= entry->second.cost;
  deadlines_.erase(entry->second.deadline);
  waiting_.erase(entry);
}

}  // namespace tutti::store
