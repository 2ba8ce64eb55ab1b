#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tutti/arguments.hpp>
#include <tutti/dtype.hpp>
#include <tutti/executor.hpp>
#include <tutti/export.hpp>
#include <tutti/tensor.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

enum class Kind : std::uint8_t;

/// A reduce op of the caller's, for all_reduce, reduce, reduce_scatter and scan of a ProcessGroup;
/// MPI has MPI_Op_create. Inputs are combined in the order of the ranks, one after the other, so an
/// op need be neither commutative nor associative. Copies mean the same op.
///
/// Name:     all ranks of a call must give an op of the same name and block, else the call is a
///           DisagreementError. The library cannot compare the functions.
/// Threads:  when the inputs of all ranks have come, the function runs on the thread that waits for
///           the Work or asks whether it is done, or in the executor of the call; where neither
///           does, but a callback was registered or the Work was detached, on the thread that makes
///           the callbacks. It holds no lock of the library: it may start operations and wait for
///           them, but not for its own. Ranks that are threads run it at the same time, so it must
///           not change what it shares with them.
/// Errors:   an exception of the function fails the operation on that rank: `wait` throws it, the
///           output stays as it was. Other ranks get their results, and the group goes on.
class UserOp {
 public:
  /// Makes result = result op next, element by element: `result` has the values of the lower
  /// ranks. Both are contiguous, of the dtype of the call and of as many elements, a multiple of
  /// the block; which elements come in one call is not said. The memory ends with the call.
  using Function = std::function<void(const TensorView& result, const TensorView& next)>;
  /// The alignment of both, in bytes.
  static constexpr std::size_t kAlignment = 64;

  /// `block`: so many elements that follow each other are combined together (4: matrices of 2 x 2)
  /// and never divided. InvalidArgument if the name is empty, the function is, or the block is 0.
  UserOp(std::string name, Function function, std::size_t block = 1);

  /// An op on values of one C++ type: numbers, or any trivially copyable struct, which moves as its
  /// bytes. `combine(a, b)` gives the result; calls with another dtype are refused.
  template <class T, class Combine>
  requires std::is_trivially_copyable_v<T> &&
      std::is_invocable_r_v<T, const Combine&, const T&, const T&>
  [[nodiscard]] static UserOp of(std::string name, Combine combine) {
    static_assert(alignof(T) <= kAlignment,
                  "UserOp::of: the type is aligned to more than 64 bytes, as the memory of the "
                  "function's arguments is not: use a type without such an alignas");
    constexpr std::optional<DType> kDType = dtype_of<T>();
    UserOp op(
        std::move(name),
        [combine = std::move(combine)](const TensorView& result, const TensorView& next) {
          T* const to = static_cast<T*>(result.data());
          const T* const from = static_cast<const T*>(next.data());
          const std::size_t count = result.size_bytes() / sizeof(T);
          for (std::size_t i = 0; i < count; ++i) to[i] = combine(std::as_const(to[i]), from[i]);
        },
        kDType ? 1 : sizeof(T));
    op.dtype_ = kDType.value_or(DType::uint8);
    return op;
  }

  [[nodiscard]] std::string_view name() const noexcept;  ///< what ranks compare
  [[nodiscard]] std::size_t block() const noexcept;      ///< elements that are combined together
  /// The only dtype that it combines; absent: any.
  [[nodiscard]] std::optional<DType> dtype() const noexcept { return dtype_; }
  /// Calls the function.
  void combine(const TensorView& result, const TensorView& next) const;

 private:
  friend class UserReduction;
  /// The number that ranks compare in a reduction of this kind by it.
  [[nodiscard]] std::uint64_t id(Kind kind) const noexcept;

  struct State;
  std::shared_ptr<const State> state_;
  std::optional<DType> dtype_;
};

/// Truth of numbers, as MPI_LAND: 1 where the values of all ranks are not 0, else 0. A rank that is
/// alone in the reduction keeps its values. (For `bool` ReduceOp::band and bor do this, and take no
/// memory for the inputs.)
template <class T>
[[nodiscard]] UserOp logical_and() {
  return UserOp::of<T>("logical_and",
                       [](const T& a, const T& b) { return static_cast<T>(a != T{} && b != T{}); });
}
/// As MPI_LOR: 1 where the value of any rank is not 0, else 0.
template <class T>
[[nodiscard]] UserOp logical_or() {
  return UserOp::of<T>("logical_or",
                       [](const T& a, const T& b) { return static_cast<T>(a != T{} || b != T{}); });
}

/// A value and where it is: the elements of `min_loc` and `max_loc`.
template <class T>
struct ValueAt {
  T value;
  int at;  ///< mostly the rank
};
/// The least value and where it is, as MPI_MINLOC; of equal values the lowest `at`. A NaN is never
/// chosen, unless rank 0 has it. Buffers are ranges of ValueAt<T>.
template <class T>
[[nodiscard]] UserOp min_loc() {
  return UserOp::of<ValueAt<T>>(
      "min_loc of " + std::string(to_string(dtype_of<T>().value())),
      [](const ValueAt<T>& a, const ValueAt<T>& b) {
        return b.value < a.value || (b.value == a.value && b.at < a.at) ? b : a;
      });
}
/// The greatest value and where it is, as MPI_MAXLOC; otherwise as min_loc.
template <class T>
[[nodiscard]] UserOp max_loc() {
  return UserOp::of<ValueAt<T>>(
      "max_loc of " + std::string(to_string(dtype_of<T>().value())),
      [](const ValueAt<T>& a, const ValueAt<T>& b) {
        return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
      });
}

/// Options of an all_reduce or reduce_scatter by a UserOp.
struct UserOpOptions {
  /// The limit for the inputs to arrive, more than 0; absent: the group's. The op's function has no
  /// limit.
  Timeout timeout = {};
  /// Where the function runs, as soon as the inputs have come; absent: see UserOp, Threads.
  Executor executor = {};
  /// For bindings: runs the function when the inputs have arrived and no thread waits, so that user
  /// code does not run on the progress thread. It may drop the task. Absent: the progress thread
  /// runs the function. With this or an executor the inputs move even if no thread waits or polls.
  Executor unattended = {};
};

/// Options of a reduce by a UserOp.
struct UserReduceOptions {
  int root = 0;  ///< the rank that gets the result
  Timeout timeout = {};
  Executor executor = {};    ///< as UserOpOptions has it
  Executor unattended = {};  ///< as UserOpOptions has it
};

/// Options of a scan by a UserOp.
struct UserScanOptions {
  bool exclusive = false;  ///< as ScanOptions has it
  Timeout timeout = {};
  Executor executor = {};    ///< as UserOpOptions has it
  Executor unattended = {};  ///< as UserOpOptions has it
};

}  // namespace v0
}  // namespace tutti
