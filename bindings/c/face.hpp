#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include <tutti/c.h>
#include <tutti/tutti.hpp>

namespace tutti::c {

/// Options shared by all calls of a handle (tutti_options).
struct Settings {
  Timeout timeout = {};
  Device device = {};
  std::optional<std::uintptr_t> stream = {};
};

}  // namespace tutti::c

// The handles that C sees. The names of the group and its backend are kept for their callers.
struct tutti_group {
  explicit tutti_group(tutti::ProcessGroup its, tutti::c::Settings with = {})
      : group(std::move(its)), settings(with), name(group.name()), backend(group.backend()) {}

  tutti::ProcessGroup group;
  tutti::c::Settings settings;
  std::string name;
  std::string backend;
  std::string name_of_groups = {};  ///< those that are made of this handle; empty: made from ranks
};

struct tutti_work {
  tutti::Work work;
};

struct tutti_message {
  tutti::Message message;
  tutti::c::Settings settings;
};

struct tutti_store {
  std::shared_ptr<tutti::Store> store;
};

namespace tutti::c {

/// The error that tutti_error_text and tutti_error_rank tell on this thread.
struct LastError {
  std::string text;
  int rank = -1;
};
extern thread_local LastError last_error;

int failed(Errc code, std::string text, std::optional<int> rank = std::nullopt) noexcept;
/// Of the exception that is being handled.
int failed_by_exception() noexcept;

/// The result of `call`: its exception's.
template <class Call>
int result_of(Call&& call) noexcept {
  try {
    call();
    return TUTTI_OK;
  } catch (...) {
    return failed_by_exception();
  }
}

[[noreturn]] void refuse(std::string text);

/// The object behind a pointer; refuses NULL.
template <class T>
T& at(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string(name) + " is NULL");
  return *pointer;
}

/// The caller's list of `count` elements; refuses NULL, unless it is empty, and a negative count.
template <class T>
std::span<T> list_of(T* list, int count, const char* name) {
  if (count < 0) refuse("the number of " + std::string(name) + " is " + std::to_string(count));
  if (list == nullptr && count > 0) refuse(std::string(name) + " is NULL");
  return {list, static_cast<std::size_t>(count)};
}

inline ProcessGroup& of(tutti_group* group) { return at(group, "the group").group; }
inline const ProcessGroup& of(const tutti_group* group) { return at(group, "the group").group; }
inline std::size_t ranks_of(tutti_group* group) {
  return static_cast<std::size_t>(of(group).size());
}

/// The caller's struct, whose first member is its size; members that an older one lacks are 0.
template <class T>
T struct_of(const T* given, const char* name) {
  T all = {};
  if (given == nullptr) return all;
  if (given->struct_size <= sizeof(std::size_t) || given->struct_size > sizeof(T) ||
      given->struct_size % alignof(T) != 0)
    refuse(std::string(name) + ".struct_size is " + std::to_string(given->struct_size) +
           ": set it to sizeof(" + name + "), at most " + std::to_string(sizeof(T)) +
           " in this version");
  std::memcpy(&all, given, given->struct_size);
  return all;
}

[[noreturn]] void refuse_dtype(int dtype);
[[noreturn]] void refuse_size(std::size_t count, std::size_t blocks);

/// The view of `blocks` blocks. A buffer that is only read is a view as well, which knows no const.
inline TensorView view(const Settings& settings, const void* data, std::size_t count, int dtype,
                       std::size_t blocks = 1) {
  if (dtype < 0 || dtype >= kDTypeCount) refuse_dtype(dtype);
  const auto type = static_cast<DType>(dtype);
  std::size_t all = 0;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, blocks, &all) ||
      __builtin_mul_overflow(all, size_of(type), &bytes))
    refuse_size(count, blocks);
  if (data == nullptr && all > 0) refuse("the buffer is NULL");
  return {const_cast<void*>(data), type, all, settings.device};
}
inline TensorView view(tutti_group* group, const void* data, std::size_t count, int dtype,
                       std::size_t blocks = 1) {
  return view(group->settings, data, count, dtype, blocks);
}

/// Seconds of a timeout; absent: 0 was given.
std::optional<std::chrono::nanoseconds> timeout_of(double seconds);
/// The same where 0 is refused.
std::chrono::nanoseconds positive_timeout_of(double seconds);
/// Seconds that a call waits at most; 0 is right.
std::chrono::nanoseconds limit_of(double seconds);

/// Calls with the stream of the settings, in whose order its operations begin.
template <class Call>
auto on_stream(const Settings& settings, Call&& call) {
  if (!settings.stream) return call();
  const StreamGuard guard(*settings.stream);
  return call();
}

/// Starts the operation; waits for it, or hands it out.
template <class Start>
void run_on(const Settings& settings, tutti_work** work, Start&& start, int* source = nullptr) {
  auto handle = work == nullptr ? nullptr : std::make_unique<tutti_work>();
  Work started = on_stream(settings, start);
  if (work == nullptr) {
    started.wait();
    if (source != nullptr) *source = started.source_rank();
    return;
  }
  handle->work = std::move(started);
  *work = handle.release();
}

/// The result of an operation of a group.
template <class Start>
int run(tutti_group* group, tutti_work** work, Start&& start, int* source = nullptr) noexcept {
  return result_of([&] {
    if (work != nullptr) *work = nullptr;
    (void)of(group);
    run_on(group->settings, work, start, source);
  });
}

/// An op of the library, with its factor.
struct LibraryOp {
  ReduceOp op = ReduceOp::sum;
  std::optional<double> factor = {};
};
/// An op of a call: the library's or the program's.
using AnyOp = std::variant<LibraryOp, UserOp>;

/// An op that the program has made; refuses a number that was not made.
AnyOp made_op_of(int op);
inline AnyOp op_of(int op) {
  if (op >= 0 && op <= TUTTI_BXOR) return LibraryOp{static_cast<ReduceOp>(op), {}};
  return made_op_of(op);
}
/// For calls that take no op of the program: refuses it.
LibraryOp library_op_of(int op);

}  // namespace tutti::c
