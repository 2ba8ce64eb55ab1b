#include <tutti/store.hpp>

#include <algorithm>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "store/request.hpp"

namespace tutti {
inline namespace v0 {
namespace {

using std::chrono::milliseconds;

// The time for leaving a queue cleanly after the timeout of the call is over.
constexpr milliseconds kAfterTimeout = std::chrono::seconds(1);

void check(store::Op op, std::vector<std::string> keys, std::span<const std::string_view> values) {
  store::Request request;
  request.op = op;
  request.keys = std::move(keys);
  const store::Limits limits;
  for (const std::string_view value : values) {
    if (value.size() > limits.value_bytes) {
      raise(Outcome(Errc::invalid_argument,
                    base::format("store {}: a value of {} bytes is too long, {} is the limit",
                                 store::to_string(op), value.size(), limits.value_bytes)));
    }
  }
  // The values' lengths are known to be good; their number is what the call made it.
  const store::Shape shape = store::shape_of(op);
  request.values.resize(shape.many ? shape.values * request.keys.size() : shape.values);
  raise_if(store::check_request(request, limits));
}

void check_one(store::Op op, std::string_view key) { check(op, {std::string(key)}, {}); }

void check_one(store::Op op, std::string_view key, std::string_view value) {
  check(op, {std::string(key)}, std::span(&value, 1));
}

void check_keys(store::Op op, std::span<const std::string> keys) {
  check(op, {keys.begin(), keys.end()}, {});
}

// Where the built-in form of a queue keeps its numbers and values.
std::string queue_key(std::string_view queue, std::string_view what) {
  return base::format("{}/.queue/{}", queue, what);
}

}  // namespace

SecretBytes Store::derive_secret(std::string_view /*drawn*/) const { return {}; }

Store::Deadline Store::deadline_of(Timeout timeout) const {
  const milliseconds chosen = timeout.value_or(get_timeout());
  if (chosen < milliseconds::zero()) {
    raise(Outcome(
        Errc::invalid_argument,
        base::format("a store timeout must not be negative, this is {} ms", chosen.count())));
  }
  return base::deadline_after(Clock::now(), chosen);
}

milliseconds Store::get_timeout() const noexcept { return milliseconds(timeout_ms_.load()); }

void Store::set_timeout(milliseconds timeout) {
  [[maybe_unused]] const Deadline checked = deadline_of(timeout);
  timeout_ms_.store(timeout.count());
}

void Store::set(std::string_view key, std::string_view value, Timeout timeout) {
  check_one(store::Op::set, key, value);
  do_set(key, value, deadline_of(timeout));
}

std::string Store::get(std::string_view key, Timeout timeout) {
  check_one(store::Op::get, key);
  return do_get(key, deadline_of(timeout));
}

std::int64_t Store::add(std::string_view key, std::int64_t amount, Timeout timeout) {
  check_one(store::Op::add, key);
  return do_add(key, amount, deadline_of(timeout));
}

bool Store::check(std::span<const std::string> keys, Timeout timeout) {
  check_keys(store::Op::check, keys);
  return do_check(keys, deadline_of(timeout));
}

bool Store::check(std::initializer_list<std::string> keys, Timeout timeout) {
  return check(std::span(keys.begin(), keys.size()), timeout);
}

bool Store::check(std::string_view key, Timeout timeout) {
  const std::string one(key);
  return check(std::span(&one, 1), timeout);
}

void Store::wait(std::span<const std::string> keys, Timeout timeout) {
  check_keys(store::Op::wait, keys);
  do_wait(keys, deadline_of(timeout));
}

void Store::wait(std::initializer_list<std::string> keys, Timeout timeout) {
  wait(std::span(keys.begin(), keys.size()), timeout);
}

void Store::wait(std::string_view key, Timeout timeout) {
  const std::string one(key);
  wait(std::span(&one, 1), timeout);
}

std::string Store::compare_set(std::string_view key, std::string_view expected,
                               std::string_view desired, Timeout timeout) {
  const std::string_view values[] = {expected, desired};
  tutti::check(store::Op::compare_set, {std::string(key)}, values);
  return do_compare_set(key, expected, desired, deadline_of(timeout));
}

bool Store::delete_key(std::string_view key, Timeout timeout) {
  check_one(store::Op::delete_key, key);
  return do_delete_key(key, deadline_of(timeout));
}

std::int64_t Store::num_keys(Timeout timeout) { return do_num_keys(deadline_of(timeout)); }

std::vector<std::string> Store::list_keys(Timeout timeout) {
  return do_list_keys(deadline_of(timeout));
}

void Store::append(std::string_view key, std::string_view value, Timeout timeout) {
  check_one(store::Op::append, key, value);
  do_append(key, value, deadline_of(timeout));
}

std::vector<std::string> Store::multi_get(std::span<const std::string> keys, Timeout timeout) {
  check_keys(store::Op::multi_get, keys);
  return do_multi_get(keys, deadline_of(timeout));
}

std::vector<std::string> Store::multi_get(std::initializer_list<std::string> keys,
                                          Timeout timeout) {
  return multi_get(std::span(keys.begin(), keys.size()), timeout);
}

void Store::multi_set(std::span<const KeyValue> pairs, Timeout timeout) {
  std::vector<std::string> keys;
  std::vector<std::string_view> values;
  for (const auto& [key, value] : pairs) {
    keys.push_back(key);
    values.push_back(value);
  }
  tutti::check(store::Op::multi_set, std::move(keys), values);
  do_multi_set(pairs, deadline_of(timeout));
}

void Store::queue_push(std::string_view queue, std::string_view value, Timeout timeout) {
  check_one(store::Op::queue_push, queue, value);
  do_queue_push(queue, value, deadline_of(timeout));
}

std::string Store::queue_pop(std::string_view queue, Timeout timeout) {
  check_one(store::Op::queue_pop, queue);
  return do_queue_pop(queue, deadline_of(timeout));
}

std::optional<std::string> Store::queue_try_pop(std::string_view queue, Timeout timeout) {
  check_one(store::Op::queue_try_pop, queue);
  return do_queue_try_pop(queue, deadline_of(timeout));
}

std::int64_t Store::queue_len(std::string_view queue, Timeout timeout) {
  check_one(store::Op::queue_len, queue);
  return do_queue_len(queue, deadline_of(timeout));
}

bool Store::set_will(std::string_view key, std::string_view value, Timeout timeout) {
  check_one(store::Op::set_will, key, value);
  return do_set_will(key, value, deadline_of(timeout));
}

void Store::drop_will(std::string_view key, Timeout timeout) {
  check_one(store::Op::drop_will, key);
  do_drop_will(key, deadline_of(timeout));
}

bool Store::do_set_will(std::string_view /*key*/, std::string_view /*value*/,
                        Deadline /*deadline*/) {
  return false;
}

void Store::do_drop_will(std::string_view /*key*/, Deadline /*deadline*/) {}

std::int64_t Store::do_num_keys(Deadline deadline) {
  return static_cast<std::int64_t>(do_list_keys(deadline).size());
}

void Store::do_append(std::string_view key, std::string_view value, Deadline deadline) {
  // If a value is expected, compare_set does not distinguish an absent key from an empty one. So
  // make the key first.
  do_compare_set(key, "", "", deadline);
  std::string before = do_get(key, deadline);
  while (true) {
    const std::string after = before + std::string(value);
    std::string stands = do_compare_set(key, before, after, deadline);
    if (stands == after) return;
    before = std::move(stands);
  }
}

std::vector<std::string> Store::do_multi_get(std::span<const std::string> keys, Deadline deadline) {
  do_wait(keys, deadline);
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(do_get(key, deadline));
  return values;
}

void Store::do_multi_set(std::span<const KeyValue> pairs, Deadline deadline) {
  for (const auto& [key, value] : pairs) do_set(key, value, deadline);
}

// The built-in queue: a pusher takes the next number of `tail`, a popper the next of `head`, and
// they meet at the key of that number. The key holds "v" and the value, or "x" where a
// popper gave up: then the pusher goes on to the next number.
void Store::do_queue_push(std::string_view queue, std::string_view value, Deadline deadline) {
  const std::string marked = "v" + std::string(value);
  while (true) {
    const std::int64_t number = do_add(queue_key(queue, "tail"), 1, deadline);
    const std::string key = queue_key(queue, base::format("{}", number));
    if (do_compare_set(key, "", marked, deadline) == marked) return;
    do_delete_key(key, deadline);
  }
}

std::string Store::do_queue_pop(std::string_view queue, Deadline deadline) {
  const std::int64_t number = do_add(queue_key(queue, "head"), 1, deadline);
  const std::string key = queue_key(queue, base::format("{}", number));
  std::string marked;
  try {
    marked = do_get(key, deadline);
  } catch (const TimeoutError&) {
    marked = do_compare_set(key, "", "x", Clock::now() + kAfterTimeout);
    if (marked == "x") throw;
  }
  do_delete_key(key, std::max(deadline, Clock::now() + kAfterTimeout));
  return marked.substr(1);
}

std::optional<std::string> Store::do_queue_try_pop(std::string_view queue, Deadline deadline) {
  if (do_queue_len(queue, deadline) == 0) return std::nullopt;
  const std::int64_t number = do_add(queue_key(queue, "head"), 1, deadline);
  const std::string key = queue_key(queue, base::format("{}", number));
  // Another popper may have been faster, or a pusher may have its number but not have set its
  // value.
  const std::string marked = do_compare_set(key, "", "x", deadline);
  if (marked == "x") return std::nullopt;
  do_delete_key(key, deadline);
  return marked.substr(1);
}

std::int64_t Store::do_queue_len(std::string_view queue, Deadline deadline) {
  const std::int64_t popped = do_add(queue_key(queue, "head"), 0, deadline);
  // Poppers that wait have taken numbers beyond the tail.
  return std::max<std::int64_t>(do_add(queue_key(queue, "tail"), 0, deadline) - popped, 0);
}

}  // namespace v0
}  // namespace tutti
