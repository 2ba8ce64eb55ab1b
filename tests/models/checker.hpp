#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "models/graph.hpp"

// An enumerating checker for small concurrent programs in C11's memory model. It runs a program
// again and again, until it has seen every execution that RC11 allows: each interleaving, each
// store that a load may read, each place of a store in the modification order. Two interleavings of
// the same execution are followed once. docs/design/threads.md says what that shows and what not.
namespace tutti::models {

using At = std::source_location;

[[nodiscard]] std::string name_of(Order order);

/// An access or fence in the source that is checked, as the model has found it.
struct Site {
  std::string name;  ///< function, operation, order as written: "unlock exchange release"
  Order order;
  At at;
};
/// The sites of a program, kept over its executions.
using Sites = std::vector<Site>;

struct Weakening {
  std::string site;
  Order to;  ///< relaxed: a fence is left out
};

/// The weaker orders that the access or fence of a site could have.
[[nodiscard]] std::vector<Order> weaker_than(const Site& site);

/// A program of some threads. A new one is made for each execution. Threads may be ended at any
/// access: their stacks are dropped, so nothing on them may own memory.
class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  virtual ~Program() = default;
  virtual void run(int thread) = 0;
  /// Runs once all threads have ended, and sees all they did.
  virtual void finish() {}
};

struct Options {
  int threads = 2;
  const Weakening* weakening = nullptr;
  /// A thread that reads the same store at the same site more often than this is not followed.
  int most_repeats = 3;
};

struct Report {
  std::string error;               ///< the first one; empty: none
  std::string trace;               ///< the execution with the error
  std::set<std::string> outcomes;  ///< what finish() told
  std::size_t executions = 0;      ///< complete ones
  std::size_t states = 0;
  std::size_t cut = 0;  ///< executions that were not followed because of most_repeats
};

using Make = std::function<std::unique_ptr<Program>()>;
[[nodiscard]] Report explore(const Make& make, Sites& sites, const Options& options);

// ---- for programs -------------------------------------------------------------------------------

[[nodiscard]] int this_thread() noexcept;
/// An error of the program.
void require(bool holds, const char* text);
void outcome(const std::string& text);
/// Waits until `look` is true. It must not write.
void await(const std::function<bool()>& look);
void fence(Order order, At at = At::current());
/// The effect of membarrier: a full fence in this thread, and one in each other at a place of its
/// execution while this call runs.
void membarrier(At at = At::current());

/// A word of shared memory, for use where the library has std::atomic.
class Word {
 public:
  explicit Word(std::uint64_t value);
  Word(const Word&) = delete;
  Word& operator=(const Word&) = delete;
  [[nodiscard]] std::uint64_t load(Order order, At at) const;
  void store(std::uint64_t value, Order order, At at);
  std::uint64_t change(const std::function<std::uint64_t(std::uint64_t)>& to, Order order,
                       const char* what, At at);
  bool compare_exchange(std::uint64_t& expected, std::uint64_t desired, Order order, At at);
  /// The newest value, for finish().
  [[nodiscard]] std::uint64_t last() const;
  /// As futex(2) has it: compares and goes to sleep in one step, and is ordered with the wakes of
  /// this word. Returns when woken.
  void futex_wait(std::uint32_t expected);
  void futex_wake(int count);

 private:
  [[nodiscard]] int choose(bool for_rmw) const;

  int location_;
  int kernel_;  ///< orders the calls of futex
};

template <class T>
class Atomic {
 public:
  Atomic(T value = T()) : word_(pack(value)) {}  // NOLINT: as std::atomic
  [[nodiscard]] T load(Order order = Order::seq_cst, At at = At::current()) const {
    return unpack(word_.load(order, at));
  }
  void store(T value, Order order = Order::seq_cst, At at = At::current()) {
    word_.store(pack(value), order, at);
  }
  T exchange(T value, Order order = Order::seq_cst, At at = At::current()) {
    return unpack(word_.change([&](std::uint64_t) { return pack(value); }, order, "exchange", at));
  }
  T fetch_add(T more, Order order = Order::seq_cst, At at = At::current()) {
    return unpack(word_.change([&](std::uint64_t old) { return pack(T(unpack(old) + more)); },
                               order, "fetch_add", at));
  }
  T fetch_sub(T less, Order order = Order::seq_cst, At at = At::current()) {
    return fetch_add(T(-less), order, at);
  }
  bool compare_exchange_strong(T& expected, T desired, Order order = Order::seq_cst,
                               At at = At::current()) {
    std::uint64_t seen = pack(expected);
    const bool changed = word_.compare_exchange(seen, pack(desired), order, at);
    if (!changed) expected = unpack(seen);
    return changed;
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = Order::seq_cst,
                             At at = At::current()) {
    return compare_exchange_strong(expected, desired, order, at);
  }
  [[nodiscard]] T last() const { return unpack(word_.last()); }
  [[nodiscard]] Word& word() noexcept { return word_; }

 private:
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_integral_v<T>);
  static std::uint64_t pack(T value) noexcept {
    return std::uint64_t(std::make_unsigned_t<T>(value));
  }
  static T unpack(std::uint64_t value) noexcept { return T(value); }
  Word word_;
};

/// Memory that is not atomic: an access that races with another one is an error.
class Cell {
 public:
  void read() const;
  void write();

 private:
  void check(int other, int at, const char* text) const;

  /// The events of a thread before its last read, and of the last writer before its write.
  mutable std::array<int, kThreads> reads_{-1, -1, -1, -1};
  int writer_ = 0;
  int written_ = -1;
};

template <class T>
class Plain {
 public:
  Plain(T value = T()) : value_(value) {}  // NOLINT: as the type itself
  operator T() const {                     // NOLINT
    cell_.read();
    return value_;
  }
  Plain& operator=(T value) {
    cell_.write();
    value_ = value;
    return *this;
  }

 private:
  T value_;
  Cell cell_;
};

}  // namespace tutti::models
