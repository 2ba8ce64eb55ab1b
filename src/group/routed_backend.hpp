#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/registry.hpp>

namespace tutti::group {

/// A name of backends by device, "cpu:native,cuda:nccl"; `cuda` is empty in a name of one backend.
struct Route {
  std::string cpu;
  std::string cuda;
  bool agreed = false;  ///< "auto": native, and each group agrees whether NCCL takes collectives
};

/// Takes such a name apart. Of one backend, or the same for all devices: that one in `cpu`.
/// Errors: invalid_argument for a device that there is not, or twice.
[[nodiscard]] Result<Route> route_of(std::string_view name);

/// One group on two backends, which have the same ranks: tensors of the CPU go to the one, those of
/// a GPU to the other. Calls without a tensor are the CPUs', but new groups are made on both.
class RoutedBackend final : public Backend {
 public:
  /// The group of all ranks: on our own engine, and on the backend of `cuda` beside it.
  [[nodiscard]] static Result<Backend*> make_world(Backend* cpus, const BackendFactory& cuda,
                                                   std::string name, const WorldOptions& options);
  ~RoutedBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] int rank() const noexcept override { return cpus_->rank(); }
  [[nodiscard]] int size() const noexcept override { return cpus_->size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  std::uint64_t submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] int source(std::uint64_t ticket) noexcept override;
  [[nodiscard]] bool can_probe() const noexcept override { return cpus_->can_probe(); }
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) noexcept override {
    return cpus_->probed(ticket);
  }
  int release(std::uint64_t ticket) noexcept override;
  void abort(const Outcome& cause) noexcept override;
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return cpus_->make_among(ranks, tag, std::move(name));  // for memory of the host
  }
  void close(std::chrono::nanoseconds drain) noexcept override;
  [[nodiscard]] std::string location(int rank) const override { return cpus_->location(rank); }

 private:
  /// The ticket of a call on both.
  struct Both {
    std::uint64_t cpus = 0;
    std::uint64_t gpus = 0;
  };

  RoutedBackend(Backend* cpus, Backend* gpus, std::string name)
      : cpus_(cpus), gpus_(gpus), name_(std::move(name)) {}
  [[nodiscard]] Both both_of(std::uint64_t ticket);

  Backend* cpus_;  ///< a reference is held, and so of `gpus_`
  Backend* gpus_;
  std::string name_;
  std::mutex mutex_;
  std::map<std::uint64_t, Both> both_;  ///< by ticket
  std::uint64_t next_ = 0;
};

}  // namespace tutti::group
