#pragma once

#include <type_traits>

namespace tutti::test {

/// One parameter: both numbers of one size, or both pointers, to numbers of one size where they
/// are.
template <class Ours, class Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using Our = std::remove_pointer_t<Ours>;
    using Their = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_arithmetic_v<Our> && std::is_arithmetic_v<Their>)
      return sizeof(Our) == sizeof(Their) && std::is_const_v<Our> == std::is_const_v<Their>;
    return true;
  } else {
    return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
  }
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

/// How many calls are compared.
template <class... Compared>
int how_many(Compared... /*all*/) {
  return sizeof...(Compared);
}

}  // namespace tutti::test

/// Compares a member of `Functions` with the function of that name, when it is compiled.
#define TUTTI_SAME_CALL(Functions, name)                                                       \
  [] {                                                                                         \
    static_assert(tutti::test::SameCall<decltype(Functions{}.name), decltype(&::name)>::value, \
                  #name);                                                                      \
    return true;                                                                               \
  }()
