#pragma once

#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {
namespace detail {
/// Keeps memory until the process ends.
void keep_for_good(std::shared_ptr<const void> memory);
}  // namespace detail

/// A Work that owns the result of its operation, and gives it to the caller who waits.
///
/// Lifetime, threads and errors: as Work. The destructor waits before the result goes. It leaves
/// the result's memory for good if the operation has failed and the backend may still write there.
template <class Result>
class [[nodiscard]] OwningWork {
 public:
  OwningWork() = default;
  /// `work` writes to memory that `result` owns, which stays where it is when `result` is moved.
  OwningWork(Result result, Work work) noexcept
      : result_(std::move(result)), work_(std::move(work)) {}
  OwningWork(OwningWork&& other) noexcept
      : result_(std::exchange(other.result_, std::nullopt)), work_(std::move(other.work_)) {}
  OwningWork& operator=(OwningWork&& other) noexcept {
    if (this == &other) return *this;
    end();
    work_ = std::move(other.work_);
    result_ = std::exchange(other.result_, std::nullopt);
    return *this;
  }
  ~OwningWork() { end(); }

  /// Waits as Work::wait does, and gives the result. A second call throws InvalidArgument.
  [[nodiscard]] Result wait() {
    work_.wait();
    if (!result_)
      raise(Outcome(Errc::invalid_argument, "wait: an earlier wait has taken the result"));
    return *std::exchange(result_, std::nullopt);
  }
  /// The result if the operation is done; nothing: not yet. Does not wait for it. Throws as `wait`.
  [[nodiscard]] std::optional<Result> try_wait() {
    if (!done()) return std::nullopt;
    return wait();
  }
  /// As the functions of Work with these names.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) { return work_.wait_for(limit); }
  [[nodiscard]] bool done() const { return work_.done(); }
  [[nodiscard]] Outcome error() const { return work_.error(); }
  [[nodiscard]] bool valid() const noexcept { return work_.valid(); }
  template <class Function>
  void on_done(Function function) {
    work_.on_done(std::move(function));
  }

  /// `co_await` gives the result, too.
  [[nodiscard]] bool await_ready() const { return work_.await_ready(); }
  void await_suspend(std::coroutine_handle<> handle) { work_.await_suspend(handle); }
  [[nodiscard]] Result await_resume() { return wait(); }

 private:
  void end() noexcept {
    if (work_.operations_ != nullptr && work_.finish() && result_)
      detail::keep_for_good(std::make_shared<Result>(*std::move(result_)));
  }

  std::optional<Result> result_;
  Work work_;
};

}  // namespace v0
}  // namespace tutti
