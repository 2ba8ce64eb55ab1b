#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The kind of an error. The exception class follows from it (see `raise`).
enum class Errc : unsigned char {
  ok,
  invalid_argument,  ///< the caller's mistake; nothing was sent, the group is usable
  disagreement,      ///< ranks called different things at the same place; group broken
  timeout,           ///< a deadline passed; group broken
  peer_lost,         ///< a process died or its connection broke; group broken
  peer_left,         ///< a process ended or destroyed its group before we were served
  refused,           ///< no connection, wrong secret, wrong job or a foreign protocol
  store,             ///< the store is gone or answered nonsense
  interrupted,       ///< Ctrl-C in a blocking call; group broken
  aborted,           ///< a rank aborted the group or left its calls by an exception; this rank
                     ///< destroyed the group while an operation ran (the others get peer_left); a
                     ///< UserOp's function threw (Outcome::thrown)
  resource,          ///< the system refused memory, descriptors or threads
  unsupported,       ///< this build or backend cannot do it
  internal,          ///< our bug
  excluded,          ///< reserved, nothing gives it yet: the others went on without this rank
  no_quorum,         ///< reserved, nothing gives it yet: too few ranks are left to go on
};

/// Name of a code, e.g. "peer_lost".
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// A result without a value: ok, or a code and a message. Cheap to copy; ok costs no allocation.
class [[nodiscard]] Outcome {
 public:
  Outcome() noexcept = default;
  /// `thrown`: the exception of the program's code that the failure is, which `raise` throws on.
  Outcome(Errc code, std::string message, std::exception_ptr thrown = nullptr)
      : code_(code),
        told_(std::make_shared<const Told>(Told{std::move(message), std::move(thrown)})) {}

  [[nodiscard]] bool ok() const noexcept { return code_ == Errc::ok; }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// The text for people: what, which, who, how long, what to try. Empty when ok.
  [[nodiscard]] std::string_view message() const noexcept {
    return told_ ? std::string_view(told_->message) : std::string_view();
  }
  /// The exception of the program's code (a UserOp's function) that the failure is; null: none is.
  [[nodiscard]] std::exception_ptr thrown() const noexcept {
    return told_ ? told_->thrown : nullptr;
  }
  /// The rank (in the group concerned) that caused it, if one is to blame.
  [[nodiscard]] std::optional<int> culprit() const noexcept { return culprit_; }
  Outcome& with_culprit(int rank) noexcept {
    culprit_ = rank;
    return *this;
  }
  /// True if the library below (MPI) may still read and write the tensors of the failed operation,
  /// because it cannot cancel it. Keep them until the process ends.
  [[nodiscard]] bool tensors_in_use() const noexcept { return tensors_in_use_; }
  Outcome& with_tensors_in_use() noexcept {
    tensors_in_use_ = true;
    return *this;
  }

 private:
  struct Told {
    std::string message;
    std::exception_ptr thrown;
  };

  Errc code_ = Errc::ok;
  bool tensors_in_use_ = false;
  std::optional<int> culprit_;
  std::shared_ptr<const Told> told_;
};

/// A value or the Outcome that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Outcome status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  [[nodiscard]] bool ok() const noexcept { return std::holds_alternative<T>(state_); }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T* operator->() { return &value(); }
  [[nodiscard]] Outcome status() const { return ok() ? Outcome() : std::get<1>(state_); }

 private:
  std::variant<T, Outcome> state_;
};

/// Base of everything tutti throws.
class Error : public std::runtime_error {
 public:
  /// Carries an Outcome that is not ok; its message becomes what().
  explicit Error(Outcome status)
      : std::runtime_error(std::string(status.message())), status_(std::move(status)) {}
  [[nodiscard]] Errc code() const noexcept { return status_.code(); }
  /// The rank to blame, if one is.
  [[nodiscard]] std::optional<int> culprit() const noexcept { return status_.culprit(); }
  [[nodiscard]] const Outcome& status() const noexcept { return status_; }

 private:
  Outcome status_;
};

/// The caller's mistake, thrown at the call before anything is sent.
class InvalidArgument : public Error {
  using Error::Error;
};
/// Ranks called different things at the same place in their order.
class DisagreementError : public Error {
  using Error::Error;
};
/// A deadline passed.
class TimeoutError : public Error {
  using Error::Error;
};
/// A peer died, left, or its connection broke or was refused.
class NetworkError : public Error {
  using Error::Error;
};
/// The store failed.
class StoreError : public Error {
  using Error::Error;
};
/// Anything else the backend could not do.
class BackendError : public Error {
  using Error::Error;
};

/// Throws the exception class that belongs to `status.code()`, or the program's own exception
/// (Outcome::thrown). `status` must not be ok.
[[noreturn]] void raise(const Outcome& status);
/// Throws if `status` is not ok.
inline void raise_if(const Outcome& status) {
  if (!status.ok()) [[unlikely]]
    raise(status);
}

}  // namespace v0
}  // namespace tutti
