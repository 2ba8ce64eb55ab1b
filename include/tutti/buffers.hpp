#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include <tutti/dtype.hpp>
#include <tutti/export.hpp>

// Tells the calls that can be right from those that cannot. A call that cannot be right does not
// compile, `requires` sees that, and the first line of the compiler's error says what to write
// instead (TUTTI_REFUSE).
namespace tutti {
inline namespace TUTTI_EXPORT v0 {

class ConstTensorView;
class UserOp;
enum class ReduceOp : std::uint8_t;

/// Elements that are no numbers move as bytes. So structs must not have pointers, references, spans
/// or views, which mean nothing to another process: the compiler refuses those that it can see.
/// Specialise this as true for a type that it refuses although its values mean the same on every
/// rank.
template <class T>
inline constexpr bool moves_as_bytes = false;

namespace detail {

// The texts of the compiler's errors: about a buffer, ...
#define TUTTI_ADVICE_ON_BUFFERS(X, ...)                                                           \
  X(one_value, "tutti: a buffer is a range, not one value: use std::span(&x, 1)", __VA_ARGS__)    \
  X(pointer, "tutti: a buffer is one argument, with its count: use std::span(pointer, count)",    \
    __VA_ARGS__)                                                                                  \
  X(bits,                                                                                         \
    "tutti: std::vector<bool> keeps bits, not elements: use std::vector<char>, or an array of "   \
    "bool",                                                                                       \
    __VA_ARGS__)                                                                                  \
  X(not_contiguous,                                                                               \
    "tutti: a buffer is a contiguous range, as std::vector, std::span and arrays are; for one "   \
    "object use std::span(&x, 1)",                                                                \
    __VA_ARGS__)                                                                                  \
  X(temporary, "tutti: a temporary ends before the operation does: give it a name first",         \
    __VA_ARGS__)                                                                                  \
  X(const_elements, "tutti: the operation writes to this buffer, and its elements are const",     \
    __VA_ARGS__)                                                                                  \
  X(not_trivial,                                                                                  \
    "tutti: elements are moved as bytes, and these are not trivially copyable: send their parts", \
    __VA_ARGS__)                                                                                  \
  X(addresses,                                                                                    \
    "tutti: the elements have pointers (or views, spans), which mean nothing to another rank: "   \
    "send what they point to, or see tutti::moves_as_bytes",                                      \
    __VA_ARGS__)                                                                                  \
  X(not_assignable,                                                                               \
    "tutti: the elements have references or const members, which cannot be received: send "       \
    "values, or see tutti::moves_as_bytes",                                                       \
    __VA_ARGS__)
// ... about a buffer whose elements are to be combined, ...
#define TUTTI_ADVICE_ON_NUMBERS(X, ...)                                                       \
  X(no_numbers,                                                                               \
    "tutti: only numbers can be combined, and the elements have no dtype (tutti/dtype.hpp): " \
    "combine them by a tutti::UserOp",                                                        \
    __VA_ARGS__)
// ... about the arguments of a call, ...
#define TUTTI_ADVICE_ON_CALLS(X, ...)                                                              \
  X(pointer, "tutti: a buffer is one argument, with its count: use std::span(pointer, count)",     \
    __VA_ARGS__)                                                                                   \
  X(root_option, "tutti: the root is an option: write {.root = 0}", __VA_ARGS__)                   \
  X(op_option, "tutti: the op is an option: write {.op = tutti::ReduceOp::max}", __VA_ARGS__)      \
  X(tag_option, "tutti: the tag is an option: write {.tag = 7}", __VA_ARGS__)                      \
  X(timeout_option, "tutti: the timeout is an option: write {.timeout = std::chrono::seconds(5)}", \
    __VA_ARGS__)                                                                                   \
  X(counts_option,                                                                                 \
    "tutti: the counts of blocks are options: write {.output_counts = counts}; all_to_all has "    \
    "{.output_splits = from, .input_splits = to}",                                                 \
    __VA_ARGS__)                                                                                   \
  X(other_option, "tutti: all other arguments are options: write {.timeout = ...}", __VA_ARGS__)
// ... and about options.
#define TUTTI_ADVICE_ON_TIMEOUTS(X, ...)                                                   \
  X(timeout_unit, "tutti: a timeout has a unit: write .timeout = std::chrono::seconds(5)", \
    __VA_ARGS__)
#define TUTTI_ADVICE_ON_COUNTS(X, ...) \
  X(counts_type, "tutti: counts are of type std::size_t: use std::vector<std::size_t>", __VA_ARGS__)

// About objects.
#define TUTTI_ADVICE_ON_OBJECTS(X, ...)                                                        \
  X(no_serialiser,                                                                             \
    "tutti: no bytes can be made of this type: specialise tutti::serialise with to_bytes and " \
    "from_bytes (tutti/objects.hpp), or include <tutti/cereal.hpp>",                           \
    __VA_ARGS__)                                                                               \
  X(no_place,                                                                                  \
    "tutti: the operation writes to this object: give it a name, and take its const off",      \
    __VA_ARGS__)

enum class Advice {
  none,     ///< the call is right
  unknown,  ///< other overloads know
  one_value,
  pointer,
  bits,
  not_contiguous,
  temporary,
  const_elements,
  not_trivial,
  addresses,
  not_assignable,
  no_numbers,
  root_option,
  op_option,
  tag_option,
  timeout_option,
  counts_option,
  other_option,
  timeout_unit,
  counts_type,
  no_serialiser,
  no_place,
};

// TUTTI_REFUSE(CALLS, (template parameters), an Advice, declaration): for each advice on calls a
// function that the compiler refuses to call, with the text in the first line of its error, and
// TUTTI_REFUSE_CONVERSION the same for constructors. GCC shows the template arguments of a deleted
// function. clang shows the text of an attribute: diagnose_if does not see every use of a
// constructor, and unavailable says it twice for a function. With -Wpedantic it warns that GCC does
// not know diagnose_if.
#if defined(__clang__)
#define TUTTI_REFUSE_BY(attribute, name, parameters, advice, ...)                             \
  _Pragma("clang diagnostic push")                                                            \
      _Pragma("clang diagnostic ignored \"-Wgcc-compat\"") template <TUTTI_BARE parameters>   \
  requires((advice) == ::tutti::detail::Advice::name) __attribute__((attribute)) __VA_ARGS__; \
  _Pragma("clang diagnostic pop")
#define TUTTI_REFUSE_ONE(name, text, ...) \
  TUTTI_REFUSE_BY(diagnose_if(true, text, "error"), name, __VA_ARGS__)
#define TUTTI_REFUSE_ONE_CONVERSION(name, text, ...) \
  TUTTI_REFUSE_BY(unavailable(text), name, __VA_ARGS__)
#else
template <std::size_t N>
struct Text {
  consteval Text(const char (&text)[N]) {
    for (std::size_t i = 0; i < N; ++i) characters[i] = text[i];
  }
  char characters[N];
};
#define TUTTI_REFUSE_ONE(name, text, parameters, advice, ...)         \
  template <TUTTI_BARE parameters, ::tutti::detail::Text Says = text> \
  requires((advice) == ::tutti::detail::Advice::name) __VA_ARGS__ = delete;
#define TUTTI_REFUSE_ONE_CONVERSION TUTTI_REFUSE_ONE
#endif
#define TUTTI_BARE(...) __VA_ARGS__
#define TUTTI_REFUSE(what, ...) TUTTI_ADVICE_ON_##what(TUTTI_REFUSE_ONE, __VA_ARGS__)
#define TUTTI_REFUSE_CONVERSION(what, ...) \
  TUTTI_ADVICE_ON_##what(TUTTI_REFUSE_ONE_CONVERSION, __VA_ARGS__)

// ---- Elements

template <class T>
consteval Advice advice_on_elements();

/// Converts to every type that is no aggregate, so that one initialises one innermost member.
template <std::size_t>
struct Anything {
  template <class T>
  requires(!std::is_aggregate_v<T>) operator T() const;
};
/// The same, but only to types that may be moved as bytes.
struct Movable {
  template <class T>
  requires(!std::is_aggregate_v<T> && advice_on_elements<T>() == Advice::none) operator T() const;
};

template <class T, class Last, std::size_t... Before>
concept BeginsWith = requires {
  T{Anything<Before>{}..., Last{}};
};

/// True if one of the members of an aggregate behind `Before` may not be moved as bytes. Only the
/// first kMembers are looked at, of which an array of n elements counts as n.
inline constexpr std::size_t kMembers = 16;
template <class T, std::size_t... Before>
consteval bool has_address(std::index_sequence<Before...> /*unused*/) {
  if constexpr (sizeof...(Before) == kMembers || !BeginsWith<T, Anything<0>, Before...>)
    return false;
  else if constexpr (!BeginsWith<T, Movable, Before...>)
    return true;
  else
    return has_address<T>(std::index_sequence<Before..., 0>());
}

/// A class that is made to refer to objects elsewhere.
template <class T>
concept Reference = std::ranges::borrowed_range<T> || std::input_or_output_iterator<T> ||
    requires(const T reference) {
  typename T::type;
  { reference.get() } -> std::same_as<typename T::type&>;
};

/// Advice::none if elements of the type may be moved as bytes, else why not.
template <class T>
consteval Advice advice_on_elements() {
  using Element = std::remove_cv_t<std::remove_all_extents_t<T>>;
  if constexpr (std::is_arithmetic_v<Element> || std::is_enum_v<Element> ||
                dtype_of<Element>().has_value()) {
    return Advice::none;
  } else if constexpr (!std::is_trivially_copyable_v<Element>) {
    return Advice::not_trivial;
  } else if constexpr (moves_as_bytes<Element>) {
    return Advice::none;
  } else if constexpr (!std::is_class_v<Element> && !std::is_union_v<Element>) {
    return Advice::addresses;  // pointers, also to members
  } else if constexpr (Reference<Element>) {
    return Advice::addresses;
  } else if constexpr (!std::is_copy_assignable_v<Element>) {
    return Advice::not_assignable;
  } else {
    if constexpr (requires { typename Element::value_type; }) {  // std::optional
      using Inner = typename Element::value_type;
      if constexpr (std::is_pointer_v<Inner> || Reference<Inner>) return Advice::addresses;
    }
    if constexpr (std::is_aggregate_v<Element>) {
      if constexpr (has_address<Element>(std::index_sequence<>())) return Advice::addresses;
    }
    return Advice::none;
  }
}

// ---- Buffers

template <class R>
using element_t = std::remove_reference_t<std::ranges::range_reference_t<R>>;

template <class R>
inline constexpr bool ends_at_once =
    !std::is_lvalue_reference_v<R> && !std::ranges::borrowed_range<std::remove_cvref_t<R>>;

/// Advice::none if the argument can be a buffer that an operation reads, or with `written` one that
/// it writes to; else why not.
template <class R, bool written>
consteval Advice advice_on_buffer() {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return Advice::one_value;
  } else if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>) {
    return Advice::pointer;
  } else if constexpr (std::same_as<T, std::vector<bool>>) {
    return Advice::bits;
  } else if constexpr (std::derived_from<T, ConstTensorView>) {
    return written && std::same_as<T, ConstTensorView> ? Advice::const_elements : Advice::unknown;
  } else if constexpr (!std::ranges::range<R>) {
    constexpr bool converts = requires(T t) { t.data_handle(); };  // std::mdspan
    return !converts && std::is_trivially_copyable_v<T> ? Advice::not_contiguous : Advice::unknown;
  } else if constexpr (std::derived_from<std::remove_cv_t<element_t<R>>, ConstTensorView>) {
    return Advice::unknown;  // a list of tensors
  } else if constexpr (!std::ranges::contiguous_range<R> || !std::ranges::sized_range<R>) {
    return Advice::not_contiguous;
  } else if constexpr (ends_at_once<R>) {
    return Advice::temporary;
  } else if constexpr (written && std::is_const_v<element_t<R>>) {
    return Advice::const_elements;
  } else {
    return advice_on_elements<element_t<R>>();
  }
}

/// A range of elements that an operation can read, or write to.
template <class R>
concept Readable = (advice_on_buffer<R, false>() == Advice::none);
template <class R>
concept Writable = (advice_on_buffer<R, true>() == Advice::none);

/// A range that owns its elements and ends with the call, which may be enough to read it.
template <class R>
concept ReadableTemporary = (advice_on_buffer<R, false>() == Advice::temporary) && Readable<R&>;

template <class T>
inline constexpr bool is_vector = false;
template <class T, class Allocator>
inline constexpr bool is_vector<std::vector<T, Allocator>> = true;

/// A vector that an operation takes over. (The elements of an array or a short string would move
/// with the object.)
template <class V>
concept OwnedVector = is_vector<V> && Writable<V&>;
template <class V>
concept OwnedNumbers = OwnedVector<V> && bool(dtype_of<element_t<V>>());

/// A range of buffers, such as std::vector<std::vector<float>>, that are no views.
template <class R>
concept BufferList =
    std::ranges::input_range<R> && !ends_at_once<R> &&
    !std::derived_from<std::remove_cvref_t<std::ranges::range_reference_t<R>>, ConstTensorView> &&
    Writable<std::ranges::range_reference_t<R>>;

/// Advice::no_numbers for a buffer whose elements no ReduceOp can combine.
template <class R>
consteval Advice advice_on_numbers() {
  if constexpr (Writable<R>)
    return dtype_of<element_t<R>>().has_value() ? Advice::none : Advice::no_numbers;
  else
    return Advice::none;
}

// ---- Calls

/// Looks at the arguments behind the buffers and the rank of a call with these options.
template <class Options>
consteval Advice advice_on_rest() {
  return Advice::none;
}
template <class Options, class Next, class... More>
consteval Advice advice_on_rest() {
  using T = std::remove_cvref_t<Next>;
  if constexpr (std::same_as<T, UserOp>) {
    return advice_on_rest<Options, More...>();
  } else if constexpr (std::integral<T>) {
    if constexpr (requires { &Options::root; }) return Advice::root_option;
    if constexpr (requires { &Options::tag; }) return Advice::tag_option;
    return Advice::other_option;
  } else if constexpr (std::same_as<T, ReduceOp>) {
    if constexpr (requires { &Options::op; }) return Advice::op_option;
    return Advice::other_option;
  } else if constexpr (requires(T given) { given.count(), std::chrono::nanoseconds(given); }) {
    return Advice::timeout_option;
  } else {
    return std::ranges::range<Next> ? Advice::counts_option : Advice::none;
  }
}

template <class T>
concept PerhapsBuffer = std::ranges::range<T> || std::is_pointer_v<std::remove_cvref_t<T>> ||
    std::derived_from<std::remove_cvref_t<T>, ConstTensorView>;

/// The advice on a call with the arguments that MPI has: a pointer and a count, or a root, op or
/// tag that is no option. At most `buffers` arguments are buffers, then there are `ranks` ranks.
template <class Options, int buffers, int ranks>
consteval Advice advice_on_call() {
  return Advice::none;
}
template <class Options, int buffers, int ranks, class First, class... More>
consteval Advice advice_on_call() {
  if constexpr (buffers == 0 && ranks > 0) {
    constexpr bool rank = std::integral<std::remove_cvref_t<First>>;
    return rank ? advice_on_rest<Options, More...>() : Advice::none;
  } else if constexpr (buffers == 0 || !PerhapsBuffer<First>) {
    return advice_on_rest<Options, First, More...>();
  } else if constexpr (std::is_pointer_v<std::remove_cvref_t<First>>) {
    return sizeof...(More) > 0 ? Advice::pointer : Advice::none;
  } else {
    return advice_on_call<Options, buffers - 1, ranks, More...>();
  }
}

// Members of ProcessGroup: calls of `name` on which advice_on_call has an advice, ...
#define TUTTI_REFUSE_CALL(result, name, options, buffers, ranks)                     \
  TUTTI_REFUSE(CALLS, (detail::PerhapsBuffer Buffer, class... Args),                 \
               (detail::advice_on_call<options, buffers, ranks, Buffer, Args...>()), \
               result name(Buffer&& buffer, Args&&... args))                         \
  TUTTI_REFUSE(CALLS, (detail::PerhapsBuffer Buffer, class Next),                    \
               (detail::advice_on_call<options, buffers, ranks, Buffer, Next>()),    \
               result name(Buffer&& buffer, Next&& next, const options&))
// ... on an object that has no bytes, or cannot be written to, ...
#define TUTTI_REFUSE_OBJECT(result, name, written, ...)                      \
  TUTTI_REFUSE(OBJECTS, (class T), (detail::advice_on_object<T, written>()), \
               result name(T&& object, __VA_ARGS__))
// ... and reductions whose output is a range of structs.
#define TUTTI_REFUSE_STRUCTS(name, options)                          \
  TUTTI_REFUSE(NUMBERS, (class R), (detail::advice_on_numbers<R>()), \
               Work name(R&& buffer, const options& = {}))           \
  TUTTI_REFUSE(NUMBERS, (class R), (detail::advice_on_numbers<R>()), \
               Work name(R&& output, const ConstTensorView& input, const options& = {}))

}  // namespace detail
}  // namespace v0
}  // namespace tutti
