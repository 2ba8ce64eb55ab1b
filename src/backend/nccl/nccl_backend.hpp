#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/registry.hpp>

#include "backend/nccl/group.hpp"
#include "backend/nccl/world.hpp"

namespace tutti::nccl {

/// The name of this backend.
inline constexpr std::string_view kName = "nccl";

/// One group on NCCL.
class NcclBackend final : public Backend, public Operations {
 public:
  /// The group of all ranks. Makes the mesh; NCCL is not asked before the first operation.
  [[nodiscard]] static Result<Backend*> make_world(Api& nccl, CudaApi& cuda,
                                                   const WorldOptions& options);
  /// The same over a mesh that the caller has made. Takes over its reference.
  [[nodiscard]] static Result<Backend*> make_gpu_group(Api& nccl, CudaApi& cuda, Backend* mesh,
                                                       const WorldOptions& options);
  ~NcclBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] int rank() const noexcept override { return group_->rank(); }
  [[nodiscard]] int size() const noexcept override { return group_->size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  [[nodiscard]] Capabilities capabilities() const noexcept override { return {}; }
  Pending submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] Received received(std::uint64_t ticket) noexcept override;
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t /*ticket*/) noexcept override {
    return std::nullopt;
  }
  Received release(std::uint64_t ticket) noexcept override;
  void abort(const Outcome& cause) noexcept override;
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> /*ranks*/,
                                            std::string_view /*tag*/,
                                            std::string /*name*/) noexcept override {
    return no_group_among();
  }
  void set_owner(Backend& owner) noexcept override { set_group(owner); }
  void close(std::chrono::nanoseconds drain) noexcept override;
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override {
    return ordinary_memory(bytes);
  }
  [[nodiscard]] std::string location(int rank) const override;

 private:
  NcclBackend(std::shared_ptr<NcclWorld> world, std::shared_ptr<NcclGroup> group)
      : Operations(static_cast<Backend&>(*this)),
        world_(std::move(world)),
        group_(std::move(group)) {
    world_->progress_thread().add(group_);
  }

  std::shared_ptr<NcclWorld> world_;
  std::shared_ptr<NcclGroup> group_;
};

/// For the list of backends: on the NCCL of this machine.
[[nodiscard]] BackendFactory factory();

}  // namespace tutti::nccl
