#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/arguments.hpp>
#include <tutti/error.hpp>
#include <tutti/tensor.hpp>

#include "buffer.hpp"
#include "sent_message.hpp"

namespace tutti::python {

/// All arrays of one operation.
///
/// Threads: made, moved and destroyed with the GIL.
class Memory {
 public:
  /// `operation` begins error texts; a literal.
  explicit Memory(const char* operation) noexcept : operation_(operation) {}

  [[nodiscard]] const char* operation() const noexcept { return operation_; }
  /// This is the memory of an isend.
  void set_sent(std::unique_ptr<SentMessage> sent) noexcept { sent_ = std::move(sent); }
  /// Null for other operations, and once it has ended well.
  [[nodiscard]] SentMessage* sent() const noexcept { return sent_.get(); }
  /// Adds an array and returns its view; `what` names it in error texts. Throws TypeError.
  TensorView one(nanobind::handle array, const char* what, Use use);
  /// The same for a list or tuple of arrays.
  std::vector<TensorView> list(nanobind::handle arrays, const char* what, Use use);
  /// Throws TypeError if an array is complex32, whose real and imaginary parts `op` would combine
  /// wrongly.
  void check_op(ReduceOp op) const;
  /// Called when the operation is done: completes the results if it has succeeded, and keeps only
  /// them. Arrays that MPI may still use are leaked.
  void finish(const Outcome& outcome);
  /// Called before `finish` if the operation has failed and may be asked for its error.
  void note_tensors() { has_tensors_ = has_tensors(); }
  /// Keeps an object until `let_go` or the end of this object, and returns it.
  nanobind::handle keep(nanobind::object object);
  /// Drops the functions: the operation is done and calls them no more.
  void let_go();
  /// Functions of the program that the operation calls.
  struct Calls {
    nanobind::object raised;  ///< their exception, which fails the operation; guarded by the GIL
    std::atomic<std::thread::id> running;  ///< the thread that runs one
  };
  /// Its address stays the same when this object is moved. Use it with the GIL.
  [[nodiscard]] Calls& calls();
  [[nodiscard]] nanobind::object& raised() { return calls().raised; }
  /// True if such a function is running on this thread.
  [[nodiscard]] bool called_here() const noexcept {
    return calls_ && calls_->running.load() == std::this_thread::get_id();
  }
  /// True if the operation may call functions of the program.
  [[nodiscard]] bool may_call() const noexcept { return calls_ != nullptr; }
  /// The exception of such a function; null: none.
  [[nodiscard]] nanobind::handle has_raised() const noexcept {
    return calls_ ? nanobind::handle(calls_->raised) : nanobind::handle();
  }
  /// The stream of the first array that has one; 0: the default stream.
  [[nodiscard]] std::uintptr_t stream() const noexcept;
  /// The streams of all arrays, in their order.
  [[nodiscard]] std::vector<std::uintptr_t> streams() const;
  /// The exception for a failed operation: `raised`, or a new one, whose text says "tensor" if an
  /// array is torch's, else "array".
  [[nodiscard]] nanobind::object exception_of(const Outcome& status) const;
  /// Raises it.
  [[noreturn]] void raise(const Outcome& status) const;
  /// The result arrays, as the caller gave them.
  [[nodiscard]] nanobind::list results() const;

 private:
  const char* operation_;
  std::vector<Buffer> buffers_;
  std::vector<nanobind::object> results_;  ///< set when finished
  std::vector<nanobind::object> kept_;
  std::unique_ptr<Calls> calls_;
  std::unique_ptr<SentMessage> sent_;
  std::optional<bool> has_tensors_;  ///< once noted, if there were arrays

  [[nodiscard]] std::optional<bool> has_tensors() const;
};

}  // namespace tutti::python
