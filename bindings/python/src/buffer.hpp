#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>

#include <tutti/tensor.hpp>

namespace tutti::python {

/// The use that an operation makes of an array.
enum class Use : unsigned char {
  read,   ///< it may be read-only
  write,  ///< it is a result; it may be read as well
  shown,  ///< only read on this rank, but the result all the same: a broadcast's root
};

/// A Python array used in place: holding it keeps its memory.
///
/// Threads: made, copied and destroyed with the GIL.
class Buffer {
 public:
  /// `what` begins the messages: "all_gather: the output". Throws TypeError for what is no array,
  /// cannot be written, is neither in the memory of the CPU nor of an NVIDIA GPU, or has elements
  /// that tutti does not know, and for a description that cannot be true. Throws what the array's
  /// attributes raise.
  Buffer(nanobind::handle array, const char* operation, const char* what, Use use);

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  /// The stream on which its library works now; 0: the default stream, or it is on no GPU.
  [[nodiscard]] std::uintptr_t stream() const noexcept { return stream_; }
  /// It is complex32, and its view has the parts of the numbers.
  [[nodiscard]] bool halves() const noexcept { return halves_; }
  /// The array that the caller gave is a torch tensor.
  [[nodiscard]] bool is_torch() const;
  /// The array that the caller gave, if it is a result; else null.
  [[nodiscard]] nanobind::handle result() const noexcept {
    return use_ == Use::read ? nanobind::handle() : nanobind::handle(array_);
  }
  /// The operation has ended well. Needs the GIL. Throws what torch raises.
  void finish();

 private:
  struct Release {
    void operator()(Py_buffer* pinned) const noexcept;
  };
  struct Call {  // for messages
    const char* operation;
    const char* what;
  };
  [[noreturn]] void refuse(const Call& call, const std::string& why) const;
  void take(const Call& call, void* data, DType dtype, int dims, const std::int64_t* shape,
            const std::int64_t* strides, std::int64_t unit);
  void take(const Call& call, const nanobind::dlpack::dltensor& tensor);
  /// A complex number of two float16, which tutti has no dtype for: one dimension more.
  void take_halves(const Call& call, const nanobind::dlpack::dltensor& tensor);
  /// The array is on the GPU of that number, as it says.
  void set_gpu(const Call& call, std::int64_t number);
  /// With what stands for conjugates or negatives resolved.
  nanobind::object resolved(nanobind::handle tensor);
  bool from_buffer(const Call& call);
  bool from_array_struct(const Call& call);
  bool from_dlpack(const Call& call);
  bool from_cuda_interface(const Call& call);

  nanobind::object array_;
  nanobind::object kept_;        ///< what really holds the memory, if it is not `array_`
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
