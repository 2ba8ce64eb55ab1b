#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace tutti::python {

/// DLPack's C functions of a Python type (`__dlpack_c_exchange_api__`, which torch has). They
/// describe an array without a capsule and without a call into Python.
class Exchange {
 public:
  /// Absent (null): the type has none. Valid for the life of the process. Needs the GIL.
  [[nodiscard]] static const Exchange* of(nanobind::handle array);
  /// The same for types that `of` has found before: a few compares.
  [[nodiscard]] static const Exchange* known(nanobind::handle array) noexcept;

  /// Shape and strides belong to `array`. Throws what the producer raised.
  [[nodiscard]] nanobind::dlpack::dltensor borrow(nanobind::handle array) const;
  /// True if arrays of this type may have a lazy conjugate or negative bit.
  [[nodiscard]] bool lazy() const noexcept { return lazy_; }

 private:
  using Borrow = int (*)(void* array, nanobind::dlpack::dltensor* out);

  PyTypeObject* type_ = nullptr;
  Borrow borrow_ = nullptr;
  bool lazy_ = false;
};

}  // namespace tutti::python
