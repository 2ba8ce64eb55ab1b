#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>

#include <tutti/tensor.hpp>

namespace tutti::python {

/// How an operation uses an array.
enum class Use : unsigned char {
  read,   ///< the array may be read-only
  write,  ///< a result, which may be read as well
  shown,  ///< read on this rank, but still the result: a broadcast's root
};

/// A Python array used in place: holding it keeps its memory.
///
/// Threads: made, copied and destroyed with the GIL.
class Buffer {
 public:
  /// `what` begins error texts: "all_gather: the output". Throws TypeError if the object is no
  /// array, is read-only, is in memory of another device than CPU or NVIDIA GPU, has an unknown
  /// element type, or has a description that cannot be true. Throws what the array's attributes
  /// raise.
  Buffer(nanobind::handle array, const char* operation, const char* what, Use use);

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  /// The current stream of the array's library; 0: the default stream, or the array is on no GPU.
  [[nodiscard]] std::uintptr_t stream() const noexcept { return stream_; }
  /// True for complex32, whose view has the real and imaginary parts.
  [[nodiscard]] bool halves() const noexcept { return halves_; }
  /// True if the caller's array is a torch tensor.
  [[nodiscard]] bool is_torch() const;
  /// The caller's array if it is a result; else null.
  [[nodiscard]] nanobind::handle result() const noexcept {
    return use_ == Use::read ? nanobind::handle() : nanobind::handle(array_);
  }
  /// Completes a result after the operation has succeeded. Needs the GIL. Throws what torch raises.
  void finish();

 private:
  struct Release {
    void operator()(Py_buffer* pinned) const noexcept;
  };
  struct Call {  // for error texts
    const char* operation;
    const char* what;
  };
  [[noreturn]] void refuse(const Call& call, const std::string& why) const;
  void take(const Call& call, void* data, DType dtype, int dims, const std::int64_t* shape,
            const std::int64_t* strides, std::int64_t unit);
  void take(const Call& call, const nanobind::dlpack::dltensor& tensor);
  /// Handles complex numbers of two float16, for which tutti has no dtype: one more dimension.
  void take_halves(const Call& call, const nanobind::dlpack::dltensor& tensor);
  /// The array is on the GPU of that number, as it says.
  void set_gpu(const Call& call, std::int64_t number);
  /// The tensor with its lazy conjugate or negative bit resolved.
  nanobind::object resolved(nanobind::handle tensor);
  bool from_buffer(const Call& call);
  bool from_array_struct(const Call& call);
  bool from_dlpack(const Call& call);
  bool from_cuda_interface(const Call& call);

  nanobind::object array_;
  nanobind::object kept_;        ///< the owner of the memory, if not `array_`
  nanobind::object written_to_;  ///< a lazy view: `kept_` is copied there in the end
  std::unique_ptr<Py_buffer, Release> pinned_;
  nanobind::ndarray<nanobind::ro> imported_;
  TensorView view_;
  Device device_;
  std::uintptr_t stream_ = 0;
  Use use_;
  bool halves_ = false;
};

}  // namespace tutti::python
