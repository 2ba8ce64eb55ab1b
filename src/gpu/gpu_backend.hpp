#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/backend/backend.hpp>

#include "gpu/group.hpp"

namespace tutti::gpu {

/// The name of the backend of a group that may choose NCCL for its collectives.
inline constexpr std::string_view kAgreed = "auto";

/// A backend around a host backend. It takes tensors of GPUs, too, and chooses a path for each of
/// their calls. Calls with tensors of the CPU go to the host backend as they are, unless a call
/// with GPU tensors before them still waits for its stream.
class GpuBackend final : public Backend {
 public:
  /// Takes over a reference of the host backend. `name`: the group's name.
  [[nodiscard]] static Backend* make(Backend* cpus, std::string name, GpuSet::Source source,
                                     const DirectOptions& direct = {}, NcclOptions nccl = {});
  ~GpuBackend() override { group_->leave(); }

  [[nodiscard]] std::string_view name() const noexcept override {
    return gpus_->nccl().make ? kAgreed : cpus_.name();
  }
  [[nodiscard]] int rank() const noexcept override { return cpus_.rank(); }
  [[nodiscard]] int size() const noexcept override { return cpus_.size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  [[nodiscard]] Capabilities capabilities() const noexcept override { return cpus_.capabilities(); }
  Pending submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] std::optional<Received> run(const Collective& call,
                                            Outcome& outcome) noexcept override;
  void abort(const Outcome& cause) noexcept override { group_->abort(cause); }
  [[nodiscard]] Outcome health() noexcept override { return group_->health(); }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return cpus_.make_among(ranks, tag, std::move(name));  // CPU tensors only
  }
  void set_owner(Backend& owner) noexcept override { group_->set_owner(owner); }
  void close(std::chrono::nanoseconds drain) noexcept override { cpus_.close(drain); }
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override {
    return cpus_.allocate(bytes);
  }
  [[nodiscard]] std::string location(int rank) const override { return cpus_.location(rank); }

 private:
  GpuBackend(std::shared_ptr<GpuSet> gpus, Backend* cpus, std::string name);
  [[nodiscard]] bool is_for_cpus(const Collective& call) const noexcept;

  Backend& cpus_;  ///< the group has the reference
  std::shared_ptr<GpuSet> gpus_;
  std::shared_ptr<GpuGroup> group_;
};

}  // namespace tutti::gpu
