#include "group/two_step_call.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>

#include "base/condition.hpp"
#include "base/deadline.hpp"
#include "base/format.hpp"
#include "group/wrapped_operation.hpp"

namespace tutti {
inline namespace v0 {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two looks at a GPU.
constexpr auto kNextCheck = std::chrono::microseconds(50);

/// How far a call has come, and how it ended.
///
/// Lifetime: shared by the handle of the call, by callbacks that are to come and by what an
///           executor was given. It holds no backend, whose end makes those callbacks.
class Steps : public std::enable_shared_from_this<Steps> {
 public:
  Steps(std::unique_ptr<TwoStepCall> call, SecondStepThreads threads)
      : call_(std::move(call)),
        threads_(std::move(threads)),
        uses_gpu_(call_->movement().input.device() != Device()) {}

  [[nodiscard]] const TwoStepCall& call() const noexcept { return *call_; }

  /// True until this rank has seen that the elements have moved.
  [[nodiscard]] bool moving() {
    const std::lock_guard lock(mutex_);
    return state_ == State::moving;
  }
  [[nodiscard]] std::optional<Outcome> outcome() {
    const std::lock_guard lock(mutex_);
    return state_ == State::done ? std::optional(outcome_) : std::nullopt;
  }

  /// The elements have moved: runs the second step, or hands it to the executor, if nobody has done
  /// so. A failure ends the call.
  void start_second_step(const Outcome& moved, bool may_wait) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::moving) return;
      state_ = State::finishing;
      stays_ = may_wait;
    }
    if (moved.tensors_in_use()) call_->keep_memory();
    if (!moved.ok()) return end(moved);
    if (!threads_.executor) return finish(may_wait);
    const auto task = std::make_shared<Task>(shared_from_this());
    try {
      threads_.executor([task] { task->run(); });
    } catch (...) {
      if (task->take())
        fail(base::format("the executor of {} failed", call_->second_step()),
             std::current_exception());
    }
  }

  /// Looks whether the GPU has finished the second step, if it works on it.
  void check_gpu(bool may_wait) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::on_gpu) return;
      state_ = State::finishing;
      stays_ = may_wait;
    }
    finish(may_wait);
  }

  /// The elements have moved, and nobody waits.
  void start_unattended(const Outcome& moved) noexcept {
    if (!moved.ok() || !threads_.unattended) return run_to_end(moved);
    try {
      threads_.unattended([self = shared_from_this(), moved] { self->run_to_end(moved); });
    } catch (...) {
      run_to_end(moved);
    }
  }

  /// Calls back when the call is done; at once if it is.
  void on_done(const Callback& callback) noexcept {
    if (callback.function == nullptr) return;
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::done) return callbacks_.push_back(callback);
    }
    callback.function(callback.context, outcome_);
  }

  /// Waits until the call is done; false: not until then.
  bool wait(std::optional<Clock::time_point> until, Outcome& outcome) {
    std::unique_lock lock(mutex_);
    while (true) {
      if (state_ == State::on_gpu) {
        lock.unlock();
        check_gpu(!until);
        lock.lock();
      }
      if (state_ == State::done) {
        outcome = outcome_;
        return true;
      }
      if (until && Clock::now() >= *until) return false;
      if (state_ == State::on_gpu)
        changed_.wait_for(lock, kNextCheck);  // CUDA events give no callback here, so look again
      else if (until)
        changed_.wait_until(lock, *until);
      else
        base::wait(changed_, lock);
    }
  }

 private:
  /// `finishing`: a thread runs the second step. `on_gpu`: no thread does, but a GPU works on it.
  enum class State : unsigned char { moving, finishing, on_gpu, done };

  /// The task of an executor. One that drops it would let the Work wait for ever.
  class Task {
   public:
    explicit Task(std::shared_ptr<Steps> steps) : steps_(std::move(steps)) {}
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
      if (take())
        steps_->fail(base::format("the executor has dropped {}", steps_->call().second_step()),
                     nullptr);
    }
    void run() noexcept {
      if (take()) steps_->finish(true);
    }
    /// True once.
    [[nodiscard]] bool take() noexcept { return !taken_.exchange(true); }

   private:
    std::shared_ptr<Steps> steps_;
    std::atomic<bool> taken_{false};
  };

  /// Returns when the call is done, or another thread runs the second step to its end.
  void run_to_end(const Outcome& moved) noexcept {
    start_second_step(moved, true);
    if (!uses_gpu_) return;
    {
      std::unique_lock lock(mutex_);
      while (state_ == State::finishing && !stays_) base::wait(changed_, lock);
    }
    check_gpu(true);
  }

  void finish(bool may_wait) noexcept {
    try {
      if (!call_->finish(may_wait)) {
        const std::lock_guard lock(mutex_);
        state_ = State::on_gpu;
        changed_.notify_all();  // who waits may look at the GPU now
        return;
      }
    } catch (...) {
      return fail(base::format("{} failed", call_->second_step()), std::current_exception());
    }
    end(Outcome());
  }

  void fail(const std::string& what, const std::exception_ptr& thrown) noexcept {
    std::string text = base::format("{}: {} on rank {}", call_->text(), what, call_->rank());
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      text += base::format(": {}", error.what());
    } catch (...) {
      text += ": an exception";
    }
    end(Outcome(Errc::aborted, std::move(text), thrown).with_culprit(call_->rank()));
  }

  void end(const Outcome& outcome) noexcept {
    call_.reset();  // its memory, which may be much
    std::vector<Callback> callbacks;
    {
      const std::lock_guard lock(mutex_);
      outcome_ = outcome;
      state_ = State::done;
      callbacks.swap(callbacks_);
    }
    changed_.notify_all();
    for (const Callback& one : callbacks) one.function(one.context, outcome);
  }

  std::unique_ptr<TwoStepCall> call_;  ///< of the thread that has made the state `finishing`
  SecondStepThreads threads_;
  const bool uses_gpu_;
  std::mutex mutex_;  ///< guards what follows; not held while the second step or a callback runs
  std::condition_variable changed_;
  State state_ = State::moving;
  bool stays_ = false;  ///< the thread that is `finishing` goes on to the end
  Outcome outcome_;
  std::vector<Callback> callbacks_;
};

/// Runs the second step when the elements have moved; the call is done after that.
class SecondStep final : public WrappedOperation {
 public:
  SecondStep(Backend& backend, std::shared_ptr<Steps> steps)
      : WrappedOperation(backend), steps_(std::move(steps)) {}

  [[nodiscard]] bool wait(std::uint64_t /*ticket*/, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override {
    std::optional<Clock::time_point> until;
    if (limit) until = base::deadline_after(Clock::now(), *limit);
    if (steps_->moving()) {
      Outcome moved;
      // The second step reads the elements, on a GPU too.
      if (!inner().wait(limit.value_or(kUntilDone), moved)) return false;
      steps_->start_second_step(moved, !limit);
    }
    return steps_->wait(until, outcome);
  }
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t /*ticket*/) noexcept override {
    if (steps_->moving()) {
      const std::optional<Outcome> moved = inner().poll();
      if (!moved) return std::nullopt;
      steps_->start_second_step(*moved, false);
    } else {
      steps_->check_gpu(false);
    }
    return steps_->outcome();
  }
  void on_done(std::uint64_t /*ticket*/, Callback callback) noexcept override {
    struct Told {
      std::shared_ptr<Steps> steps;
      Callback then;
    };
    inner().on_done({[](void* context, const Outcome& moved) noexcept {
                       const std::unique_ptr<Told> told(static_cast<Told*>(context));
                       told->steps->on_done(told->then);
                       told->steps->start_unattended(moved);
                     },
                     new Told{steps_, callback}});
  }
  Received release(std::uint64_t ticket) noexcept override {
    if (!steps_->outcome()) on_done(ticket, {});  // goes on without its Work
    return WrappedOperation::release(ticket);
  }

 private:
  std::shared_ptr<Steps> steps_;
};

}  // namespace

Work submit_in_two_steps(Backend& backend, std::unique_ptr<TwoStepCall> call,
                         SecondStepThreads threads) {
  const bool in_executor = static_cast<bool>(threads.executor);
  const bool asynchronous = in_executor || threads.unattended;
  if (!call->has_second_step()) {  // its tensors are the caller's
    return Work(backend.submit(call->movement(), asynchronous));
  }
  const auto steps = std::make_shared<Steps>(std::move(call), std::move(threads));
  auto one = std::make_unique<SecondStep>(backend, steps);
  const Pending second = WrappedOperation::wrap(
      std::move(one), backend.submit(steps->call().movement(), asynchronous));
  if (in_executor) second.on_done({});  // as soon as the elements are there
  return Work(second);
}

}  // namespace v0
}  // namespace tutti
