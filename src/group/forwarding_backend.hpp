#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/backend/backend.hpp>

namespace tutti {

/// Stands for a group's backend in the Work of one call, and passes everything on to it: a class
/// that derives from it changes how the call ends. Holds a reference of that backend.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(Backend& backend) : backend_(backend) { backend_.add_reference(); }
  ForwardingBackend(const ForwardingBackend&) = delete;
  ForwardingBackend& operator=(const ForwardingBackend&) = delete;
  ~ForwardingBackend() override { backend_.drop_reference(); }

  [[nodiscard]] std::string_view name() const noexcept override { return backend_.name(); }
  [[nodiscard]] int rank() const noexcept override { return backend_.rank(); }
  [[nodiscard]] int size() const noexcept override { return backend_.size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    return backend_.unsupported(call);
  }
  std::uint64_t submit(const Collective& call, bool asynchronous) noexcept override {
    return backend_.submit(call, asynchronous);
  }
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override {
    return backend_.wait(ticket, limit, outcome);
  }
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override {
    return backend_.poll(ticket);
  }
  void on_done(std::uint64_t ticket, Callback callback) noexcept override {
    backend_.on_done(ticket, callback);
  }
  [[nodiscard]] int source(std::uint64_t ticket) noexcept override {
    return backend_.source(ticket);
  }
  int release(std::uint64_t ticket) noexcept override { return backend_.release(ticket); }
  void abort(const Outcome& cause) noexcept override { backend_.abort(cause); }
  [[nodiscard]] Outcome health() noexcept override { return backend_.health(); }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    return backend_.make_child(ranks, std::move(name));
  }
  void close(std::chrono::nanoseconds drain) noexcept override { backend_.close(drain); }
  [[nodiscard]] std::string location(int rank) const override { return backend_.location(rank); }
  [[nodiscard]] std::optional<std::uintptr_t> communicator() const noexcept override {
    return backend_.communicator();
  }

 protected:
  [[nodiscard]] Backend& backend() const noexcept { return backend_; }

 private:
  Backend& backend_;
};

}  // namespace tutti
