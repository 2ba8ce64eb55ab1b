#include "group/forked_backend.hpp"

#include "base/forks.hpp"

namespace tutti::group {

ForkedBackend& ForkedBackend::get() noexcept {
  static auto* const kForked = new ForkedBackend;  // never destroyed
  return *kForked;
}

Pending ForkedBackend::submit(const Collective& /*call*/, bool /*asynchronous*/) noexcept {
  return {this, 0};
}

Outcome ForkedBackend::health() noexcept { return base::forked_status(); }

Result<Backend*> ForkedBackend::make_child(std::span<const int> /*ranks*/,
                                           std::string /*name*/) noexcept {
  return base::forked_status();
}

Result<Backend*> ForkedBackend::make_among(std::span<const int> /*ranks*/, std::string_view /*tag*/,
                                           std::string /*name*/) noexcept {
  return base::forked_status();
}

Result<std::shared_ptr<std::byte>> ForkedBackend::allocate(std::size_t /*bytes*/) noexcept {
  return base::forked_status();
}

std::string ForkedBackend::location(int /*rank*/) const { return "a forked child"; }

bool ForkedBackend::wait(std::uint64_t /*ticket*/,
                         std::optional<std::chrono::nanoseconds> /*limit*/,
                         Outcome& outcome) noexcept {
  outcome = base::forked_status();
  return true;
}

std::optional<Outcome> ForkedBackend::poll(std::uint64_t /*ticket*/) noexcept {
  return base::forked_status();
}

Result<bool> ForkedBackend::cancel(std::uint64_t /*ticket*/) noexcept {
  return base::forked_status();
}

void ForkedBackend::on_done(std::uint64_t /*ticket*/, Callback callback) noexcept {
  if (callback.function != nullptr) callback.function(callback.context, base::forked_status());
}

}  // namespace tutti::group
