#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>
#include <tutti/user_op.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace v0 {

class Backend;

/// A call in two steps: an operation moves elements, then this rank runs a second step alone.
///
/// Threads: one at a time.
class TwoStepCall {
 public:
  TwoStepCall() = default;
  virtual ~TwoStepCall() = default;
  TwoStepCall(const TwoStepCall&) = delete;
  TwoStepCall& operator=(const TwoStepCall&) = delete;

  /// The operation that moves elements; its tensors live as long as this object.
  [[nodiscard]] virtual const Collective& movement() const noexcept = 0;
  /// False if this rank is done when the operation is.
  [[nodiscard]] virtual bool has_second_step() const noexcept = 0;
  /// Runs the second step after the elements have moved. Returns false while a GPU still works on
  /// it: call again. With `may_wait` it always returns true. Throws the step's error.
  [[nodiscard]] virtual bool finish(bool may_wait) = 0;
  /// Leaks the memory after a failure, because a library below may still use it.
  virtual void keep_memory() noexcept = 0;
  /// The call for messages: "all_reduce(op 'name', float32 x 4) in group 'world'".
  [[nodiscard]] virtual std::string text() const = 0;
  /// The second step for messages: "its op".
  [[nodiscard]] virtual std::string_view second_step() const noexcept = 0;
  [[nodiscard]] virtual int rank() const noexcept = 0;
};

/// Where the second step of a call runs: see UserOpOptions.
struct SecondStepThreads {
  Executor executor;
  Executor unattended;
};

/// Starts the call. The second step runs in the executor, else on the thread that waits for the
/// Work or polls it, else where the backend calls back. Its exception becomes the Outcome of the
/// Work.
[[nodiscard]] Work submit_in_two_steps(Backend& backend, std::unique_ptr<TwoStepCall> call,
                                       SecondStepThreads threads);

}  // namespace v0
}  // namespace tutti
