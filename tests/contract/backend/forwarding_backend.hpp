#pragma once

#include <optional>
#include <string>

#include <tutti/backend/backend.hpp>

#include "group/wrapped_operation.hpp"

namespace tutti::test {

/// An operation whose good end is looked at before the caller is told.
class WatchedOperation : public WrappedOperation {
 public:
  using WrappedOperation::WrappedOperation;
  [[nodiscard]] bool wait(std::uint64_t /*ticket*/, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override {
    if (!inner().wait(limit, outcome)) return false;
    if (outcome.ok()) ended_well();
    return true;
  }
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t /*ticket*/) noexcept override {
    std::optional<Outcome> outcome = inner().poll();
    if (outcome && outcome->ok()) ended_well();
    return outcome;
  }

 protected:
  virtual void ended_well() noexcept = 0;
};

/// A backend that hands every call on to another one. Tests override what they look at.
class ForwardingBackend : public Backend {
 public:
  /// Takes over a reference.
  explicit ForwardingBackend(Backend* inner) : inner_(inner) { inner_->set_owner(*this); }
  ~ForwardingBackend() override { inner_->drop_reference(); }

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    return inner_->unsupported(call);
  }
  [[nodiscard]] Capabilities capabilities() const noexcept override {
    return inner_->capabilities();
  }
  Pending submit(const Collective& call, bool asynchronous) noexcept override {
    return inner_->submit(call, asynchronous);
  }
  void abort(const Outcome& cause) noexcept override { inner_->abort(cause); }
  [[nodiscard]] Outcome health() noexcept override { return inner_->health(); }
  void set_owner(Backend& owner) noexcept override { inner_->set_owner(owner); }
  void close(std::chrono::nanoseconds drain) noexcept override { inner_->close(drain); }
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override {
    return inner_->allocate(bytes);
  }
  [[nodiscard]] std::string location(int rank) const override { return inner_->location(rank); }

 protected:
  [[nodiscard]] Backend& inner() const noexcept { return *inner_; }
  /// A group that was made of this one, if this rank is in it, by `wrap`.
  template <class Wrap>
  static Result<Backend*> around(Result<Backend*> made, const Wrap& wrap) {
    if (!made || *made == nullptr) return made;
    return static_cast<Backend*>(wrap(*made));
  }

 private:
  Backend* inner_;
};

}  // namespace tutti::test
