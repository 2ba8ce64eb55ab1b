#pragma once

#include <algorithm>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/error.hpp>

namespace tutti::engine {

/// A callback that is to be called, with the status of its operation.
struct Finished {
  Callback callback;
  Outcome status;
};

/// Callbacks of operations that have ended. The driver takes them, and calls them without its lock.
/// The end of an operation needs no memory, because `reserve` comes before each registration.
class CompletionQueue {
 public:
  /// Reserves memory for a callback that is about to be registered. Throws std::bad_alloc.
  void reserve() {
    const std::size_t needed = finished_.size() + registered_ + 1;
    if (finished_.capacity() < needed)
      finished_.reserve(std::max(needed, 2 * finished_.capacity()));
  }
  /// A callback was registered with an operation that still runs.
  void registered() noexcept { ++registered_; }
  /// Adds a callback whose operation has ended already. Call `reserve` before.
  void add(const Callback& callback, Outcome status) noexcept {
    finished_.push_back({callback, std::move(status)});
  }
  /// The operation that has these callbacks has ended.
  void complete(std::span<const Callback> callbacks, const Outcome& status) noexcept {
    registered_ -= callbacks.size();
    for (const Callback& callback : callbacks) finished_.push_back({callback, status});
  }
  [[nodiscard]] std::size_t size() const noexcept { return finished_.size(); }
  /// Some operations that still run have callbacks.
  [[nodiscard]] bool awaits_any() const noexcept { return registered_ > 0; }
  /// Takes all that wait. Empty also if there is no memory to take them.
  [[nodiscard]] std::vector<Finished> take() noexcept {
    std::vector<Finished> taken;
    try {
      taken.reserve(registered_);  // becomes finished_: it needs room for operations that still run
    } catch (const std::bad_alloc&) {
      return {};
    }
    taken.swap(finished_);
    return taken;
  }

 private:
  std::vector<Finished> finished_;
  std::size_t registered_ = 0;  ///< `finished_` has room for this many more callbacks
};

}  // namespace tutti::engine
