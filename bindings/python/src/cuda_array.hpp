#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tutti/dtype.hpp>

namespace tutti::python {

/// Null: the object has no such attribute. Throws what else it raises than AttributeError.
[[nodiscard]] nanobind::object attribute_of(nanobind::handle object, const char* name);

/// What an object says of its memory on a GPU (`__cuda_array_interface__`, version 3). Needs the
/// GIL.
class CudaArray {
 public:
  /// Its interface; null: it has none. Throws what the object raises.
  [[nodiscard]] static nanobind::object interface_of(nanobind::handle array);
  /// Throws what the object raises.
  explicit CudaArray(nanobind::handle array);

  /// False: the object has no such interface.
  [[nodiscard]] bool known() const noexcept { return interface_.is_valid(); }
  /// Why the interface is none that can be used; empty: the rest holds.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
  [[nodiscard]] nanobind::object owner() const { return interface_; }
  /// Absent: tutti has no such dtype; `code` tells it ("<f4").
  [[nodiscard]] std::optional<DType> dtype() const noexcept { return dtype_; }
  [[nodiscard]] const std::string& code() const noexcept { return code_; }
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Bytes, as many as the shape has extents; null: row-major.
  [[nodiscard]] const std::int64_t* strides() const noexcept {
    return strides_.empty() ? nullptr : strides_.data();
  }
  /// The interface does not tell it: the object's `device.id`, or else as the driver says, or else
  /// GPU 0. (CuPy's arrays have an id, and asking the driver at every call would take time.)
  [[nodiscard]] std::int64_t device() const noexcept { return device_; }
  /// The stream on which the memory is ready; 0: it is ready.
  [[nodiscard]] std::uintptr_t stream() const noexcept { return stream_; }

 private:
  /// The text of its fault; empty: it has none.
  [[nodiscard]] std::string read(nanobind::handle interface);

  nanobind::object interface_;
  std::string fault_;
  std::string code_;
  std::optional<DType> dtype_;
  bool read_only_ = false;
  void* data_ = nullptr;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t device_ = 0;
  std::uintptr_t stream_ = 0;
};

/// The stream on which the library of an array on a GPU works now, as torch and CuPy tell it; of
/// another library 0, the default stream. Never imports one.
[[nodiscard]] std::uintptr_t stream_of(nanobind::handle array, int device);

}  // namespace tutti::python
