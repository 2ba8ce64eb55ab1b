#pragma once

#include <tutti/backend/backend.hpp>

namespace tutti::group {

/// Stands in a forked child for all groups that its parent made: whatever is asked of them fails,
/// and nothing of theirs is touched. So no backend needs to know of forks.
class ForkedBackend final : public Backend, public Operations {
 public:
  /// The one of the process.
  [[nodiscard]] static ForkedBackend& get() noexcept;

  [[nodiscard]] std::string_view name() const noexcept override { return "forked"; }
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  /// `submit` tells the error.
  [[nodiscard]] Capabilities capabilities() const noexcept override { return {.probe = true}; }
  [[nodiscard]] std::string unsupported(const Collective& /*call*/) const override { return {}; }
  Pending submit(const Collective& call, bool asynchronous) noexcept override;
  void abort(const Outcome& /*cause*/) noexcept override {}
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override;
  void set_owner(Backend& /*owner*/) noexcept override {}
  void close(std::chrono::nanoseconds /*drain*/) noexcept override {}
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override;
  [[nodiscard]] std::string location(int rank) const override;

  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] Result<bool> cancel(std::uint64_t ticket) noexcept override;
  [[nodiscard]] Received received(std::uint64_t /*ticket*/) noexcept override { return {}; }
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t /*ticket*/) noexcept override {
    return std::nullopt;
  }
  Received release(std::uint64_t /*ticket*/) noexcept override { return {}; }

 private:
  ForkedBackend() : Operations(static_cast<Backend&>(*this)) {}
};

}  // namespace tutti::group
