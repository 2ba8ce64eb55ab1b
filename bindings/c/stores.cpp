// <tutti/c.h>: the table that ranks share.
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "face.hpp"

using namespace tutti::c;  // NOLINT: the functions are C's

namespace {

using Milliseconds = std::chrono::milliseconds;

tutti::Store& of(tutti_store* store) { return *at(store, "the store").store; }

std::string_view key_of(const char* key) { return &at(key, "key"); }

std::string_view bytes_of(const void* value, std::size_t size) {
  if (value == nullptr && size > 0) refuse("value is NULL");
  return {static_cast<const char*>(value), size};
}

/// Hands bytes out, in memory of malloc, with a zero behind them.
void give(const std::string& bytes, char** value, std::size_t* size) {
  char* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, bytes.c_str(), bytes.size() + 1);
  *value = copy;
  if (size != nullptr) *size = bytes.size();
}

/// `get` gives the bytes that `value` and `size` are told.
template <class Get>
int give_what(char** value, std::size_t* size, Get&& get) noexcept {
  return result_of([&] {
    at(value, "value") = nullptr;
    if (size != nullptr) *size = 0;
    give(get(), value, size);
  });
}

template <class Make>
int give_store(tutti_store** store, Make&& make) noexcept {
  return result_of([&] {
    at(store, "store") = nullptr;
    *store = new tutti_store{make()};
  });
}

Milliseconds milliseconds_of(std::chrono::nanoseconds timeout) {
  return std::chrono::ceil<Milliseconds>(timeout);
}

/// The number of users; 0: it is not known.
std::optional<int> users_of(int users) {
  if (users < 0) refuse("users is negative");
  return users == 0 ? std::nullopt : std::optional(users);
}

}  // namespace

int tutti_store_of(tutti_group* group, tutti_store** store) {
  return result_of([&] {
    at(store, "store") = nullptr;
    if (auto its = of(group).store()) *store = new tutti_store{std::move(its)};
  });
}

int tutti_tcp_store(const char* host, int port, int serve, int users, double timeout,
                    tutti_store** store) {
  return give_store(store, [&] {
    tutti::TcpStoreOptions options;
    options.host = &at(host, "host");
    if (port < 0 || port > std::numeric_limits<std::uint16_t>::max())
      refuse("port " + std::to_string(port) + " is none: 0 to 65535");
    options.port = static_cast<std::uint16_t>(port);
    options.serve = serve != 0;
    options.users = users_of(users);
    if (const auto limit = timeout_of(timeout)) options.timeout = milliseconds_of(*limit);
    return tutti::make_tcp_store(options);
  });
}

int tutti_tcp_store_port(tutti_store* store, int* port) {
  return result_of([&] {
    const auto* const tcp = dynamic_cast<const tutti::TcpStore*>(&of(store));
    if (tcp == nullptr) refuse("the store was not made by tutti_tcp_store");
    at(port, "port") = tcp->port();
  });
}

int tutti_file_store(const char* path, int users, double timeout, tutti_store** store) {
  return give_store(store, [&] {
    tutti::FileStoreOptions options;
    options.path = &at(path, "path");
    options.users = users_of(users);
    if (const auto limit = timeout_of(timeout)) options.timeout = milliseconds_of(*limit);
    return tutti::make_file_store(options);
  });
}

int tutti_prefix_store(const char* prefix, tutti_store* store, tutti_store** part) {
  return give_store(part, [&] {
    (void)of(store);
    return tutti::make_prefix_store(&at(prefix, "prefix"), store->store);
  });
}

void tutti_store_free(tutti_store* store) { delete store; }
void tutti_free_bytes(char* bytes) { std::free(bytes); }

int tutti_store_set_timeout(tutti_store* store, double seconds) {
  return result_of([&] { of(store).set_timeout(milliseconds_of(positive_timeout_of(seconds))); });
}

int tutti_store_set(tutti_store* store, const char* key, const void* value, size_t size) {
  return result_of([&] { of(store).set(key_of(key), bytes_of(value, size)); });
}

int tutti_store_get(tutti_store* store, const char* key, char** value, size_t* size) {
  return give_what(value, size, [&] { return of(store).get(key_of(key)); });
}

int tutti_store_add(tutti_store* store, const char* key, int64_t amount, int64_t* sum) {
  return result_of([&] {
    const std::int64_t all = of(store).add(key_of(key), amount);
    if (sum != nullptr) *sum = all;
  });
}

int tutti_store_check(tutti_store* store, const char* key, int* there) {
  return result_of([&] { at(there, "there") = of(store).check(key_of(key)) ? 1 : 0; });
}

int tutti_store_wait(tutti_store* store, const char* key) {
  return result_of([&] { of(store).wait(key_of(key)); });
}

int tutti_store_compare_set(tutti_store* store, const char* key, const void* expected,
                            size_t expected_size, const void* desired, size_t desired_size,
                            char** value, size_t* size) {
  return give_what(value, size, [&] {
    return of(store).compare_set(key_of(key), bytes_of(expected, expected_size),
                                 bytes_of(desired, desired_size));
  });
}

int tutti_store_append(tutti_store* store, const char* key, const void* value, size_t size) {
  return result_of([&] { of(store).append(key_of(key), bytes_of(value, size)); });
}

int tutti_store_delete_key(tutti_store* store, const char* key, int* was_there) {
  return result_of([&] {
    const bool gone = of(store).delete_key(key_of(key));
    if (was_there != nullptr) *was_there = gone ? 1 : 0;
  });
}

int tutti_store_num_keys(tutti_store* store, int64_t* count) {
  return result_of([&] { at(count, "count") = of(store).num_keys(); });
}

int tutti_store_queue_push(tutti_store* store, const char* queue, const void* value, size_t size) {
  return result_of([&] { of(store).queue_push(key_of(queue), bytes_of(value, size)); });
}

int tutti_store_queue_pop(tutti_store* store, const char* queue, char** value, size_t* size) {
  return give_what(value, size, [&] { return of(store).queue_pop(key_of(queue)); });
}

int tutti_store_queue_len(tutti_store* store, const char* queue, int64_t* length) {
  return result_of([&] { at(length, "length") = of(store).queue_len(key_of(queue)); });
}
