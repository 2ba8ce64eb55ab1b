#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

#include <tutti/buffers.hpp>
#include <tutti/export.hpp>

// Which types the operations on objects take.
namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Makes bytes of an object, and an object of bytes: see <tutti/objects.hpp>.
template <class T>
struct serialise;

namespace detail {

/// The result of to_bytes: a contiguous range of bytes or characters.
template <class R>
concept ByteRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                    sizeof(std::ranges::range_value_t<R>) == 1;

/// A type with a `serialise`.
template <class T>
concept Object = std::same_as<T, std::remove_cvref_t<T>> &&
    requires(const T& object, std::span<const std::byte> bytes) {
  requires ByteRange<decltype(serialise<T>::to_bytes(object))>;
  { serialise<T>::from_bytes(bytes) } -> std::convertible_to<T>;
};

/// Advice::none if the argument can be an object that an operation sends, or with `written` one
/// that it may write to; else why not.
template <class R, bool written>
consteval Advice advice_on_object() {
  if constexpr (!Object<std::remove_cvref_t<R>>)
    return Advice::no_serialiser;
  else if constexpr (written && !std::same_as<R, std::remove_cvref_t<R>&>)
    return Advice::no_place;
  else
    return Advice::none;
}

}  // namespace detail
}  // namespace v0
}  // namespace tutti
