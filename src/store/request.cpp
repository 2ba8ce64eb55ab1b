#include "store/request.hpp"

#include <fmt/format.h>

#include "base/shown.hpp"

namespace tutti::store {

std::string_view to_string(Op op) noexcept {
  switch (op) {
    case Op::set: return "set";
    case Op::get: return "get";
    case Op::add: return "add";
    case Op::check: return "check";
    case Op::wait: return "wait";
    case Op::compare_set: return "compare_set";
    case Op::delete_key: return "delete_key";
    case Op::num_keys: return "num_keys";
    case Op::list_keys: return "list_keys";
    case Op::append: return "append";
    case Op::multi_get: return "multi_get";
    case Op::multi_set: return "multi_set";
    case Op::queue_push: return "queue_push";
    case Op::queue_pop: return "queue_pop";
    case Op::queue_try_pop: return "queue_try_pop";
    case Op::queue_len: return "queue_len";
    case Op::leave: return "leave";
    case Op::set_will: return "set_will";
    case Op::drop_will: return "drop_will";
    case Op::enroll: return "enroll";
  }
  return "unknown";
}

Shape shape_of(Op op) noexcept {
  switch (op) {
    case Op::set:
    case Op::append:
    case Op::queue_push:
    case Op::set_will: return {1, 1, false};
    case Op::compare_set: return {1, 2, false};
    case Op::get:
    case Op::add:
    case Op::delete_key:
    case Op::queue_pop:
    case Op::queue_try_pop:
    case Op::queue_len:
    case Op::drop_will: return {1, 0, false};
    case Op::check:
    case Op::wait:
    case Op::multi_get: return {0, 0, true};
    case Op::multi_set: return {0, 1, true};
    case Op::enroll: return {3, 1, false};
    case Op::num_keys:
    case Op::list_keys:
    case Op::leave: break;
  }
  return {};
}

bool changes(Op op) noexcept {
  return op == Op::set || op == Op::add || op == Op::compare_set || op == Op::delete_key ||
         op == Op::append || op == Op::multi_set || op == Op::queue_push || op == Op::queue_try_pop;
}

Outcome check_request(const Request& request, const Limits& limits) {
  const auto bad = [&](std::string_view why) {
    return Outcome(Errc::invalid_argument, fmt::format("store {}: {}", to_string(request.op), why));
  };
  const Shape shape = shape_of(request.op);
  const std::size_t keys = request.keys.size();
  const std::size_t values = request.values.size();
  if (shape.many ? values != shape.values * keys : keys != shape.keys || values != shape.values)
    return bad(fmt::format("does not go with {} keys and {} values", keys, values));
  if (keys > limits.items)
    return bad(fmt::format("{} keys at once are too many, {} is the limit", keys, limits.items));
  std::size_t body = 0;
  for (const std::string& key : request.keys) {
    body += key.size() + sizeof(std::uint32_t);
    if (key.empty()) return bad("a key must not be empty");
    if (key.size() > limits.key_bytes) {
      return bad(fmt::format("a key of {} bytes is too long, {} is the limit: \"{}...\"",
                             key.size(), limits.key_bytes, base::shown(key, 32)));
    }
  }
  for (const std::string& value : request.values) {
    body += value.size() + sizeof(std::uint32_t);
    if (value.size() > limits.value_bytes) {
      return bad(fmt::format("a value of {} bytes is too long, {} is the limit", value.size(),
                             limits.value_bytes));
    }
  }
  // The fixed part of a body is far below this reserve.
  constexpr std::size_t kReserve = 4096;
  if (body + kReserve > limits.body_bytes) {
    return bad(fmt::format("{} bytes at once are too many, {} is the limit", body,
                           limits.body_bytes - kReserve));
  }
  return {};
}

}  // namespace tutti::store
