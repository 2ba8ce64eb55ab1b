#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/store.hpp>

namespace tutti::store {

/// The requests that a store takes. The numbers are those of the wire.
enum class Op : std::uint8_t {
  set = 1,
  get = 2,
  add = 3,
  check = 4,
  wait = 5,
  compare_set = 6,
  delete_key = 7,
  num_keys = 8,
  list_keys = 9,
  append = 10,
  multi_get = 11,
  multi_set = 12,
  queue_push = 13,
  queue_pop = 14,
  queue_try_pop = 15,
  queue_len = 16,
  // TCP only, since they concern a connection:
  leave = 17,  // the user leaves: its wills are withdrawn
  set_will = 18,
  drop_will = 19,
  // Adds 1 to a counter and sets a will whose key contains the sum, in one step. So every user that
  // is counted has set its will. Keys: the counter, the text before the sum, the text after it.
  enroll = 20,
};
inline constexpr std::uint8_t kLastOp = 20;

/// "set", "get", ...
[[nodiscard]] std::string_view to_string(Op op) noexcept;

/// A call as a value. Which parts an operation uses: `shape_of`.
struct Request {
  Op op = Op::get;
  std::uint32_t timeout_ms = 0;
  std::int64_t amount = 0;  ///< add
  std::vector<std::string> keys;
  std::vector<std::string> values;  ///< compare_set: expected, desired
};

/// The answer. With code `timeout`, `values` are the names that were still missing.
struct Response {
  Errc code = Errc::ok;
  std::string text;
  std::int64_t number =
      0;  ///< add, enroll, num_keys, queue_len; 0 or 1 for check, delete_key, try_pop
  std::vector<std::string> values;
};

/// True if an operation can change keys or queues at once; `queue_pop`, which may wait, is not one.
[[nodiscard]] bool changes(Op op) noexcept;

struct Limits {
  std::size_t key_bytes = Store::kMaxKeyBytes;
  std::size_t value_bytes = Store::kMaxValueBytes;
  /// Keys, or values, of one request.
  std::size_t items = 65536;
  /// The most bytes of one request or response after its header.
  std::size_t body_bytes = Store::kMaxValueBytes + (std::size_t{1} << 20);
  /// The most bytes that a server keeps in all: keys, queues, values, requests that wait or have
  /// not come completely, unread answers, wills. Most count some bytes more than they have.
  std::size_t total_bytes = std::size_t{1} << 30;
};

/// How many keys and values an operation takes; `many`: any number, as many values as keys.
struct Shape {
  std::size_t keys = 0;
  std::size_t values = 0;
  bool many = false;
};
[[nodiscard]] Shape shape_of(Op op) noexcept;

/// Ok if the parts of the request fit its operation and the limits.
[[nodiscard]] Outcome check_request(const Request& request, const Limits& limits);

}  // namespace tutti::store
