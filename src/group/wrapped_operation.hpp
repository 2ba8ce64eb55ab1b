#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <tutti/backend/operations.hpp>

namespace tutti {
inline namespace v0 {

/// One operation around another one, which has its ticket: a class that derives from it changes how
/// the operation ends.
///
/// Lifetime: from `wrap` on until its ticket is released.
class WrappedOperation : public Operations {
 public:
  /// Of an operation of that backend.
  explicit WrappedOperation(Backend& backend) noexcept : Operations(backend) {}

  /// Puts one around an operation that was submitted. The memory for it is there before that.
  [[nodiscard]] static Pending wrap(std::unique_ptr<WrappedOperation> one,
                                    const Pending& inner) noexcept {
    one->inner_ = inner;
    one->set_group(inner.operations->group());
    return {one.release(), inner.ticket};
  }

  [[nodiscard]] bool wait(std::uint64_t /*ticket*/, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override {
    return inner_.wait(limit, outcome);
  }
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t /*ticket*/) noexcept override {
    return inner_.poll();
  }
  void on_done(std::uint64_t /*ticket*/, Callback callback) noexcept override {
    inner_.on_done(callback);
  }
  [[nodiscard]] Received received(std::uint64_t /*ticket*/) noexcept override {
    return inner_.received();
  }
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t /*ticket*/) noexcept override {
    return inner_.probed();
  }
  [[nodiscard]] Result<bool> cancel(std::uint64_t /*ticket*/) noexcept override {
    return inner_.operations->cancel(inner_.ticket);
  }
  [[nodiscard]] std::string describe(std::uint64_t /*ticket*/) noexcept override {
    return inner_.operations->describe(inner_.ticket);
  }
  Received release(std::uint64_t /*ticket*/) noexcept override {
    const Received received = inner_.release();
    delete this;
    return received;
  }

 protected:
  [[nodiscard]] const Pending& inner() const noexcept { return inner_; }

 private:
  Pending inner_;
};

}  // namespace v0
}  // namespace tutti
