#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <iterator>

// Ranks, counts and places are signed numbers here, and containers want unsigned ones.
namespace tutti::base {

/// A number that is never negative.
template <std::signed_integral Number>
[[nodiscard]] constexpr std::size_t as_size(Number number) noexcept {
  assert(number >= 0);
  return static_cast<std::size_t>(number);
}

/// container[place], which must be there.
template <class Container, std::signed_integral Number>
[[nodiscard]] constexpr decltype(auto) at(Container& container, Number place) noexcept {
  if constexpr (requires { std::size(container); }) assert(as_size(place) < std::size(container));
  return container[as_size(place)];
}

}  // namespace tutti::base
