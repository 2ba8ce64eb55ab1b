#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>

#include "gil.hpp"
#include "group.hpp"

namespace tutti::python {

/// The backend of a group that other code has made and may still hold, under the name that was
/// asked for. It keeps the group alive, and the group closes its own backend once.
class LentBackend final : public Backend {
 public:
  LentBackend(std::string name, Group lender)
      : name_(std::move(name)), lender_(std::move(lender)), inner_(GroupAccess::backend(*lender_)) {
    inner_.add_reference();
  }
  /// A child of a lent group: takes over the reference.
  LentBackend(std::string name, Backend& child) : name_(std::move(name)), inner_(child) {}
  ~LentBackend() override { inner_.drop_reference(); }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] int rank() const noexcept override { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_.size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    return inner_.unsupported(call);
  }
  [[nodiscard]] Capabilities capabilities() const noexcept override {
    return inner_.capabilities();
  }
  Pending submit(const Collective& call, bool asynchronous) noexcept override {
    return inner_.submit(call, asynchronous);
  }
  [[nodiscard]] std::optional<Received> run(const Collective& call,
                                            Outcome& outcome) noexcept override {
    return inner_.run(call, outcome);
  }
  void abort(const Outcome& cause) noexcept override { inner_.abort(cause); }
  [[nodiscard]] Outcome health() noexcept override { return inner_.health(); }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    Result<Backend*> child = inner_.make_child(ranks, std::move(name));
    if (!child || *child == nullptr) return child;
    return new LentBackend(name_, **child);
  }
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    Result<Backend*> made = inner_.make_among(ranks, tag, std::move(name));
    if (!made) return made;
    return new LentBackend(name_, **made);
  }
  void set_owner(Backend& owner) noexcept override { inner_.set_owner(owner); }
  void close(std::chrono::nanoseconds drain) noexcept override {
    if (lender_ == nullptr) return inner_.close(drain);
    if (!nanobind::is_alive()) {  // the interpreter has ended: leak the group
      (void)new Group(std::move(lender_));
      return;
    }
    const WithGil locked;  // `share` lets go of it
    lender_.reset();
  }
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override {
    return inner_.allocate(bytes);
  }
  [[nodiscard]] std::string location(int rank) const override { return inner_.location(rank); }

 private:
  const std::string name_;
  Group lender_;  ///< null for a child
  Backend& inner_;
};

}  // namespace tutti::python
