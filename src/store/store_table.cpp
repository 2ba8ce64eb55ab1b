#include "store/store_table.hpp"

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "store/wire.hpp"

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

Response failure(const Outcome& status) {
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

std::size_t cost_of_key(const std::string& key, const std::string& value) noexcept {
  return kKeyCost + key.size() + value.size();
}

Response no_room(std::string_view what) {
  return failure(Errc::store,
                 base::format("the store is full: it has no room for {}; delete keys that are no "
                              "longer needed",
                              what));
}

std::optional<Response> StoreTable::submit(Request request, Ticket ticket, Clock::time_point now) {
  if (!waits(request.op)) return execute(request);
  Waiting waiting;
  waiting.request = std::move(request);
  waiting.deletions = deletions_;
  if (!seek_missing(waiting)) return execute(waiting.request);
  const Entry entry = waiting_.emplace(ticket, std::move(waiting)).first;
  Outcome stands;
  try {
    stands = stand_in_line(entry, now);
  } catch (...) {
    forget(entry);
    throw;
  }
  if (stands) return std::nullopt;
  forget(entry);
  return failure(stands);
}

Outcome StoreTable::stand_in_line(Entry entry, Clock::time_point now) {
  auto& [ticket, waiting] = *entry;
  const std::size_t cost = cost_of_waiting(waiting.request);
  if (Outcome status = check_room(cost); !status) return status;
  waiting.deadline =
      deadlines_.emplace(now + std::chrono::milliseconds(waiting.request.timeout_ms), ticket);
  Line line{ticket};
  waiting.place = line.begin();
  enqueue(waiting, line);
  waiting.cost = cost;
  used_bytes_ += cost;
  return {};
}

void StoreTable::cancel(Ticket ticket) noexcept {
  const auto entry = waiting_.find(ticket);
  if (entry != waiting_.end()) forget(entry);
}

void StoreTable::expire(Clock::time_point now) noexcept {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Waiting& waiting = waiting_.find(deadlines_.begin()->second)->second;
    waiting.expired = true;
    make_ready(waiting);
  }
}

auto StoreTable::take_answer() -> std::optional<Answer> {
  while (!ready_.empty()) {
    const auto entry = waiting_.find(ready_.front());
    Answer answer{.ticket = entry->first, .response = nullptr};
    try {
      answer.response = answer_to(entry->second);
      if (answer.response == nullptr) continue;
    } catch (const std::bad_alloc&) {  // it gets none, and the others theirs
    }
    forget(entry);
    return answer;
  }
  drop_shared();
  return std::nullopt;
}

std::shared_ptr<const Response> StoreTable::answer_to(Waiting& waiting) {
  if (waiting.answer != nullptr) return std::move(waiting.answer);
  if (seek_missing(waiting)) {
    if (waiting.expired) return std::make_shared<const Response>(timeout_of(waiting.request));
    enqueue(waiting, ready_);
    return nullptr;
  }
  // A queue's values differ, and many wait for the same keys: they get one answer.
  Request& request = waiting.request;
  const bool same = shared_ != nullptr && request.op != Op::queue_pop &&
                    (shared_request_.op == Op::wait) == (request.op == Op::wait) &&
                    shared_request_.keys == request.keys;
  if (same) return shared_;
  const auto made = std::make_shared<Response>();  // first: a value that is popped needs its place
  *made = execute(request);
  if (request.op != Op::queue_pop) {
    shared_ = made;
    shared_request_ = std::move(request);
  }
  return made;
}

Response StoreTable::timeout_of(const Request& request) const {
  Response response = failure(Errc::timeout, "");
  for (const std::string& key : request.keys) {
    if (response.values.size() == kNamesInTimeout) break;
    if (request.op == Op::queue_pop || !table_.contains(key)) response.values.push_back(key);
  }
  return response;
}

std::optional<StoreTable::Clock::time_point> StoreTable::next_deadline() const {
  if (!ready_.empty()) return Clock::time_point();  // at once
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

Response StoreTable::execute(Request& request) {
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
      drop_shared();
      return number(1);
    }
    case Op::num_keys: return number(static_cast<std::int64_t>(table_.size()));
    case Op::list_keys: return list_keys();
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

Outcome StoreTable::set_if_absent(const std::string& key, std::string text) {
  if (table_.contains(key)) return {};
  Response response = set(key, std::move(text));
  return Outcome(response.code, std::move(response.text));
}

Outcome StoreTable::check_room(std::size_t more, std::size_t less) const {
  if (used_bytes_ - less + more > limits_.total_bytes) {
    return Outcome(Errc::store, base::format("the store is full: {} of {} bytes are used; delete "
                                             "keys that are no longer needed",
                                             used_bytes_, limits_.total_bytes));
  }
  return {};
}

Response StoreTable::set(const std::string& key, std::string text) {
  const auto entry = table_.find(key);
  const std::size_t less = entry == table_.end() ? 0 : cost_of_key(key, entry->second);
  const std::size_t more = cost_of_key(key, text);
  if (Outcome status = check_room(more, less); !status) return failure(status);
  if (entry != table_.end())
    entry->second = std::move(text);
  else
    table_.emplace(key, std::move(text));
  used_bytes_ += more - less;
  drop_shared();
  wake_key(key);
  return {};
}

Response StoreTable::add(const std::string& key, std::int64_t amount) {
  std::int64_t sum = 0;
  if (const auto entry = table_.find(key); entry != table_.end()) {
    const std::string& text = entry->second;
    const char* end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data(), end, sum);
    if (error != std::errc() || parsed != end) {
      return failure(Errc::invalid_argument,
                     base::format("the value of key \"{}\" is not a number that fits 64 bits: "
                                  "\"{}\"",
                                  base::shown(key, kShown), base::shown(text, kShown)));
    }
  }
  if (__builtin_add_overflow(sum, amount, &sum)) {
    return failure(
        Errc::invalid_argument,
        base::format("the sum in key \"{}\" does not fit 64 bits", base::shown(key, kShown)));
  }
  Response response = set(key, base::format("{}", sum));
  response.number = sum;
  return response;
}

Response StoreTable::compare_set(Request& request) {
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

Response StoreTable::append(const std::string& key, const std::string& text) {
  const auto entry = table_.find(key);
  if (entry == table_.end()) return set(key, text);
  if (entry->second.size() + text.size() > limits_.value_bytes) {
    return failure(Errc::invalid_argument,
                   base::format("the value of key \"{}\" would have {} bytes, {} is the limit",
                                base::shown(key, kShown), entry->second.size() + text.size(),
                                limits_.value_bytes));
  }
  if (Outcome status = check_room(text.size()); !status) return failure(status);
  entry->second += text;
  used_bytes_ += text.size();
  drop_shared();
  return {};
}

Response StoreTable::push(const std::string& queue, std::string text) {
  if (const auto line = queue_lines_.find(queue); line != queue_lines_.end()) {
    Waiting& first = waiting_.find(line->second.front())->second;
    first.answer = std::make_shared<const Response>(value(std::move(text)));
    make_ready(first);
    return {};
  }
  const auto entry = queues_.find(queue);
  const std::size_t cost =
      cost_of_queued(text) + (entry == queues_.end() ? cost_of_queue(queue) : 0);
  if (Outcome status = check_room(cost); !status) return failure(status);
  if (entry != queues_.end()) {
    entry->second.push_back(std::move(text));
  } else {
    std::deque<std::string> values;  // a queue in the table is never empty
    values.push_back(std::move(text));
    queues_.emplace(queue, std::move(values));
  }
  used_bytes_ += cost;
  return {};
}

Response StoreTable::pop(const std::string& queue) {
  const auto entry = queues_.find(queue);
  if (entry == queues_.end()) return number(0);
  Response response = value({});
  // From here on nothing can fail: a value is in the queue or in the answer.
  response.values[0].swap(entry->second.front());
  response.number = 1;
  used_bytes_ -= cost_of_queued(response.values[0]);
  entry->second.pop_front();
  if (entry->second.empty()) {
    used_bytes_ -= cost_of_queue(entry->first);
    queues_.erase(entry);
  }
  return response;
}

// Counted first: many names of one long value must not make an endless answer.
std::optional<Response> StoreTable::misfit(std::size_t bytes) const {
  if (bytes > limits_.body_bytes) {
    return failure(Errc::store,
                   base::format("the answer has {} bytes, {} is the limit; ask for fewer keys at "
                                "once",
                                bytes, limits_.body_bytes));
  }
  if (keeps_answers_ && bytes >= kShortAnswer && !has_room(bytes)) return no_room("the answer");
  return std::nullopt;
}

Response StoreTable::list_keys() const {
  std::size_t bytes = 0;
  for (const auto& entry : table_) bytes += kItemBytes + entry.first.size();
  if (auto error = misfit(bytes)) return *std::move(error);
  Response response;
  response.values.reserve(table_.size());
  for (const auto& entry : table_) response.values.push_back(entry.first);
  std::ranges::sort(response.values);
  return response;
}

Response StoreTable::values_of(const std::vector<std::string>& keys) const {
  std::size_t bytes = 0;
  for (const std::string& key : keys) bytes += table_.at(key).size();
  if (auto error = misfit(bytes)) return *std::move(error);
  Response response;
  response.values.reserve(keys.size());
  for (const std::string& key : keys) response.values.push_back(table_.at(key));
  return response;
}

bool StoreTable::seek_missing(Waiting& waiting) {
  const std::vector<std::string>& keys = waiting.request.keys;
  if (waiting.request.op == Op::queue_pop) return !queues_.contains(keys[0]);
  while (true) {
    for (; waiting.cursor < keys.size(); ++waiting.cursor) {
      ++lookups_;
      if (!table_.contains(keys[waiting.cursor])) return true;
    }
    if (waiting.deletions == deletions_) return false;
    // A key before the cursor may have been deleted since: start over.
    waiting.deletions = deletions_;
    waiting.cursor = 0;
  }
}

void StoreTable::wake_key(const std::string& key) noexcept {
  const auto entry = key_lines_.find(key);
  if (entry == key_lines_.end()) return;
  for (const Ticket ticket : entry->second) waiting_.find(ticket)->second.line = &ready_;
  ready_.splice(ready_.end(), entry->second);
  key_lines_.erase(entry);
}

void StoreTable::enqueue(Waiting& waiting, Line& from) {
  auto& lines = waiting.request.op == Op::queue_pop ? queue_lines_ : key_lines_;
  Line& line = lines[waiting.request.keys[waiting.cursor]];
  // From here on nothing can fail: no queue of waiting requests is left empty.
  line.splice(line.end(), from, waiting.place);
  waiting.line = &line;
}

/// Its place is still good for `ready_`.
void StoreTable::make_ready(Waiting& waiting) noexcept {
  if (waiting.deadline) deadlines_.erase(*waiting.deadline);
  waiting.deadline.reset();
  if (waiting.line == &ready_) return;
  Line moved;
  moved.splice(moved.end(), *waiting.line, waiting.place);
  drop_if_empty(waiting);
  ready_.splice(ready_.end(), moved);
  waiting.line = &ready_;
}

void StoreTable::unqueue(Waiting& waiting) noexcept {
  if (waiting.line == nullptr) return;
  waiting.line->erase(waiting.place);
  if (waiting.line != &ready_) drop_if_empty(waiting);
  waiting.line = nullptr;
}

/// The line of the key or queue that it lacks.
void StoreTable::drop_if_empty(const Waiting& waiting) noexcept {
  auto& lines = waiting.request.op == Op::queue_pop ? queue_lines_ : key_lines_;
  const auto line = lines.find(waiting.request.keys[waiting.cursor]);
  if (line->second.empty()) lines.erase(line);
}

void StoreTable::forget(Entry entry) noexcept {
  unqueue(entry->second);
  used_bytes_ -= entry->second.cost;
  if (entry->second.deadline) deadlines_.erase(*entry->second.deadline);
  waiting_.erase(entry);
}

}  // namespace tutti::store
