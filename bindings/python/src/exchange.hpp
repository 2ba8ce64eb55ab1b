#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace tutti::python {

/// DLPack's C functions of one Python type (`__dlpack_c_exchange_api__`, as torch has it): what an
/// array holds, without a capsule and without a call into Python.
class Exchange {
 public:
  /// Absent (null): the type has none. Valid for the life of the process. Needs the GIL.
  [[nodiscard]] static const Exchange* of(nanobind::handle array);
  /// The same, only where it was found before: a few compares.
  [[nodiscard]] static const Exchange* known(nanobind::handle array) noexcept;

  /// Shape and strides belong to `array`. Throws what the producer raised.
  [[nodiscard]] nanobind::dlpack::dltensor borrow(nanobind::handle array) const;
  /// Arrays of this type may stand for the conjugates or the negatives of what is in memory.
  [[nodiscard]] bool lazy() const noexcept { return lazy_; }

 private:
  using Borrow = int (*)(void* array, nanobind::dlpack::dltensor* out);

  PyTypeObject* type_ = nullptr;
  Borrow borrow_ = nullptr;
  bool lazy_ = false;
};

}  // namespace tutti::python
