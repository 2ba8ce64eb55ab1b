#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "group.hpp"

// Errors for arguments of a wrong type. Functions bound by `Class` or `define` take Python's
// object, so that the error names the argument and what is allowed. nanobind's own error would list
// signatures.
namespace tutti::python {

/// The argument that is checked. The texts are literals.
struct Argument {
  const char* function;
  const char* name;
  const GroupHandle* group = nullptr;  ///< gives the number of ranks; null: no method of a group
  std::ptrdiff_t item = -1;            ///< place in a list; -1: no list
};

/// TypeError: "send: dst must be a whole number, not 1.5 (float)".
[[noreturn]] void refuse(const Argument& argument, std::string_view allowed,
                         nanobind::handle given);
/// A whole number between the two limits, not a bool. Throws InvalidArgument beyond the limits.
[[nodiscard]] std::int64_t whole_number(nanobind::handle given, const Argument& argument,
                                        std::int64_t least, std::int64_t most);
[[nodiscard]] bool truth(nanobind::handle given, const Argument& argument);
[[nodiscard]] std::string text(nanobind::handle given, const Argument& argument);
/// The argument as a list. Refuses text, which Python treats as a list of characters.
[[nodiscard]] nanobind::object items(nanobind::handle given, const Argument& argument,
                                     std::string_view allowed);
/// "one of tutti.ReduceOp.SUM, ReduceOp.AVG, ...", or the name of a class that is no enumeration.
[[nodiscard]] std::string members_of(nanobind::handle type);

/// Converts Python's object to T. nanobind converts the types without a specialization.
template <class T>
struct Taken : std::false_type {};

template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct Taken<T> : std::true_type {
  static T from(nanobind::handle given, const Argument& argument) {
    using Limits = std::numeric_limits<T>;
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    return static_cast<T>(whole_number(
        given, argument, static_cast<std::int64_t>(Limits::min()),
        sizeof(T) == sizeof(kMost) ? kMost : static_cast<std::int64_t>(Limits::max())));
  }
};
template <>
struct Taken<bool> : std::true_type {
  static bool from(nanobind::handle given, const Argument& argument) {
    return truth(given, argument);
  }
};
template <>
struct Taken<std::string> : std::true_type {
  static std::string from(nanobind::handle given, const Argument& argument) {
    return text(given, argument);
  }
};
template <>
struct Taken<nanobind::list> : std::true_type {
  static nanobind::list from(nanobind::handle given, const Argument& argument) {
    if (!nanobind::isinstance<nanobind::list>(given)) refuse(argument, "a list", given);
    return nanobind::borrow<nanobind::list>(given);
  }
};
template <>
struct Taken<nanobind::sequence> : std::true_type {
  static nanobind::sequence from(nanobind::handle given, const Argument& argument) {
    return nanobind::borrow<nanobind::sequence>(items(given, argument, "a list"));
  }
};
template <>
struct Taken<nanobind::bytes> : std::true_type {
  static nanobind::bytes from(nanobind::handle given, const Argument& argument) {
    if (!nanobind::isinstance<nanobind::bytes>(given)) refuse(argument, "bytes", given);
    return nanobind::borrow<nanobind::bytes>(given);
  }
};
template <class T>
requires std::is_enum_v<T>
struct Taken<T> : std::true_type {
  static T from(nanobind::handle given, const Argument& argument) {
    T value{};
    if (!nanobind::try_cast(given, value)) refuse(argument, members_of(nanobind::type<T>()), given);
    return value;
  }
};
template <class T>
requires Taken<T>::value struct Taken<std::vector<T>> : std::true_type {
  static std::vector<T> from(nanobind::handle given, const Argument& argument) {
    std::vector<T> all;
    Argument each = argument;
    for (const nanobind::handle one : items(given, argument, "a list of whole numbers")) {
      ++each.item;
      all.push_back(Taken<T>::from(one, each));
    }
    return all;
  }
};
template <class T>
struct Taken<std::optional<T>> : std::true_type {
  static std::optional<T> from(nanobind::handle given, const Argument& argument) {
    if (given.is_none()) return std::nullopt;
    if constexpr (Taken<T>::value) {
      return Taken<T>::from(given, argument);
    } else {
      std::optional<T> value;
      if (!nanobind::try_cast(given, value))
        refuse(argument, "None or " + members_of(nanobind::type<T>()), given);
      return value;
    }
  }
};

/// An unconverted argument that must become a T.
template <class T>
struct Given {
  nanobind::handle value;
};

template <class A>
inline constexpr bool kIsTaken = Taken<std::decay_t<A>>::value;
/// The type in the bound signature for a parameter of type A.
template <class A>
using Wanted = std::conditional_t<kIsTaken<A>, Given<std::decay_t<A>>, A>;
/// The converted value that the function gets.
template <class A>
using Got = std::conditional_t<kIsTaken<A>, std::decay_t<A>, A&&>;

template <class A>
Got<A> take(Wanted<A>& wanted, const Argument& argument) {
  if constexpr (kIsTaken<A>) {
    return Taken<std::decay_t<A>>::from(wanted.value, argument);
  } else {
    return static_cast<A&&>(wanted);
  }
}

template <class A>
const GroupHandle* group_among(const A& first) {
  if constexpr (std::is_same_v<A, GroupHandle>) {
    return &first;
  } else {
    return nullptr;
  }
}

/// The name of an annotation, if it is one of an argument.
template <class Other>
void add_name(std::vector<const char*>& /*names*/, const Other& /*other*/) {}
template <std::uint32_t flags, bool locked>
void add_name(std::vector<const char*>& names, const nanobind::arg_t<flags, locked>& argument) {
  names.push_back(argument.name_);
}
template <std::uint32_t flags, bool locked>
void add_name(std::vector<const char*>& names, const nanobind::arg_v_t<flags, locked>& argument) {
  names.push_back(argument.name_);
}

/// The same annotation, but None is passed on to our check. `help` then shows "| None"; the stub
/// (.pyi) has the allowed types.
template <class Other>
const Other& with_none(const Other& other) {
  return other;
}
template <std::uint32_t flags, bool locked>
auto with_none(const nanobind::arg_t<flags, locked>& argument) {
  return argument.none();
}
template <std::uint32_t flags, bool locked>
auto with_none(const nanobind::arg_v_t<flags, locked>& argument) {
  constexpr std::uint32_t kFlags = flags | nanobind::detail::cast_flags::accepts_none;
  return nanobind::arg_v_t<kFlags, locked>(argument, nanobind::object(argument.value));
}

/// Wraps `function` so that its arguments are checked. `owner`: 1 for a method, whose first
/// argument has no name.
template <class R, class... A, class... Extra>
auto checked(const char* name, std::size_t owner, R (*function)(A...), const Extra&... extra) {
  std::vector<const char*> given(owner, "self");
  (add_name(given, extra), ...);
  std::array<const char*, sizeof...(A)> names;
  names.fill("the argument");
  for (std::size_t i = 0; i < names.size() && i < given.size(); ++i) names[i] = given[i];
  return [name, names, function](Wanted<A>... all) -> R {
    [[maybe_unused]] const GroupHandle* group = nullptr;
    [[maybe_unused]] std::size_t at = 0;
    ((group = at++ == 0 ? group_among(all) : group), ...);
    at = 0;
    // Braces evaluate in order, so that the error names the first wrong argument.
    std::tuple<Got<A>...> taken{take<A>(all, Argument{name, names[at++], group})...};
    return std::apply([function](auto&... values) { return function(static_cast<A&&>(values)...); },
                      taken);
  };
}

template <class F>
constexpr bool kIsMember = std::is_member_pointer_v<std::remove_cvref_t<F>>;

/// Binds a function of a module with checked arguments.
template <class F, class... Extra>
void define(nanobind::module_& module, const char* name, F&& function, const Extra&... extra) {
  module.def(name, checked(name, 0, +function, extra...), with_none(extra)...);
}

/// A class whose methods and attribute setters check their arguments.
template <class T, class... Ts>
class Class : public nanobind::class_<T, Ts...> {
  using Base = nanobind::class_<T, Ts...>;

 public:
  template <class... Extra>
  Class(nanobind::handle scope, const char* name, const Extra&... extra)
      : Base(scope, name, extra...), name_(name) {}

  template <class F, class... Extra>
  Class& def(const char* name, F&& function, const Extra&... extra) {
    if constexpr (kIsMember<F>) {
      Base::def(name, function, extra...);
    } else {
      const char* const called = std::string_view(name) == "__init__" ? name_ : name;
      Base::def(name, checked(called, 1, +function, extra...), with_none(extra)...);
    }
    return *this;
  }
  template <class Visitor, class... Extra>
  Class& def(nanobind::def_visitor<Visitor>&& visitor, const Extra&... extra) {
    Base::def(std::move(visitor), extra...);
    return *this;
  }
  template <class F, class... Extra>
  Class& def_static(const char* name, F&& function, const Extra&... extra) {
    Base::def_static(name, checked(name, 0, +function, extra...), with_none(extra)...);
    return *this;
  }
  template <class Getter, class... Extra>
  Class& def_prop_ro(const char* name, Getter&& getter, const Extra&... extra) {
    Base::def_prop_ro(name, std::forward<Getter>(getter), extra...);
    return *this;
  }
  template <class Getter, class Setter, class... Extra>
  Class& def_prop_rw(const char* name, Getter&& getter, Setter&& setter, const Extra&... extra) {
    Base::def_prop_rw(name, std::forward<Getter>(getter),
                      checked(name_, 1, +setter, nanobind::arg(name)),
                      nanobind::for_setter(nanobind::arg("value").none()), extra...);
    return *this;
  }
  template <class C, class D, class... Extra>
  Class& def_rw(const char* name, D C::*member, const Extra&... extra) {
    Base::def_prop_rw(
        name, [member](const T& self) -> const D& { return self.*member; },
        [name, owner = name_, member](T& self, Wanted<D> value) {
          self.*member = take<D>(value, Argument{owner, name});
        },
        nanobind::for_setter(nanobind::arg("value").none()), extra...);
    return *this;
  }

 private:
  const char* name_;
};

}  // namespace tutti::python

namespace nanobind::detail {

template <class T>
struct type_caster<tutti::python::Given<T>> {
  NB_TYPE_CASTER(tutti::python::Given<T>, make_caster<remove_opt_mono_t<T>>::Name)

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    value.value = source;
    return true;
  }
};

}  // namespace nanobind::detail
