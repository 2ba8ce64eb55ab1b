#include "store/request.hpp"

#include <array>

#include "base/format.hpp"
#include "base/shown.hpp"

namespace tutti::store {

namespace {

struct Row {
  std::string_view name;
  Shape shape = {};
  bool changes = false;
};

/// By number, from 1 on.
constexpr std::array<Row, kLastOp> kOps = {{{"set", {1, 1}, true},
                                            {"get", {1, 0}},
                                            {"add", {1, 0}, true},
                                            {"check", {0, 0, true}},
                                            {"wait", {0, 0, true}},
                                            {"compare_set", {1, 2}, true},
                                            {"delete_key", {1, 0}, true},
                                            {"num_keys"},
                                            {"list_keys"},
                                            {"append", {1, 1}, true},
                                            {"multi_get", {0, 0, true}},
                                            {"multi_set", {0, 1, true}, true},
                                            {"queue_push", {1, 1}, true},
                                            {"queue_pop", {1, 0}},
                                            {"queue_try_pop", {1, 0}, true},
                                            {"queue_len", {1, 0}},
                                            {"leave"},
                                            {"set_will", {1, 1}},
                                            {"drop_will", {1, 0}},
                                            {"enroll", {3, 1}}}};

const Row& row_of(Op op) noexcept {
  static constexpr Row kUnknown{"unknown"};
  const auto number = static_cast<std::size_t>(op);
  return number == 0 || number > kOps.size() ? kUnknown : kOps[number - 1];
}

}  // namespace

std::string_view to_string(Op op) noexcept { return row_of(op).name; }
Shape shape_of(Op op) noexcept { return row_of(op).shape; }
bool changes(Op op) noexcept { return row_of(op).changes; }

Outcome check_request(const Request& request, const Limits& limits) {
  const auto bad = [&](std::string_view why) {
    return Outcome(Errc::invalid_argument,
                   base::format("store {}: {}", to_string(request.op), why));
  };
  const Shape shape = shape_of(request.op);
  const std::size_t keys = request.keys.size();
  const std::size_t values = request.values.size();
  if (shape.many ? values != shape.values * keys : keys != shape.keys || values != shape.values)
    return bad(base::format("does not go with {} keys and {} values", keys, values));
  if (keys > limits.items)
    return bad(base::format("{} keys at once are too many, {} is the limit", keys, limits.items));
  std::size_t body = 0;
  for (const std::string& key : request.keys) {
    body += key.size() + sizeof(std::uint32_t);
    if (key.empty()) return bad("a key must not be empty");
    if (key.size() > limits.key_bytes) {
      return bad(base::format("a key of {} bytes is too long, {} is the limit: \"{}...\"",
                              key.size(), limits.key_bytes, base::shown(key, 32)));
    }
  }
  for (const std::string& value : request.values) {
    body += value.size() + sizeof(std::uint32_t);
    if (value.size() > limits.value_bytes) {
      return bad(base::format("a value of {} bytes is too long, {} is the limit", value.size(),
                              limits.value_bytes));
    }
  }
  // The fixed part of a body is far below this reserve.
  constexpr std::size_t kReserve = 4096;
  if (body + kReserve > limits.body_bytes) {
    return bad(base::format("{} bytes at once are too many, {} is the limit", body,
                            limits.body_bytes - kReserve));
  }
  return {};
}

}  // namespace tutti::store
