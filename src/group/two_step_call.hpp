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
/// does the rest by itself.
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
  [[nodiscard]] virtual bool has_rest() const noexcept = 0;
  /// The elements have moved: does the rest. False: a GPU is still at it, call again; not if it
  /// `may_wait`. Throws what fails.
  [[nodiscard]] virtual bool finish(bool may_wait) = 0;
  /// The operation has failed, and a library below may still use the memory: it stays for as long
  /// as the process lives.
  virtual void leave() noexcept = 0;
  /// The call for messages: "all_reduce(op 'name', float32 x 4) in group 'world'".
  [[nodiscard]] virtual std::string text() const = 0;
  /// The rest for messages: "its op".
  [[nodiscard]] virtual std::string_view rest() const noexcept = 0;
  [[nodiscard]] virtual int rank() const noexcept = 0;
};

/// Where the rest of a call runs: see UserOpOptions.
struct RestThreads {
  Executor executor;
  Executor unattended;
};

/// Starts such a call. The rest runs in the executor, else on the thread that waits for the Work or
/// looks at it, else where the backend calls back. An exception of it becomes the Status of the
/// Work.
[[nodiscard]] Work submit_in_two_steps(Backend& backend, std::unique_ptr<TwoStepCall> call,
                                       RestThreads threads);

}  // namespace tutti
