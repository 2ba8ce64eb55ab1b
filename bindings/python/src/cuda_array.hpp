#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tutti/dtype.hpp>

namespace tutti::python {

/// Returns null if the object has no such attribute. Throws what it raises except AttributeError.
[[nodiscard]] nanobind::object attribute_of(nanobind::handle object, const char* name);

/// An object's description of its GPU memory (`__cuda_array_interface__`, version 3). Needs the
/// GIL.
class CudaArray {
 public:
  /// The object's interface; null: it has none. Throws what the object raises.
  [[nodiscard]] static nanobind::object interface_of(nanobind::handle array);
  /// Throws what the object raises.
  explicit CudaArray(nanobind::handle array);

  /// False: the object has no such interface.
  [[nodiscard]] bool known() const noexcept { return interface_.is_valid(); }
  /// Why the interface cannot be used; empty: the other members are valid.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
  [[nodiscard]] nanobind::object owner() const { return interface_; }
  /// Absent: tutti has no such dtype; `code` tells it ("<f4").
  [[nodiscard]] std::optional<DType> dtype() const noexcept { return dtype_; }
  [[nodiscard]] const std::string& code() const noexcept { return code_; }
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Strides in bytes, one for each extent; null: row-major.
  [[nodiscard]] const std::int64_t* strides() const noexcept {
    return strides_.empty() ? nullptr : strides_.data();
  }
  /// The GPU, which the interface lacks: the object's `device.id`, else the driver's answer, else
  /// 0. (CuPy's arrays have the id; asking the driver at every call would take time.)
  [[nodiscard]] std::int64_t device() const noexcept { return device_; }
  /// The stream on which the memory becomes ready; 0: it is ready.
  [[nodiscard]] std::uintptr_t stream() const noexcept { return stream_; }

 private:
  /// The fault of the interface; empty: none.
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

/// The current stream of a GPU array's library: torch or CuPy; 0, the default stream, for other
/// libraries. Never imports a library.
[[nodiscard]] std::uintptr_t stream_of(nanobind::handle array, int device);

}  // namespace tutti::python
