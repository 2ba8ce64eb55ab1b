#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/registry.hpp>

namespace tutti::group {

/// The backend for each device (torch's BackendConfig), from a name such as "cpu:native,cuda:nccl".
/// `cuda` is empty if one backend takes the tensors of all devices.
struct BackendConfig {
  std::string cpu;
  std::string cuda;
  bool agreed = false;  ///< "auto": native, and each group agrees whether NCCL takes collectives
};

/// Reads such a name. The name of one backend is `cpu`.
/// Errors: invalid_argument for an unknown device, or one that is named twice.
[[nodiscard]] Result<BackendConfig> backend_config_of(std::string_view name);

/// One group on two backends with the same ranks: one runs the calls with tensors of the CPU, the
/// other those with tensors of a GPU. The first one runs calls without a tensor; new groups are
/// made on both.
class PerDeviceBackend final : public Backend {
 public:
  /// The group of all ranks: on `cpus`, and on the backend of `cuda` for tensors of GPUs.
  [[nodiscard]] static Result<Backend*> make_world(Backend* cpus, const BackendFactory& cuda,
                                                   std::string name, const WorldOptions& options);
  ~PerDeviceBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] int rank() const noexcept override { return cpus_->rank(); }
  [[nodiscard]] int size() const noexcept override { return cpus_->size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  [[nodiscard]] Capabilities capabilities() const noexcept override {
    return cpus_->capabilities();
  }
  Pending submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] std::optional<Received> run(const Collective& call,
                                            Outcome& outcome) noexcept override;
  void abort(const Outcome& cause) noexcept override;
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return cpus_->make_among(ranks, tag, std::move(name));  // for memory of the host
  }
  void set_owner(Backend& owner) noexcept override;
  void close(std::chrono::nanoseconds drain) noexcept override;
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override {
    return cpus_->allocate(bytes);
  }
  [[nodiscard]] std::string location(int rank) const override { return cpus_->location(rank); }

 private:
  PerDeviceBackend(Backend* cpus, Backend* gpus, std::string name)
      : cpus_(cpus), gpus_(gpus), name_(std::move(name)) {
    set_owner(*this);
  }

  Backend* cpus_;  ///< a reference is held, and so of `gpus_`
  Backend* gpus_;
  std::string name_;
};

}  // namespace tutti::group
