#include "group/combining_call.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/forks.hpp"
#include "group/forwarding_backend.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

/// The rest of a call once its inputs have moved, and how it ended.
///
/// Lifetime: shared by the handle of the call, by callbacks that are to come and by what an
///           executor was given. It holds no backend, whose end makes those callbacks.
class Combination : public std::enable_shared_from_this<Combination> {
 public:
  Combination(std::unique_ptr<UserReduction> reduction, CombiningThreads threads)
      : reduction_(std::move(reduction)), threads_(std::move(threads)) {}

  [[nodiscard]] const UserReduction& reduction() const noexcept { return *reduction_; }

  /// A forked child has not the thread that may combine at the moment.
  [[nodiscard]] bool forked() const noexcept { return forks_ != base::fork_generation(); }

  /// Do the inputs still move, as far as is known?
  [[nodiscard]] bool moving() {
    const std::lock_guard lock(mutex_);
    return state_ == State::moving;
  }
  [[nodiscard]] std::optional<Status> outcome() {
    const std::lock_guard lock(mutex_);
    return state_ == State::done ? std::optional(outcome_) : std::nullopt;
  }

  /// The inputs have moved, and this thread may combine: it does, or hands it to the executor, if
  /// nobody has done so. A failure ends the call.
  void go_on(const Status& moved) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (state_ != State::moving) return;
      state_ = State::combining;
    }
    if (moved.tensors_in_use()) reduction_->leave();
    if (!moved.ok()) return end(moved);
    if (!threads_.executor) return combine();
    const auto task = std::make_shared<Task>(shared_from_this());
    try {
      threads_.executor([task] { task->run(); });
    } catch (...) {
      if (task->take()) fail("the executor of its op failed", std::current_exception());
    }
  }

  /// The inputs have moved, and nobody waits.
  void go_on_unattended(const Status& moved) noexcept {
    if (!moved.ok() || !threads_.unattended) return go_on(moved);
    try {
      threads_.unattended([self = shared_from_this(), moved] { self->go_on(moved); });
    } catch (...) {
      go_on(moved);
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
  bool wait(std::optional<Clock::time_point> until, Status& outcome) {
    std::unique_lock lock(mutex_);
    const auto done = [this] { return state_ == State::done; };
    if (!until)
      changed_.wait(lock, done);
    else if (!changed_.wait_until(lock, *until, done))
      return false;
    outcome = outcome_;
    return true;
  }

 private:
  enum class State : unsigned char { moving, combining, done };

  /// The task of an executor. One that drops it would let the Work wait for ever.
  class Task {
   public:
    explicit Task(std::shared_ptr<Combination> combination)
        : combination_(std::move(combination)) {}
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    ~Task() {
      if (take()) combination_->fail("its executor has dropped the op", nullptr);
    }
    void run() noexcept {
      if (take()) combination_->combine();
    }
    /// True once.
    [[nodiscard]] bool take() noexcept { return !taken_.exchange(true); }

   private:
    std::shared_ptr<Combination> combination_;
    std::atomic<bool> taken_{false};
  };

  void combine() noexcept {
    try {
      reduction_->combine();
    } catch (...) {
      return fail("its op failed", std::current_exception());
    }
    end(Status());
  }

  void fail(const char* what, const std::exception_ptr& thrown) noexcept {
    std::string text =
        fmt::format("{}: {} on rank {}", reduction_->text(), what, reduction_->rank());
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      text += fmt::format(": {}", error.what());
    } catch (...) {
      text += ": an exception";
    }
    end(Status(Errc::aborted, std::move(text), thrown).with_culprit(reduction_->rank()));
  }

  void end(const Status& outcome) noexcept {
    reduction_.reset();  // its memory, which may be much
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

  const std::uint64_t forks_ = base::fork_generation();
  std::unique_ptr<UserReduction> reduction_;  ///< of the thread that has made the state `combining`
  CombiningThreads threads_;
  std::mutex mutex_;  ///< guards what follows; not held while the op or a callback runs
  std::condition_variable changed_;
  State state_ = State::moving;
  Status outcome_;
  std::vector<Callback> callbacks_;
};

/// Combines the inputs when they have moved; the call is done after that.
class CombiningCall final : public ForwardingBackend {
 public:
  CombiningCall(Backend& backend, std::shared_ptr<Combination> combination)
      : ForwardingBackend(backend), combination_(std::move(combination)) {}

  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Status& outcome) noexcept override {
    if (in_fork(outcome)) return true;
    std::optional<Clock::time_point> until;
    if (limit) until = base::deadline_after(Clock::now(), *limit);
    if (combination_->moving()) {
      Status moved;
      if (!backend().wait(ticket, limit, moved)) return false;
      combination_->go_on(moved);
    }
    return combination_->wait(until, outcome);
  }
  [[nodiscard]] std::optional<Status> poll(std::uint64_t ticket) noexcept override {
    if (Status forked; in_fork(forked)) return forked;
    if (combination_->moving()) {
      const std::optional<Status> moved = backend().poll(ticket);
      if (!moved) return std::nullopt;
      combination_->go_on(*moved);
    }
    return combination_->outcome();
  }
  void on_done(std::uint64_t ticket, Callback callback) noexcept override {
    if (Status forked; in_fork(forked)) {
      if (callback.function != nullptr) callback.function(callback.context, forked);
      return;
    }
    struct Told {
      std::shared_ptr<Combination> combination;
      Callback then;
    };
    backend().on_done(ticket, {[](void* context, const Status& moved) noexcept {
                                 const std::unique_ptr<Told> told(static_cast<Told*>(context));
                                 told->combination->on_done(told->then);
                                 told->combination->go_on_unattended(moved);
                               },
                               new Told{combination_, callback}});
  }
  int release(std::uint64_t ticket) noexcept override {
    if (Status forked; in_fork(forked)) return backend().release(ticket);
    if (!combination_->outcome()) on_done(ticket, {});  // goes on without its Work
    return backend().release(ticket);
  }

 private:
  [[nodiscard]] bool in_fork(Status& outcome) const {
    if (!combination_->forked()) return false;
    outcome = base::forked_status();
    return true;
  }

  std::shared_ptr<Combination> combination_;
};

}  // namespace

Work submit_combining(Backend& backend, std::unique_ptr<UserReduction> reduction,
                      CombiningThreads threads) {
  const bool in_executor = static_cast<bool>(threads.executor);
  const bool asynchronous = in_executor || threads.unattended;
  if (!reduction->has_result()) {  // its input is the caller's
    return Work(&backend, backend.submit(reduction->movement(), asynchronous));
  }
  const auto combination = std::make_shared<Combination>(std::move(reduction), std::move(threads));
  auto* const combining = new CombiningCall(backend, combination);
  const std::uint64_t ticket = backend.submit(combination->reduction().movement(), asynchronous);
  if (in_executor) combining->on_done(ticket, {});  // as soon as the inputs are there
  Work work(combining, ticket);
  combining->drop_reference();
  return work;
}

}  // namespace tutti
