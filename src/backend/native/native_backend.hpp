#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/registry.hpp>

#include "backend/native/context.hpp"
#include "transport/first_lost.hpp"

namespace tutti::native {

/// The name of this backend.
inline constexpr std::string_view kName = "native";

/// One group on our own engine.
class NativeBackend final : public Backend, public Operations {
 public:
  /// Makes the group of all ranks, with a context of its own. `first_lost` is asked before an
  /// unreachable rank is blamed (transport/first_lost.hpp); empty: there is nobody to ask.
  [[nodiscard]] static Result<Backend*> make_world(const WorldOptions& options,
                                                   transport::FirstLost first_lost);
  ~NativeBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] int rank() const noexcept override { return group_->rank; }
  [[nodiscard]] int size() const noexcept override { return group_->size; }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  [[nodiscard]] Capabilities capabilities() const noexcept override { return {.probe = true}; }
  Pending submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] std::optional<Received> run(const Collective& call,
                                            Outcome& outcome) noexcept override {
    return context_->driver().run(*group_, call, outcome);
  }
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Received> finish(std::uint64_t ticket,
                                               std::optional<std::chrono::nanoseconds> limit,
                                               Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] Received received(std::uint64_t ticket) noexcept override;
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) noexcept override;
  Received release(std::uint64_t ticket) noexcept override;
  [[nodiscard]] Result<bool> cancel(std::uint64_t ticket) noexcept override;
  [[nodiscard]] bool wait_any(std::span<const Pending> ones,
                              std::optional<std::chrono::nanoseconds> limit,
                              std::vector<std::size_t>& ended) noexcept override;
  [[nodiscard]] std::string describe(std::uint64_t ticket) noexcept override;
  void abort(const Outcome& cause) noexcept override;
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override;
  void set_owner(Backend& owner) noexcept override { set_group(owner); }
  void close(std::chrono::nanoseconds drain) noexcept override;
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override;
  [[nodiscard]] std::string location(int rank) const override;

 private:
  [[nodiscard]] Result<Backend*> make_of(std::span<const int> ranks, const std::string& which,
                                         std::string name, bool recorded);
  NativeBackend(std::shared_ptr<Context> context, engine::Group* group)
      : Operations(static_cast<Backend&>(*this)), context_(std::move(context)), group_(group) {}
  [[nodiscard]] static Result<NativeBackend*> make(std::shared_ptr<Context> context,
                                                   const engine::GroupSpec& spec);

  std::shared_ptr<Context> context_;
  engine::Group* group_;  ///< owned by the engine; removed by our destructor
};

/// For the list of backends.
[[nodiscard]] BackendFactory factory();

}  // namespace tutti::native
