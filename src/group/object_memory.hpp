#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <tutti/objects.hpp>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/kept.hpp"

// The memory from and to which objects travel.
namespace tutti {
inline namespace v0 {
namespace detail {

/// Bytes of a block, which holds the head of an object, and the object if it is small.
inline constexpr std::size_t kBlockBytes = 512;
using Block = std::span<std::byte, kBlockBytes>;

/// Memory of a call. It is not touched before bytes come, however many a rank has announced.
class Room {
 public:
  explicit Room(std::size_t size)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  [[nodiscard]] std::span<std::byte> all() const noexcept { return {memory_.get(), size_}; }
  [[nodiscard]] Block block(int r) const noexcept {
    return all().subspan(base::as_size(r) * kBlockBytes).first<kBlockBytes>();
  }
  /// The bytes from `first` on, which keep the memory.
  [[nodiscard]] ObjectBytes from(std::size_t first, std::size_t count, int source) const {
    return {std::span<const std::byte>(memory_.get() + first, count), memory_, {}, source};
  }
  [[nodiscard]] std::shared_ptr<const void> memory() const noexcept { return memory_; }

 private:
  std::shared_ptr<std::byte[]> memory_;
  std::size_t size_;
};

/// Waits for the operations of a call, and leaves its memory for good if one fails and the backend
/// may still use it.
class CallMemory {
 public:
  CallMemory() = default;
  explicit CallMemory(const ObjectBytes& mine) : kept_{mine.memory} {}
  explicit CallMemory(const std::vector<ObjectBytes>& mine) {
    for (const ObjectBytes& one : mine) kept_.push_back(one.memory);
  }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory() {
    if (in_use_) base::keep_for_good(std::move(kept_));
  }
  [[nodiscard]] Room zeros(std::size_t size) {
    Room room = make(size);
    std::ranges::fill(room.all(), std::byte{0});
    return room;
  }
  [[nodiscard]] Room make(std::size_t size) {
    Room room(size);
    kept_.push_back(room.memory());
    return room;
  }
  /// Memory for what this rank has announced.
  [[nodiscard]] Room room_for(const ObjectCall& call, std::size_t size, int source) {
    try {
      return make(size);
    } catch (const std::bad_alloc&) {
      raise(Outcome(Errc::resource,
                    base::format("{} in group '{}': no memory for the {} bytes of rank {}",
                                 call.operation, call.group.name(), size, source))
                .with_culprit(source));
    }
  }
  /// Runs a call that blocks.
  template <class Call>
  void run(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      in_use_ = in_use_ || error.status().tensors_in_use();
      throw;
    }
  }
  void wait(Work work) {
    run([&] { work.wait(); });
  }
  /// Waits for all; throws the first error.
  void wait_all(std::span<Work> works) {
    std::exception_ptr first;
    for (Work& work : works) {
      try {
        run([&] { work.wait(); });
      } catch (const Error&) {
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

 private:
  std::vector<std::shared_ptr<const void>> kept_;
  bool in_use_ = false;
};

}  // namespace detail
}  // namespace v0
}  // namespace tutti
