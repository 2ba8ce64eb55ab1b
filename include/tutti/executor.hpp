#pragma once

#include <chrono>
#include <coroutine>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/owning_work.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Runs `run` once, on another thread; must not block, because the progress thread may call it.
/// If the executor throws or drops `run`, the operation of the UserOp fails, or the `co_await` of
/// resume_on throws.
using Executor = std::function<void(std::function<void()> run)>;

namespace detail {

/// Lets the executor resume a coroutine. If it fails, says so in `problem`, and resumes it itself.
void resume_in(const Executor& executor, std::coroutine_handle<> coroutine,
               std::exception_ptr& problem) noexcept;

/// The result of resume_on. W: a reference if the Work is not its own.
template <class W>
class [[nodiscard]] ResumeOn {
 public:
  ResumeOn(Executor executor, W&& work)
      : executor_(std::move(executor)), work_(std::forward<W>(work)) {
    if (!executor_) raise(Outcome(Errc::invalid_argument, "resume_on: the executor is empty"));
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) {
    // Once it is resumed, the coroutine may end this object.
    Executor executor = std::move(executor_);
    if (work_.done()) return resume_in(executor, coroutine, problem_);
    work_.on_done([executor = std::move(executor), coroutine, problem = &problem_](
                      const Outcome& /*outcome*/) { resume_in(executor, coroutine, *problem); });
  }
  decltype(auto) await_resume() {
    if (problem_) {
      // Counts as told, so that the exception does not break the group.
      if (work_.wait_for(std::chrono::nanoseconds(0))) (void)work_.error();
      std::rethrow_exception(problem_);
    }
    return work_.await_resume();
  }

 private:
  Executor executor_;
  W work_;
  std::exception_ptr problem_;
};

template <class W>
inline constexpr bool is_work = std::is_same_v<W, Work>;
template <class Result>
inline constexpr bool is_work<OwningWork<Result>> = true;

}  // namespace detail

/// `co_await resume_on(executor, work)`: as `co_await work`, but the coroutine goes on where the
/// executor runs it, even if the operation is done already. Takes a Work or an OwningWork, a
/// temporary too: `co_await resume_on(pool, world.all_reduce(x))`.
///
/// Threads:  the executor is called on the progress thread (or another that makes callbacks), or
///           by the `co_await` itself if the operation is done.
/// Errors:   InvalidArgument for an empty executor; from the `co_await` those of Work::wait, and
///           what the executor throws, or `aborted` if it drops the function. Then the coroutine
///           goes on where the executor was called, or where it dropped the function.
template <class W>
requires detail::is_work<std::remove_reference_t<W>>
[[nodiscard]] detail::ResumeOn<W> resume_on(Executor executor, W&& work) {
  return {std::move(executor), std::forward<W>(work)};
}

}  // namespace v0
}  // namespace tutti
