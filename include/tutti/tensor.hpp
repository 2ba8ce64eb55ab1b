#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>
#include <version>

#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

#include <tutti/buffers.hpp>
#include <tutti/device.hpp>
#include <tutti/dtype.hpp>
#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The most dimensions of a view.
inline constexpr int kMaxDims = 8;

namespace detail {

/// The dtype of the elements of a range, as which structs move as bytes; and how many of it make up
/// one element.
template <class R>
consteval DType dtype_or_bytes() {
  return dtype_of<element_t<R>>().value_or(DType::uint8);
}
template <class R>
consteval std::size_t elements_of_dtype() {
  return dtype_of<element_t<R>>().has_value() ? 1 : sizeof(element_t<R>);
}

#if defined(__cpp_lib_mdspan)
template <class All>
[[nodiscard]] std::array<std::int64_t, All::rank()> extents_of(const All& all) noexcept {
  std::array<std::int64_t, All::rank()> shape{};
  for (std::size_t d = 0; d < shape.size(); ++d)
    shape[d] = static_cast<std::int64_t>(all.extent(d));
  return shape;
}
template <class All>
[[nodiscard]] std::array<std::int64_t, All::rank()> strides_of(const All& all) noexcept {
  std::array<std::int64_t, All::rank()> strides{};
  for (std::size_t d = 0; d < strides.size(); ++d)
    strides[d] = static_cast<std::int64_t>(all.stride(d));
  return strides;
}
#endif

}  // namespace detail

/// A typed view of memory that somebody else owns, and that is only read: pointer, dtype, shape,
/// strides and device. Contiguous ranges (std::vector, std::span, arrays) of numbers convert to it,
/// and of other trivially copyable types (see moves_as_bytes).
///
/// Device:   the memory is only reached by a backend that takes tensors of that device; any other
///           one refuses the call.
/// Shapes:   any number of dimensions up to kMaxDims; zero dimensions mean one element.
/// Units:    shape and strides count elements.
/// Lifetime: the memory must stay valid and untouched until the Work of the operation is done.
class ConstTensorView {
 public:
  /// By hand, because a view is copied several times in every call, and most of its arrays is
  /// unused.
  ConstTensorView(const ConstTensorView& other) noexcept { *this = other; }
  ConstTensorView& operator=(const ConstTensorView& other) noexcept {
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
  ~ConstTensorView() = default;

  /// A contiguous run of `count` elements.
  ConstTensorView(const void* data, DType dtype, std::size_t count, Device device = {}) noexcept
      : data_(const_cast<void*>(data)),
        count_(count),
        traits_{{dtype, device.type, device.index}, true, 1} {
    shape_[0] = static_cast<std::int64_t>(count);
    strides_[0] = 1;
  }

  /// A view with shape and strides, both in elements. Throws InvalidArgument when the two differ in
  /// length, there are more than kMaxDims dimensions, a size is negative, or the product overflows.
  ConstTensorView(const void* data, DType dtype, std::span<const std::int64_t> shape,
                  std::span<const std::int64_t> strides, Device device = {});
  /// The same with both in braces: `{{4, 2}, {8, 1}}` are two columns of four rows of eight.
  ConstTensorView(const void* data, DType dtype, std::initializer_list<std::int64_t> shape,
                  std::initializer_list<std::int64_t> strides, Device device = {})
      : ConstTensorView(data, dtype, std::span(shape.begin(), shape.size()),
                        std::span(strides.begin(), strides.size()), device) {}

  /// All elements of a range.
  template <detail::Readable R>
  ConstTensorView(R&& range) noexcept
      : ConstTensorView(std::ranges::data(range), detail::dtype_or_bytes<R>(),
                        std::ranges::size(range) * detail::elements_of_dtype<R>()) {
    if constexpr (!dtype_of<detail::element_t<R>>().has_value())
      set_structs(std::ranges::size(range), sizeof(detail::element_t<R>));
  }
  TUTTI_REFUSE_CONVERSION(BUFFERS, (class R), (detail::advice_on_buffer<R, false>()),
                          ConstTensorView(R&& range))

#if defined(__cpp_lib_mdspan)
  /// All elements of a std::mdspan of numbers, whose layout has strides.
  template <class T, class Extents, class Layout>
  requires(dtype_of<T>().has_value() && Layout::template mapping<Extents>::is_always_strided())
      ConstTensorView(const std::mdspan<T, Extents, Layout>& all)
      : ConstTensorView(all.data_handle(), *dtype_of<T>(), detail::extents_of(all),
                        detail::strides_of(all)) {}
#endif

  /// `count` structs of `bytes` each, which follow each other and move as uint8. The counts that
  /// are given to a call with it are numbers of structs, and error texts count structs.
  [[nodiscard]] static ConstTensorView of_structs(const void* data, std::size_t count,
                                                  std::size_t bytes) noexcept {
    ConstTensorView view(data, DType::uint8, count * bytes);
    view.set_structs(count, bytes);
    return view;
  }

  [[nodiscard]] const void* data() const noexcept { return data_; }
  [[nodiscard]] DType dtype() const noexcept { return traits_.element.dtype; }
  /// Where the memory is.
  [[nodiscard]] Device device() const noexcept {
    return {traits_.element.device, traits_.element.index};
  }
  /// Elements of one dtype on one device: what the tensors of a call must have in common.
  [[nodiscard]] bool alike(const ConstTensorView& other) const noexcept {
    return std::bit_cast<std::uint32_t>(traits_.element) ==
           std::bit_cast<std::uint32_t>(other.traits_.element);
  }
  /// Number of elements.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Elements of the view that make up one of the caller's elements: for structs the bytes of one
  /// (see of_structs), else 1.
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
  friend class TensorView;
  enum class Unset { value };
  /// Sets little: options that hold a view are made at every call.
  explicit ConstTensorView(Unset /*unused*/) noexcept {
    shape_[0] = 0;
    strides_[0] = 0;
  }
  void set_structs(std::size_t count, std::size_t bytes) noexcept {
    if (bytes == 1) return;
    // As the rows of a matrix, so that a view needs no member for it.
    shape_[0] = static_cast<std::int64_t>(count);
    shape_[1] = static_cast<std::int64_t>(bytes);
    strides_[0] = static_cast<std::int64_t>(bytes);
    strides_[1] = 1;
    traits_.dims = 2;
    traits_.structs = true;
  }

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

/// A view of memory that an operation may write, too. Where a call takes a ConstTensorView it takes
/// a TensorView; otherwise as ConstTensorView. Ranges of const elements do not convert to it.
class TensorView : public ConstTensorView {
 public:
  /// No memory and no elements.
  TensorView() noexcept : ConstTensorView(Unset::value) {}
  TensorView(void* data, DType dtype, std::size_t count, Device device = {}) noexcept
      : ConstTensorView(data, dtype, count, device) {}
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape,
             std::span<const std::int64_t> strides, Device device = {})
      : ConstTensorView(data, dtype, shape, strides, device) {}
  TensorView(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
             std::initializer_list<std::int64_t> strides, Device device = {})
      : ConstTensorView(data, dtype, shape, strides, device) {}
  template <detail::Writable R>
  TensorView(R&& range) noexcept : ConstTensorView(range) {}
  TUTTI_REFUSE_CONVERSION(BUFFERS, (class R), (detail::advice_on_buffer<R, true>()),
                          TensorView(R&& range))
#if defined(__cpp_lib_mdspan)
  template <class T, class Extents, class Layout>
  requires(!std::is_const_v<T>) TensorView(const std::mdspan<T, Extents, Layout>& all)
      : ConstTensorView(all) {}
#endif
  [[nodiscard]] static TensorView of_structs(void* data, std::size_t count,
                                             std::size_t bytes) noexcept {
    TensorView view;
    view.read_only() = ConstTensorView::of_structs(data, count, bytes);
    return view;
  }

  [[nodiscard]] void* data() const noexcept { return data_; }

  /// For the library, which keeps inputs and outputs in one type: after an assignment to the
  /// result, this is a view of memory that must only be read.
  [[nodiscard]] ConstTensorView& read_only() noexcept { return *this; }
};

namespace detail {
template <class R>
[[nodiscard]] std::vector<TensorView> views_of(R& buffers) {
  std::vector<TensorView> views;
  for (auto&& one : buffers) views.emplace_back(one);
  return views;
}

/// An input in a place where another overload has its options: braces do not convert to it.
struct Input : ConstTensorView {
  template <std::convertible_to<ConstTensorView> R>
  Input(R&& range) : ConstTensorView(std::forward<R>(range)) {}
  TUTTI_REFUSE_CONVERSION(BUFFERS, (PerhapsBuffer R), (advice_on_buffer<R, false>()),
                          Input(R&& range))
};
}  // namespace detail

}  // namespace v0
}  // namespace tutti
