#include <tutti/executor.hpp>

#include <atomic>
#include <memory>

namespace tutti {
inline namespace v0 {
namespace detail {
namespace {

/// The task of an executor. One that drops it would leave the coroutine suspended for ever.
class Resumption {
 public:
  Resumption(std::coroutine_handle<> coroutine, std::exception_ptr& problem) noexcept
      : coroutine_(coroutine), problem_(problem) {}
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;
  ~Resumption() {
    if (!take()) return;
    fail(std::make_exception_ptr(BackendError(
        Outcome(Errc::aborted, "co_await: the executor of resume_on has dropped the coroutine"))));
  }
  void run() noexcept {
    if (take()) coroutine_.resume();
  }
  /// After `take`.
  void fail(std::exception_ptr problem) noexcept {
    problem_ = std::move(problem);
    coroutine_.resume();
  }
  /// True once.
  [[nodiscard]] bool take() noexcept { return !taken_.exchange(true); }

 private:
  std::coroutine_handle<> coroutine_;
  std::exception_ptr& problem_;  ///< ends when the coroutine is resumed
  std::atomic<bool> taken_{false};
};

}  // namespace

void resume_in(const Executor& executor, std::coroutine_handle<> coroutine,
               std::exception_ptr& problem) noexcept {
  const auto task = std::make_shared<Resumption>(coroutine, problem);
  try {
    executor([task] { task->run(); });
  } catch (...) {
    if (task->take()) task->fail(std::current_exception());
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace tutti
