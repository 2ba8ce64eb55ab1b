#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <tutti/collective.hpp>
#include <tutti/user_op.hpp>
#include <tutti/work.hpp>

namespace tutti {

class Backend;

/// A call of this rank in two steps: one operation moves elements, and when that is done, this rank
/// takes a second step by itself.
///
/// Threads: one at a time.
class TwoStepCall {
 public:
  TwoStepCall() = default;
  virtual ~TwoStepCall() = default;
  TwoStepCall(const TwoStepCall&) = delete;
  TwoStepCall& operator=(const TwoStepCall&) = delete;

  /// The operation that moves; its tensors live as long as this object.
  [[nodiscard]] virtual const Collective& movement() const noexcept = 0;
  /// False if this rank is through when the operation is.
  [[nodiscard]] virtual bool has_second_step() const noexcept = 0;
  /// The elements have moved: runs the second step. Returns false while a GPU still works on it:
  /// call again. With `may_wait` it always returns true. Throws what fails.
  [[nodiscard]] virtual bool finish(bool may_wait) = 0;
  /// The operation has failed, and a library below may still use the memory: it stays for as long
  /// as the process lives.
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

/// Starts such a call. The second step runs in the executor, else on the thread that waits for the
/// Work or looks at it, else where the backend calls back. An exception of it becomes the Outcome
/// of the Work.
[[nodiscard]] Work submit_in_two_steps(Backend& backend, std::unique_ptr<TwoStepCall> call,
                                       SecondStepThreads threads);

}  // namespace tutti
