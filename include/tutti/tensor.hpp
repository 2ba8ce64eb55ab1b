#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include <tutti/device.hpp>
#include <tutti/dtype.hpp>

namespace tutti {

/// The most dimensions of a view.
inline constexpr int kMaxDims = 8;

/// A typed view of memory that somebody else owns: pointer, dtype, shape, strides and device.
///
/// Device:   the memory is only reached by a backend that takes tensors of that device; any other
///           one refuses the call.
/// Shapes:   any number of dimensions up to kMaxDims; zero dimensions mean one element.
/// Units:    shape and strides count elements.
/// Lifetime: the memory must stay valid and untouched until the Work of the operation is done.
class TensorView {
 public:
  /// Sets little: options that hold a view are made at every call.
  TensorView() noexcept {
    shape_[0] = 0;
    strides_[0] = 0;
  }
  /// By hand, because a view is copied several times in every call, and most of its arrays is
  /// unused.
  TensorView(const TensorView& other) noexcept { *this = other; }
  TensorView& operator=(const TensorView& other) noexcept {
    data_ = other.data_;
    count_ = other.count_;
    traits_ = other.traits_;
    shape_[0] = other.shape_[0];  // not in the loop, which would be two calls of memcpy
    strides_[0] = other.strides_[0];
    for (std::size_t d = 1; d < static_cast<std::size_t>(traits_.dims); ++d) {
      shape_[d] = other.shape_[d];
      strides_[d] = other.strides_[d];
    }
    return *this;
  }
  ~TensorView() = default;

  /// A contiguous run of `count` elements.
  TensorView(void* data, DType dtype, std::size_t count, Device device = {}) noexcept
      : data_(data), count_(count), traits_{{dtype, device.type, device.index}, true, 1} {
    shape_[0] = static_cast<std::int64_t>(count);
    strides_[0] = 1;
  }

  /// A view with shape and strides, both in elements. Throws InvalidArgument when the two differ in
  /// length, there are more than kMaxDims dimensions, a size is negative, or the product overflows.
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape,
             std::span<const std::int64_t> strides, Device device = {});

  /// `count` structs of `bytes` each, which follow each other and move as uint8. The counts that
  /// are given to a call with it are numbers of structs, and error texts count structs.
  [[nodiscard]] static TensorView of_structs(void* data, std::size_t count,
                                             std::size_t bytes) noexcept {
    TensorView view(data, DType::uint8, count * bytes);
    if (bytes == 1) return view;
    // As the rows of a matrix, so that a view needs no member for it.
    view.shape_[0] = static_cast<std::int64_t>(count);
    view.shape_[1] = static_cast<std::int64_t>(bytes);
    view.strides_[0] = static_cast<std::int64_t>(bytes);
    view.strides_[1] = 1;
    view.traits_.dims = 2;
    view.traits_.structs = true;
    return view;
  }

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] DType dtype() const noexcept { return traits_.element.dtype; }
  /// Where the memory is.
  [[nodiscard]] Device device() const noexcept {
    return {traits_.element.device, traits_.element.index};
  }
  /// Elements of one dtype on one device: what the tensors of a call must have in common.
  [[nodiscard]] bool alike(const TensorView& other) const noexcept {
    return std::bit_cast<std::uint32_t>(traits_.element) ==
           std::bit_cast<std::uint32_t>(other.traits_.element);
  }
  /// Number of elements.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Elements in one of the caller's: the bytes of a struct (`of_structs`), else 1.
  [[nodiscard]] std::size_t struct_size() const noexcept {
    return traits_.structs ? static_cast<std::size_t>(shape_[1]) : 1;
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return count_ * size_of(dtype()); }
  [[nodiscard]] int dims() const noexcept { return traits_.dims; }
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept {
    return {shape_.data(), static_cast<std::size_t>(traits_.dims)};
  }
  [[nodiscard]] std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), static_cast<std::size_t>(traits_.dims)};
  }
  /// Elements lie next to each other in row-major order.
  [[nodiscard]] bool contiguous() const noexcept { return traits_.contiguous; }

 private:
  struct Element {  // without holes, to be compared as one word
    DType dtype = DType::uint8;
    DeviceType device = DeviceType::cpu;
    std::int16_t index = 0;
  };
  static_assert(sizeof(Element) == sizeof(std::uint32_t));
  struct alignas(8) Traits {  // copied as one word
    Element element;
    bool contiguous = true;
    std::int8_t dims = 0;
    bool structs = false;
  };
  static_assert(sizeof(Traits) == 8);

  void* data_ = nullptr;
  std::size_t count_ = 0;
  Traits traits_;
  std::array<std::int64_t, kMaxDims> shape_;    // only the first one and the first `dims` are set,
  std::array<std::int64_t, kMaxDims> strides_;  // so that making a view of a range costs nothing
};

namespace detail {
template <class R>
using element_t = std::remove_reference_t<std::ranges::range_reference_t<R>>;
}  // namespace detail

/// A contiguous range of numbers that can be written: std::vector<float>&, std::span<double>,
/// int[4]. Temporaries that own their elements, const elements and types without a dtype are
/// refused.
template <class R>
concept NumberRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    (std::is_lvalue_reference_v<R> ||
     std::ranges::borrowed_range<std::remove_cvref_t<R>>)&&!std::is_const_v<detail::element_t<R>> &&
    dtype_of<detail::element_t<R>>().has_value();

/// The view of a range of numbers.
template <NumberRange R>
[[nodiscard]] TensorView view_of(R&& range) noexcept {
  return TensorView(std::ranges::data(range), *dtype_of<detail::element_t<R>>(),
                    std::ranges::size(range));
}

}  // namespace tutti
