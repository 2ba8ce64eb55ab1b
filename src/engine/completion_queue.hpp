#pragma once

#include <algorithm>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <tutti/backend.hpp>
#include <tutti/error.hpp>

namespace tutti::engine {

/// Something that is done and wants to be told.
struct Finished {
  Callback callback;
  Status status;
};

/// Callbacks of operations that have ended, until the driver takes them to call them without its
/// lock. The end of an operation asks for no memory: whoever registers a callback reserves first.
class CompletionQueue {
 public:
  /// For a callback that is about to be registered. Throws std::bad_alloc.
  void reserve() {
    const std::size_t needed = finished_.size() + registered_ + 1;
    if (finished_.capacity() < needed)
      finished_.reserve(std::max(needed, 2 * finished_.capacity()));
  }
  /// A callback was registered with something that still runs.
  void registered() noexcept { ++registered_; }
  /// One that was never registered: there is room after `reserve`.
  void add(const Callback& callback, Status status) noexcept {
    finished_.push_back({callback, std::move(status)});
  }
  /// The operation that has these callbacks has ended.
  void complete(std::span<const Callback> callbacks, const Status& status) noexcept {
    registered_ -= callbacks.size();
    for (const Callback& callback : callbacks) finished_.push_back({callback, status});
  }
  [[nodiscard]] std::size_t size() const noexcept { return finished_.size(); }
  /// All that wait. Empty too while there is no memory to take them.
  [[nodiscard]] std::vector<Finished> take() noexcept {
    std::vector<Finished> taken;
    try {
      taken.reserve(registered_);  // becomes the room for those that are still to end
    } catch (const std::bad_alloc&) {
      return {};
    }
    taken.swap(finished_);
    return taken;
  }

 private:
  std::vector<Finished> finished_;
  std::size_t registered_ = 0;  ///< `finished_` has room for so many more
};

}  // namespace tutti::engine
