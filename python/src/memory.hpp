#pragma once

#include <nanobind/nanobind.h>

#include <vector>

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
  /// The operation is done: results are completed if it ended well, and only they are kept on. If
  /// MPI may still use the arrays, they stay until the process ends.
  void finish(const Status& outcome);
  /// The arrays that are written, as the caller gave them.
  [[nodiscard]] nanobind::list results() const;

 private:
  const char* operation_;
  std::vector<Buffer> buffers_;
  std::vector<nanobind::object> results_;  ///< once finished
};

}  // namespace tutti::python
