#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tutti/buffers.hpp>
#include <tutti/export.hpp>
#include <tutti/options.hpp>
#include <tutti/process_group.hpp>
#include <tutti/serialise.hpp>

// The operations on objects (ProcessGroup::broadcast_object and so on), and how bytes are made of
// an object.
namespace tutti {
inline namespace TUTTI_EXPORT v0 {

// A specialisation for a type of your own:
//
//   template <>
//   struct tutti::serialise<Plan> {
//     static constexpr std::string_view name = "Plan";
//     static std::string to_bytes(const Plan& plan);
//     static Plan from_bytes(std::span<const std::byte> bytes);
//   };
//
// name:       the same for the same type on every rank, so that another type is refused. It may be
//             left out: then it is the compiler's name.
// to_bytes:   returns any contiguous range of bytes or characters, or a view of the object's own.
// from_bytes: gets the bytes of another rank, which may be wrong: it throws if they are no object.
//             `bytes.size()` is what has come, so compare with it what the bytes say of themselves.
// trusts:     a static constexpr bool. True: from_bytes may be harmed by wrong bytes, so the
//             operations are refused where the ranks have not proved that they belong to the job.
//
// <tutti/cereal.hpp> has one for all types that cereal can serialise.

namespace detail {
template <class T>
concept BuiltInElement =
    std::is_default_constructible_v<T> && !std::is_array_v<T> &&
    std::same_as<T, std::remove_cv_t<T>> && advice_on_elements<T>() == Advice::none;

void copy_bytes(std::span<const std::byte> from, void* to) noexcept;
}  // namespace detail

/// Characters.
template <>
struct serialise<std::string> {
  static constexpr std::string_view name = "std::string";  ///< of the type
  /// A view.
  static std::string_view to_bytes(const std::string& text) noexcept;
  /// A copy.
  static std::string from_bytes(std::span<const std::byte> bytes);
};

/// Elements that move as bytes.
template <class T>
requires(detail::BuiltInElement<T> && !std::same_as<T, bool>) struct serialise<std::vector<T>> {
  /// A view.
  static std::span<const std::byte> to_bytes(const std::vector<T>& all) noexcept {
    return std::as_bytes(std::span(all));
  }
  /// Throws unless they are whole elements.
  static std::vector<T> from_bytes(std::span<const std::byte> bytes) {
    if (bytes.size() % sizeof(T) != 0)
      throw std::invalid_argument("they are not a whole number of elements");
    std::vector<T> all(bytes.size() / sizeof(T));
    detail::copy_bytes(bytes, all.data());
    return all;
  }
};

/// One such element.
template <detail::BuiltInElement T>
struct serialise<T> {
  /// A copy.
  static std::array<std::byte, sizeof(T)> to_bytes(const T& object) noexcept {
    std::array<std::byte, sizeof(T)> bytes;
    detail::copy_bytes(std::as_bytes(std::span(&object, 1)), bytes.data());
    return bytes;
  }
  /// Throws unless there are sizeof(T) bytes.
  static T from_bytes(std::span<const std::byte> bytes) {
    if (bytes.size() != sizeof(T)) throw std::invalid_argument("the object has another size");
    if constexpr (std::same_as<T, bool>) return bytes.front() != std::byte{0};
    T object;
    detail::copy_bytes(bytes, &object);
    return object;
  }
};

namespace detail {

/// An operation on objects of one type.
struct ObjectCall {
  ProcessGroup& group;
  std::string_view operation;
  std::string_view type;  ///< its name
  bool mangled;           ///< it is the compiler's
  bool trusts;            ///< its from_bytes needs ranks that have proved who they are
};

template <class T>
[[nodiscard]] ObjectCall object_call(ProcessGroup& group, std::string_view operation) noexcept {
  ObjectCall call{group, operation, typeid(T).name(), true, false};
  if constexpr (requires { std::string_view(serialise<T>::name); }) {
    call.type = serialise<T>::name;
    call.mangled = false;
  }
  if constexpr (requires { bool(serialise<T>::trusts); }) call.trusts = serialise<T>::trusts;
  return call;
}

/// The bytes of an object: to be sent, or as they have come.
struct ObjectBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> memory = {};  ///< theirs; null: the object's own
  std::exception_ptr problem = {};  ///< to_bytes has thrown it; then the bytes are the reason
  int source = 0;                   ///< the rank that sent them
};

/// The reason, which travels in place of an object whose to_bytes has thrown.
[[nodiscard]] ObjectBytes bytes_of(const std::exception_ptr& problem);

template <class T>
[[nodiscard]] ObjectBytes bytes_of_object(const T& object) {
  try {
    decltype(auto) made = serialise<T>::to_bytes(object);
    using Made = std::remove_cvref_t<decltype(made)>;
    if constexpr (std::ranges::borrowed_range<Made> || std::is_reference_v<decltype(made)>) {
      return {std::as_bytes(std::span(std::as_const(made)))};
    } else {
      auto kept = std::make_shared<const Made>(std::move(made));
      return {std::as_bytes(std::span(*kept)), kept};
    }
  } catch (...) {
    return bytes_of(std::current_exception());
  }
}

/// Throws the error about bytes that have come and are no object, in a handler of from_bytes'
/// exception.
[[noreturn]] void refuse_object(const ObjectCall& call, const ObjectBytes& came);

template <class T>
[[nodiscard]] T object_of(const ObjectCall& call, const ObjectBytes& came) {
  try {
    return serialise<T>::from_bytes(came.bytes);
  } catch (...) {
    refuse_object(call, came);
  }
}

template <class T>
[[nodiscard]] std::vector<T> objects_of(const ObjectCall& call,
                                        const std::vector<ObjectBytes>& came) {
  std::vector<T> objects;
  objects.reserve(came.size());
  for (const ObjectBytes& one : came) objects.push_back(object_of<T>(call, one));
  return objects;
}

// The operations on bytes. They throw the exception of to_bytes, and the error of what another rank
// has sent, when this rank has done its part.
[[nodiscard]] ObjectBytes broadcast(const ObjectCall& call, const ObjectBytes& mine,
                                    const BroadcastOptions& options);
[[nodiscard]] std::vector<ObjectBytes> gather(const ObjectCall& call, const ObjectBytes& mine,
                                              const GatherOptions& options);
[[nodiscard]] std::vector<ObjectBytes> all_gather(const ObjectCall& call, const ObjectBytes& mine,
                                                  const AllGatherOptions& options);
[[nodiscard]] ObjectBytes scatter(const ObjectCall& call, std::vector<ObjectBytes> mine,
                                  const ScatterOptions& options);
void send(const ObjectCall& call, const ObjectBytes& mine, int dst, const SendOptions& options);
/// The source may be no_rank: then nothing has come.
[[nodiscard]] ObjectBytes recv(const ObjectCall& call, int src, const RecvOptions& options);

}  // namespace detail

template <detail::Object T>
void ProcessGroup::broadcast_object(T& object, const BroadcastOptions& options) {
  const detail::ObjectCall call = detail::object_call<T>(*this, "broadcast_object");
  const bool root = rank() == options.root;
  const detail::ObjectBytes mine = root ? detail::bytes_of_object(object) : detail::ObjectBytes();
  const detail::ObjectBytes came = detail::broadcast(call, mine, options);
  if (!root) object = detail::object_of<T>(call, came);
}

template <detail::Object T>
std::vector<T> ProcessGroup::gather_object(const T& object, const GatherOptions& options) {
  const detail::ObjectCall call = detail::object_call<T>(*this, "gather_object");
  return detail::objects_of<T>(call,
                               detail::gather(call, detail::bytes_of_object(object), options));
}

template <detail::Object T>
std::vector<T> ProcessGroup::all_gather_object(const T& object, const AllGatherOptions& options) {
  const detail::ObjectCall call = detail::object_call<T>(*this, "all_gather_object");
  return detail::objects_of<T>(call,
                               detail::all_gather(call, detail::bytes_of_object(object), options));
}

template <detail::Object T>
T ProcessGroup::scatter_object(const std::vector<T>& objects, const ScatterOptions& options) {
  const detail::ObjectCall call = detail::object_call<T>(*this, "scatter_object");
  std::vector<detail::ObjectBytes> mine;
  if (rank() == options.root)
    for (const T& one : objects) mine.push_back(detail::bytes_of_object(one));
  return detail::object_of<T>(call, detail::scatter(call, std::move(mine), options));
}

template <detail::Object T>
void ProcessGroup::send_object(const T& object, int dst, const SendOptions& options) {
  const detail::ObjectCall call = detail::object_call<T>(*this, "send_object");
  detail::send(call, detail::bytes_of_object(object), dst, options);
}

template <detail::Object T>
int ProcessGroup::recv_object(T& object, int src, const RecvOptions& options) {
  const detail::ObjectCall call = detail::object_call<T>(*this, "recv_object");
  const detail::ObjectBytes came = detail::recv(call, src, options);
  if (came.source != no_rank) object = detail::object_of<T>(call, came);
  return came.source;
}

}  // namespace v0
}  // namespace tutti
