#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include <tutti/dtype.hpp>
#include <tutti/tensor.hpp>

// The views of what a call was given as a buffer. An argument that cannot be taken is refused with
// one line that says what to write instead; constraints of templates are answered by a page.
namespace tutti::detail {

/// An argument that is no view and no list of views, which have calls of their own.
template <class R>
concept NotView = !std::convertible_to<R, const TensorView&> &&
                  !std::convertible_to<R, std::span<const TensorView>>;

template <class R>
inline constexpr bool owns_elements_and_ends =
    !std::is_lvalue_reference_v<R> && !std::ranges::borrowed_range<std::remove_cvref_t<R>>;

/// The demands on each buffer; false after an error of the compiler, so that no second one follows.
template <class R>
consteval bool is_buffer() {
  using T = std::remove_cvref_t<R>;
  static_assert(!std::is_arithmetic_v<T> && !std::is_enum_v<T>,
                "tutti: a buffer is a range, not one value: use std::span(&x, 1)");
  static_assert(!std::is_pointer_v<T>,
                "tutti: a pointer tells no count: use std::span(pointer, count)");
  static_assert(!std::same_as<T, std::vector<bool>>,
                "tutti: std::vector<bool> keeps bits, not elements: use std::vector<char>, or an "
                "array of bool");
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> ||
                std::same_as<T, std::vector<bool>>) {
    return false;
  } else {
    static_assert(
        std::ranges::contiguous_range<R> && std::ranges::sized_range<R>,
        "tutti: a buffer is a contiguous range, as std::vector, std::span and arrays are; "
        "for one object use std::span(&x, 1)");
    static_assert(!owns_elements_and_ends<R>,
                  "tutti: a temporary ends before the operation does: give it a name first");
    return std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
           !owns_elements_and_ends<R>;
  }
}

template <class R>
consteval bool is_written() {
  if constexpr (!is_buffer<R>()) {
    return false;
  } else {
    static_assert(!std::is_const_v<element_t<R>>,
                  "tutti: the operation writes to this buffer, and its elements are const");
    return !std::is_const_v<element_t<R>>;
  }
}

template <class R>
consteval bool is_of_numbers() {
  if constexpr (!is_written<R>()) {
    return false;
  } else {
    constexpr bool numbers = dtype_of<element_t<R>>().has_value();
    static_assert(
        numbers,
        "tutti: only numbers can be combined: the elements have no dtype (tutti/dtype.hpp)");
    return numbers;
  }
}

template <class R>
consteval bool is_moved() {
  constexpr bool movable = std::is_trivially_copyable_v<std::remove_const_t<element_t<R>>>;
  static_assert(movable,
                "tutti: elements are moved as bytes, and these are not trivially copyable: send "
                "their parts");
  return movable;
}

/// The view of a range of numbers that is written.
template <class R>
[[nodiscard]] TensorView numbers(std::remove_reference_t<R>& range) noexcept {
  if constexpr (is_of_numbers<R>()) return view_of(range);
  return {};
}

/// The view of a range of any elements: numbers, or structs.
template <class R>
[[nodiscard]] TensorView moved(std::remove_reference_t<R>& range) noexcept {
  using T = std::remove_const_t<element_t<R>>;
  T* const data = const_cast<T*>(std::ranges::data(range));  // a view knows no const
  if constexpr (dtype_of<T>().has_value())
    return TensorView(data, *dtype_of<T>(), std::ranges::size(range));
  else
    return TensorView::of_structs(data, std::ranges::size(range), sizeof(T));
}

/// The view of a range of any elements that is written.
template <class R>
[[nodiscard]] TensorView written(std::remove_reference_t<R>& range) noexcept {
  if constexpr (is_written<R>()) {
    if constexpr (is_moved<R>()) return moved<R>(range);
  }
  return {};
}

/// The view of a range of any elements that is only read.
template <class R>
[[nodiscard]] TensorView read(std::remove_reference_t<R>& range) noexcept {
  if constexpr (is_buffer<R>()) {
    if constexpr (is_moved<R>()) return moved<R>(range);
  }
  return {};
}

/// Calls with a pointer and a count, as MPI has them: an error of the compiler.
template <class T>
class PointerAndCount {
  static_assert(!std::is_object_v<T> && !std::is_void_v<T>,
                "tutti: a buffer is one argument: use std::span(pointer, count)");

 public:
  void wait() const noexcept {}
};

// A call of ProcessGroup with a pointer and a count. `...`: what follows the count in any case.
#define TUTTI_REFUSE_POINTER_AND_COUNT(name, ...)                                    \
  template <class T, std::integral Count, class... More>                             \
  detail::PointerAndCount<T> name(T*, Count __VA_OPT__(, ) __VA_ARGS__, More&&...) { \
    return {};                                                                       \
  }

}  // namespace tutti::detail
