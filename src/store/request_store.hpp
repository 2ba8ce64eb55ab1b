#pragma once

#include <tutti/store.hpp>

#include "base/forks.hpp"
#include "store/request.hpp"

namespace tutti::store {

/// The message of a failed call: what, which key, which store, how long, what to try.
[[nodiscard]] Outcome describe_failure(Op op, const std::string& name, std::size_t count,
                                       const Response& response, Store::Clock::duration timeout,
                                       const std::string& store);

/// The error for a store that a forked child has from its parent.
[[nodiscard]] Outcome forked_store(const std::string& store);

/// A store that is asked by values: one entry point instead of one per operation. `Base` is Store
/// or an interface derived from it.
template <class Base>
class RequestStore : public Base {
 protected:
  using Deadline = typename Base::Deadline;
  using KeyValue = typename Base::KeyValue;

  /// True in a forked child of the process that made this store: its locks, connections and threads
  /// belong to the parent.
  [[nodiscard]] bool is_parents() const noexcept { return forks_ != base::fork_generation(); }

  /// Carries out one request and returns its answer, which may be an error. Must not throw.
  virtual Response call(Request request, Deadline deadline) = 0;

  void do_set(std::string_view key, std::string_view value, Deadline deadline) override {
    ask(Op::set, {std::string(key)}, {std::string(value)}, deadline);
  }
  std::string do_get(std::string_view key, Deadline deadline) override {
    return first(ask(Op::get, {std::string(key)}, {}, deadline));
  }
  std::int64_t do_add(std::string_view key, std::int64_t amount, Deadline deadline) override {
    return ask(Op::add, {std::string(key)}, {}, deadline, amount).number;
  }
  bool do_check(std::span<const std::string> keys, Deadline deadline) override {
    return ask(Op::check, {keys.begin(), keys.end()}, {}, deadline).number != 0;
  }
  void do_wait(std::span<const std::string> keys, Deadline deadline) override {
    ask(Op::wait, {keys.begin(), keys.end()}, {}, deadline);
  }
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired, Deadline deadline) override {
    return first(ask(Op::compare_set, {std::string(key)},
                     {std::string(expected), std::string(desired)}, deadline));
  }
  bool do_delete_key(std::string_view key, Deadline deadline) override {
    return ask(Op::delete_key, {std::string(key)}, {}, deadline).number != 0;
  }
  std::int64_t do_num_keys(Deadline deadline) override {
    return ask(Op::num_keys, {}, {}, deadline).number;
  }
  std::vector<std::string> do_list_keys(Deadline deadline) override {
    return ask(Op::list_keys, {}, {}, deadline).values;
  }
  void do_append(std::string_view key, std::string_view value, Deadline deadline) override {
    ask(Op::append, {std::string(key)}, {std::string(value)}, deadline);
  }
  std::vector<std::string> do_multi_get(std::span<const std::string> keys,
                                        Deadline deadline) override {
    std::vector<std::string> values =
        ask(Op::multi_get, {keys.begin(), keys.end()}, {}, deadline).values;
    if (values.size() != keys.size()) raise(nonsense());
    return values;
  }
  void do_multi_set(std::span<const KeyValue> pairs, Deadline deadline) override {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (const auto& [key, value] : pairs) {
      keys.push_back(key);
      values.push_back(value);
    }
    ask(Op::multi_set, std::move(keys), std::move(values), deadline);
  }
  void do_queue_push(std::string_view queue, std::string_view value, Deadline deadline) override {
    ask(Op::queue_push, {std::string(queue)}, {std::string(value)}, deadline);
  }
  std::string do_queue_pop(std::string_view queue, Deadline deadline) override {
    return first(ask(Op::queue_pop, {std::string(queue)}, {}, deadline));
  }
  std::optional<std::string> do_queue_try_pop(std::string_view queue, Deadline deadline) override {
    Response response = ask(Op::queue_try_pop, {std::string(queue)}, {}, deadline);
    if (response.number == 0) return std::nullopt;
    return first(std::move(response));
  }
  std::int64_t do_queue_len(std::string_view queue, Deadline deadline) override {
    return ask(Op::queue_len, {std::string(queue)}, {}, deadline).number;
  }

  Response ask(Op op, std::vector<std::string> keys, std::vector<std::string> values,
               Deadline deadline, std::int64_t amount = 0) {
    Request request;
    request.op = op;
    request.amount = amount;
    request.keys = std::move(keys);
    request.values = std::move(values);
    raise_if(check_request(request, Limits()));
    if (is_parents()) raise(forked_store(this->describe()));
    const auto start = Store::Clock::now();
    const std::string name = request.keys.empty() ? std::string() : request.keys.front();
    const std::size_t count = request.keys.size();
    Response response = call(std::move(request), deadline);
    if (response.code != Errc::ok)
      raise(describe_failure(op, name, count, response, deadline - start, this->describe()));
    return response;
  }

 private:
  const std::uint64_t forks_ = base::fork_generation();

  std::string first(Response response) const {
    if (response.values.size() != 1) raise(nonsense());
    return std::move(response.values[0]);
  }

  [[nodiscard]] Outcome nonsense() const {
    return Outcome(Errc::store, this->describe() +
                                    " gave an answer that does not fit the question; "
                                    "do all processes run the same version?");
  }
};

}  // namespace tutti::store
