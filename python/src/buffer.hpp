#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <tutti/tensor.hpp>

namespace tutti::python {

/// A Python array (NumPy, DLPack or the buffer protocol) used in place: holding it keeps its
/// memory.
///
/// Threads: made, copied and destroyed with the GIL.
class Buffer {
 public:
  Buffer() = default;
  /// Throws TypeError for what is no array, cannot be written, is not in the memory of the CPU or
  /// has elements that tutti does not know. `operation` begins the message.
  Buffer(nanobind::handle array, const char* operation);

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }

 private:
  nanobind::ndarray<> array_;
  TensorView view_;
};

}  // namespace tutti::python
