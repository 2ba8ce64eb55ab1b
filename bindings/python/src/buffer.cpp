#include "buffer.hpp"

#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cuda_array.hpp"
#include "dtypes.hpp"
#include "exchange.hpp"
#include "layout.hpp"
#include "shown.hpp"

namespace nb = nanobind;

namespace tutti::python {
namespace {

// NumPy's `__array_struct__`, for elements that the buffer protocol has no letter for.
struct ArrayStruct {
  int two;
  int dims;
  char kind;
  int item_bytes;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  void* data;
  PyObject* description;
};
constexpr int kNotSwapped = 0x200;
constexpr int kWriteable = 0x400;

constexpr const char* kReadOnly =
    "is read-only, and the result would be written into it; pass a copy, and keep the copy: it has "
    "the result";
constexpr const char* kMasked =
    "is masked, and no operation keeps a mask; pass its filled(...), and keep that: it has the "
    "result";
constexpr const char* kElsewhere =
    "is not in the memory of the CPU or of an NVIDIA GPU; copy it there first";

static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
const std::int64_t* wide(const Py_ssize_t* values) noexcept {
  return reinterpret_cast<const std::int64_t*>(values);
}

/// The address of the first element; null if a foreign tensor has no memory, whatever its offset.
void* start_of(const nb::dlpack::dltensor& tensor) noexcept {
  return tensor.data == nullptr ? nullptr
                                : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

bool in_cpu_memory(const nb::dlpack::device& device) noexcept {
  return device.device_type == nb::device::cpu::value ||
         device.device_type == nb::device::cuda_host::value ||
         device.device_type == nb::device::rocm_host::value;
}

// Managed memory, which moves between host and GPU, counts as memory of its GPU.
bool in_gpu_memory(const nb::dlpack::device& device) noexcept {
  return device.device_type == nb::device::cuda::value ||
         device.device_type == nb::device::cuda_managed::value;
}

// True if the tensor has a lazy negative bit or, if it is complex, conjugate bit. (The imaginary
// part of a conjugate is real and has the first.) Called for every array, so the names are interned
// once.
bool is_lazy_view(nb::handle tensor, bool complex) {
  static PyObject* const questions[] = {PyUnicode_InternFromString("is_neg"),
                                        PyUnicode_InternFromString("is_conj")};
  PyObject* const arguments[] = {tensor.ptr()};
  for (PyObject* const question : std::span(questions).first(complex ? 2 : 1)) {
    const nb::object answer = nb::steal(PyObject_VectorcallMethod(question, arguments, 1, nullptr));
    if (!answer.is_valid()) throw nb::python_error();
    if (answer.ptr() == Py_True) return true;
  }
  return false;
}

bool is_complex(const nb::dlpack::dltensor& tensor) noexcept {
  return tensor.dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex);
}

// The text of an exception, without the stack that torch appends.
std::string first_line(const nb::python_error& problem) {
  const std::string text = nb::cast<std::string>(nb::str(problem.value()));
  return text.substr(0, text.find('\n'));
}

// Why elements with this format of the buffer protocol cannot be used.
std::string unknown_elements(nb::handle array, const std::string& format) {
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  if (format == "O" || nb::cast<bool>(nb::getattr(dtype, "hasobject", nb::bool_(false)))) {
    return "holds Python objects, which are no numbers; use all_gather_object, "
           "broadcast_object_list or another operation on objects";
  }
  const std::string shown =
      dtype.is_none() ? "format '" + format + "'" : nb::cast<std::string>(nb::str(dtype));
  return "has elements of a type that tutti does not know (" + shown + ")";
}

// True for an array of numpy.ma. Only a class that Python code has defined is asked for its
// attributes: every call comes here.
bool is_masked(nb::handle array) {
  return (PyType_GetFlags(Py_TYPE(array.ptr())) & Py_TPFLAGS_HEAPTYPE) != 0 &&
         nb::hasattr(array, "harden_mask");
}

// Advice: the value to pass in place of an object that is no array.
std::string instead_of(nb::handle given) {
  if (nb::hasattr(given, "to_numpy"))
    return "pass the NumPy array of its to_numpy(), and keep that: results are written into it";
  if (PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()))
    return "pass a NumPy array of it (numpy.asarray), and keep that: results are written into it";
  return "pass a NumPy array, a torch tensor, an object with __dlpack__ or "
         "__cuda_array_interface__, or a buffer";
}

// True for a torch tensor. Never imports torch.
bool is_torch_tensor(nb::handle array) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  // `torch` may be an empty namespace package: any folder of that name on Python's path.
  const nb::object type = nb::getattr(modules.attr("get")("torch"), "Tensor", nb::none());
  return !type.is_none() && nb::isinstance(array, type);
}

}  // namespace

void Buffer::Release::operator()(Py_buffer* pinned) const noexcept {
  PyBuffer_Release(pinned);
  delete pinned;
}

bool Buffer::is_torch() const { return is_torch_tensor(array_); }

void Buffer::refuse(const Call& call, const std::string& why) const {
  const std::string type = name_of_type(array_.type());
  const nb::object unusable = nb::module_::import_("tutti.errors").attr("UnusableArrayError");
  raise_shown(unusable.ptr(),
              std::string(call.operation) + ": the " + call.what + ", a " + type + ", " + why);
}

void Buffer::take(const Call& call, void* data, DType dtype, int dims, const std::int64_t* shape,
                  const std::int64_t* strides, std::int64_t unit) {
  const auto count = static_cast<std::size_t>(dims);
  std::string why;
  if (!make_view(data, dtype, std::span(shape, count),
                 strides == nullptr ? std::span<const std::int64_t>() : std::span(strides, count),
                 unit, device_, view_, why)) {
    refuse(call, why);
  }
}

void Buffer::set_gpu(const Call& call, std::int64_t number) {
  if (!std::in_range<std::int16_t>(number))
    refuse(call, "is on GPU " + std::to_string(number) + " by its own account, which cannot be");
  device_ = {DeviceType::cuda, static_cast<std::int16_t>(number)};
}

void Buffer::take(const Call& call, const nb::dlpack::dltensor& tensor) {
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr))
    refuse(call,
           "has a DLPack tensor without a valid shape (ndim " + std::to_string(tensor.ndim) + ")");
  if (in_gpu_memory(tensor.device)) {
    set_gpu(call, tensor.device.device_id);
    stream_ = stream_of(array_, tensor.device.device_id);
  } else if (!in_cpu_memory(tensor.device)) {
    refuse(call, kElsewhere);
  }
  if (is_complex(tensor) && tensor.dtype.bits == 32 && tensor.dtype.lanes == 1)
    return take_halves(call, tensor);
  const std::optional<DType> dtype = dtype_of_dlpack(tensor.dtype);
  if (!dtype) refuse(call, "has elements of a type that tutti does not know");
  take(call, start_of(tensor), *dtype, tensor.ndim, tensor.shape, tensor.strides,
       static_cast<std::int64_t>(size_of(*dtype)));
}

void Buffer::take_halves(const Call& call, const nb::dlpack::dltensor& tensor) {
  const auto dims = static_cast<std::size_t>(tensor.ndim);
  std::vector<std::int64_t> shape(tensor.shape, tensor.shape + dims);
  shape.push_back(2);
  std::vector<std::int64_t> strides;
  if (tensor.strides != nullptr) {
    for (std::size_t d = 0; d < dims; ++d) {
      std::int64_t twice = 0;
      if (__builtin_mul_overflow(tensor.strides[d], 2, &twice)) refuse(call, kBeyondMemory);
      strides.push_back(twice);
    }
    strides.push_back(1);
  }
  halves_ = true;
  take(call, start_of(tensor), DType::float16, tensor.ndim + 1, shape.data(),
       strides.empty() ? nullptr : strides.data(),
       static_cast<std::int64_t>(size_of(DType::float16)));
}

nb::object Buffer::resolved(nb::handle tensor) {
  const nb::object plain = tensor.attr("detach")();
  nb::object copy = plain.attr("resolve_conj")().attr("resolve_neg")();
  if (use_ == Use::write) written_to_ = plain;
  return copy;
}

bool Buffer::from_buffer(const Call& call) {
  if (PyObject_CheckBuffer(array_.ptr()) == 0) return false;
  if (is_masked(array_)) refuse(call, kMasked);
  std::unique_ptr<Py_buffer> view(new Py_buffer());
  if (PyObject_GetBuffer(array_.ptr(), view.get(), PyBUF_FULL_RO) != 0) {
    const nb::python_error problem;
    if (from_array_struct(call)) return true;
    // CuPy's arrays have the buffer protocol, but refuse it for GPU memory.
    if (CudaArray::interface_of(array_).is_valid()) return false;
    refuse(call, "cannot be used in place: " + first_line(problem));
  }
  pinned_.reset(view.release());
  const Py_buffer& pinned = *pinned_;
  if (pinned.suboffsets != nullptr) {
    for (int d = 0; d < pinned.ndim; ++d) {
      if (pinned.suboffsets[d] >= 0) refuse(call, "lies in pieces (suboffsets); pass a copy");
    }
  }
  const char* const format = pinned.format == nullptr ? "B" : pinned.format;
  const std::optional<DType> dtype =
      dtype_of_format(format, static_cast<std::size_t>(pinned.itemsize));
  if (!dtype) refuse(call, unknown_elements(array_, format));
  if (pinned.readonly != 0 && use_ == Use::write) refuse(call, kReadOnly);
  take(call, pinned.buf, *dtype, pinned.ndim, wide(pinned.shape), wide(pinned.strides), 1);
  return true;
}

bool Buffer::from_array_struct(const Call& call) {
  kept_ = nb::getattr(array_, "__array_struct__", nb::none());
  if (!PyCapsule_CheckExact(kept_.ptr())) return false;
  const auto* const array =
      static_cast<const ArrayStruct*>(PyCapsule_GetPointer(kept_.ptr(), nullptr));
  if (array == nullptr || array->two != 2) {
    PyErr_Clear();
    return false;
  }
  const std::string name = nb::cast<std::string>(nb::str(array_.attr("dtype").attr("name")));
  const std::optional<DType> dtype = dtype_of_name(name);
  if (!dtype) refuse(call, "has elements of a type that tutti does not know (" + name + ")");
  if ((array->flags & kNotSwapped) == 0 && array->item_bytes > 1)
    refuse(call, "has the bytes of its elements swapped; pass a copy");
  if ((array->flags & kWriteable) == 0 && use_ == Use::write) refuse(call, kReadOnly);
  take(call, array->data, *dtype, array->dims, wide(array->shape), wide(array->strides), 1);
  return true;
}

bool Buffer::from_dlpack(const Call& call) {
  nb::object source = array_;
  const bool torch = is_torch_tensor(array_);
  // That is asked next, and may tell of memory of a GPU where DLPack refuses or tells of other
  // memory. (torch's is for the same memory, and may raise.)
  const auto has_cuda_interface = [&] {
    return !torch && CudaArray::interface_of(array_).is_valid();
  };
  if (torch) {
    // A detached view, because __dlpack__ refuses tensors with a gradient.
    source = is_lazy_view(array_, true) ? resolved(array_) : nb::object(array_.attr("detach")());
  } else if (!attribute_of(array_, "__dlpack__").is_valid()) {
    return false;
  }
  // Never with conversion: a copy would be changed, and the caller would not see the result.
  if (use_ == Use::write) {
    nb::ndarray<> writable;
    if (nb::try_cast<nb::ndarray<>>(source, writable, false)) {
      kept_ = source;
      imported_ = nb::ndarray<nb::ro>(writable);
    }
  }
  if (!imported_.is_valid()) {
    if (!nb::try_cast<nb::ndarray<nb::ro>>(source, imported_, false)) {
      if (has_cuda_interface()) return false;
      // Asked directly, the array raises the reason.
      try {
        (void)source.attr("__dlpack__")();
      } catch (nb::python_error& problem) {
        refuse(call, "cannot be used in place: " + first_line(problem));
      }
      refuse(call, "cannot be used in place: its __dlpack__ gives no tensor that can be read");
    }
    if (use_ == Use::write) refuse(call, kReadOnly);
    kept_ = source;
  }
  nb::dlpack::dltensor tensor;
  tensor.data = const_cast<void*>(imported_.data());
  tensor.device = {imported_.device_type(), imported_.device_id()};
  if (!in_gpu_memory(tensor.device) && !in_cpu_memory(tensor.device) && has_cuda_interface()) {
    imported_ = {};
    return false;
  }
  tensor.ndim = static_cast<std::int32_t>(imported_.ndim());
  tensor.dtype = imported_.dtype();
  tensor.shape = const_cast<std::int64_t*>(imported_.shape_ptr());
  tensor.strides = const_cast<std::int64_t*>(imported_.stride_ptr());
  take(call, tensor);
  return true;
}

bool Buffer::from_cuda_interface(const Call& call) {
  const CudaArray array(array_);
  if (!array.known()) return false;
  if (!array.fault().empty()) refuse(call, array.fault());
  kept_ = array.owner();
  if (!array.dtype())
    refuse(call, "has elements of a type that tutti does not know (" + array.code() + ")");
  if (array.read_only() && use_ == Use::write) refuse(call, kReadOnly);
  set_gpu(call, array.device());
  stream_ = array.stream();
  take(call, array.data(), *array.dtype(), static_cast<int>(array.shape().size()),
       array.shape().data(), array.strides(), 1);
  return true;
}

Buffer::Buffer(nb::handle array, const char* operation, const char* what, Use use)
    : array_(nb::borrow(array)), use_(use) {
  const Call call{operation, what};
  const Exchange* exchange = Exchange::known(array);
  if (exchange == nullptr) {
    if (from_buffer(call)) return;
    exchange = Exchange::of(array);
  }
  if (exchange != nullptr) {
    nb::dlpack::dltensor tensor;
    try {
      tensor = exchange->borrow(array);
      if (exchange->lazy() && is_lazy_view(array, is_complex(tensor))) {
        kept_ = resolved(array);
        tensor = exchange->borrow(kept_);
      }
    } catch (nb::python_error& problem) {
      refuse(call, "cannot be used in place: " + first_line(problem));
    }
    take(call, tensor);
    return;
  }
  if (from_dlpack(call) || from_cuda_interface(call)) return;
  refuse(call, "is no array that can be used in place; " + instead_of(array));
}

void Buffer::finish() {
  if (written_to_.is_valid()) written_to_.attr("copy_")(kept_);
  written_to_.reset();
}

}  // namespace tutti::python
