#pragma once

#include <type_traits>

namespace tutti::test {

/// One parameter: both pointers, or both of one size.
template <class Ours, class Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) return true;
  return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
}

/// Two pointers to functions that can be called alike.
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class OurResult, class... Ours, class TheirResult, class... Theirs>
struct SameCall<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs))
      return alike<OurResult, TheirResult>() && (alike<Ours, Theirs>() && ...);
    else
      return false;
  }();
};

}  // namespace tutti::test
