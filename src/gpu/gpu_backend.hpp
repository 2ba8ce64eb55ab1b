#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/backend/backend.hpp>

#include "base/forks.hpp"
#include "gpu/group.hpp"

namespace tutti::gpu {

/// The name of the backend of a group that may choose NCCL for its collectives.
inline constexpr std::string_view kAgreed = "auto";

/// A group on a host backend that also takes GPU tensors. Calls with CPU tensors go to the host
/// backend unchanged, unless an earlier GPU call still waits for its stream.
class GpuBackend final : public Backend {
 public:
  /// Takes over a reference of the host backend. `name`: the group's name.
  [[nodiscard]] static Backend* make(Backend* cpus, std::string name, Gpus::Source source,
                                     const DirectOptions& direct = {}, NcclOptions nccl = {});
  ~GpuBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override {
    return gpus_->nccl().make ? kAgreed : cpus_.name();
  }
  [[nodiscard]] int rank() const noexcept override { return cpus_.rank(); }
  [[nodiscard]] int size() const noexcept override { return cpus_.size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  std::uint64_t submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] int source(std::uint64_t ticket) noexcept override;
  [[nodiscard]] bool can_probe() const noexcept override { return cpus_.can_probe(); }
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) noexcept override {
    return cpus_.probed(ticket);
  }
  int release(std::uint64_t ticket) noexcept override;
  void abort(const Outcome& cause) noexcept override;
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return cpus_.make_among(ranks, tag, std::move(name));  // CPU tensors only
  }
  void close(std::chrono::nanoseconds drain) noexcept override { cpus_.close(drain); }
  [[nodiscard]] std::string location(int rank) const override { return cpus_.location(rank); }
  [[nodiscard]] std::optional<std::uintptr_t> communicator() const noexcept override {
    return cpus_.communicator();
  }

 private:
  GpuBackend(std::shared_ptr<Gpus> gpus, Backend* cpus, std::string name);
  [[nodiscard]] bool forked() const noexcept { return forks_ != base::fork_generation(); }

  const std::uint64_t forks_ = base::fork_generation();
  Backend& cpus_;  ///< `group_` holds the reference
  std::shared_ptr<Gpus> gpus_;
  std::shared_ptr<Group> group_;
};

}  // namespace tutti::gpu
