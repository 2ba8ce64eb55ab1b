#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <tutti/collective.hpp>
#include <tutti/error.hpp>

#include "buffer.hpp"

namespace tutti::python {

/// All arrays of one operation.
///
/// Threads: made, moved and destroyed with the GIL.
class Memory {
 public:
  /// `operation` begins the messages; a literal.
  explicit Memory(const char* operation) noexcept : operation_(operation) {}

  /// Takes an array in and gives its view; `what` names it in messages. Throws TypeError.
  TensorView one(nanobind::handle array, const char* what, Use use);
  /// The same for a list or tuple of arrays.
  std::vector<TensorView> list(nanobind::handle arrays, const char* what, Use use);
  /// TypeError if an array's complex numbers are given as their parts, which `op` does not combine
  /// as it combines the numbers.
  void check_op(ReduceOp op) const;
  /// The operation is done: results are completed if it ended well, and only they are kept on. If
  /// MPI may still use the arrays, they stay until the process ends.
  void finish(const Outcome& outcome);
  /// Keeps an object until `let_go`, or for as long as this one lives, and gives it back.
  nanobind::handle keep(nanobind::object object);
  /// The operation is done, so it calls nothing any more.
  void let_go();
  /// Functions of the program that the operation calls.
  struct Calls {
    nanobind::object raised;               ///< what they raise, the operation's failure; the GIL's
    std::atomic<std::thread::id> running;  ///< the thread that is in one
  };
  /// It stays where it is when this object is moved. To be used with the GIL.
  [[nodiscard]] Calls& calls();
  [[nodiscard]] nanobind::object& raised() { return calls().raised; }
  /// Does such a function call this?
  [[nodiscard]] bool called_here() const noexcept {
    return calls_ && calls_->running.load() == std::this_thread::get_id();
  }
  /// May the operation call functions of the program?
  [[nodiscard]] bool may_call() const noexcept { return calls_ != nullptr; }
  /// The exception that is left there; null: none.
  [[nodiscard]] nanobind::handle has_raised() const noexcept {
    return calls_ ? nanobind::handle(calls_->raised) : nanobind::handle();
  }
  /// The stream of the first array that has one; 0: the default stream.
  [[nodiscard]] std::uintptr_t stream() const noexcept;
  /// Those of all arrays, in their order.
  [[nodiscard]] std::vector<std::uintptr_t> streams() const;
  /// The exception that belongs to a failure of the operation: `raised`, or one whose text speaks
  /// of tensors if an array is torch's, else of arrays.
  [[nodiscard]] nanobind::object exception_of(const Outcome& status) const;
  /// Raises it.
  [[noreturn]] void raise(const Outcome& status) const;
  /// The arrays that are written, as the caller gave them.
  [[nodiscard]] nanobind::list results() const;

 private:
  const char* operation_;
  std::vector<Buffer> buffers_;
  std::vector<nanobind::object> results_;  ///< once finished
  std::vector<nanobind::object> kept_;
  std::unique_ptr<Calls> calls_;
  std::optional<bool> has_tensors_;  ///< once finished with a failure, if there were arrays

  [[nodiscard]] std::optional<bool> has_tensors() const;
};

}  // namespace tutti::python
