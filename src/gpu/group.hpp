#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/error.hpp>

#include "backend/foreign/operation_list.hpp"
#include "gpu/operation.hpp"
#include "gpu/router.hpp"
#include "os/cpu.hpp"

namespace tutti::gpu {

/// The operations of one group of this rank that have GPU tensors, and CPU operations that must
/// wait for them because the host backend gets all calls in order: their tickets, their turns and
/// their ends. The Router gives each a Path, which moves the elements.
///
/// Hosts order everything: waiting callers and a thread poll events and host calls, so nothing on a
/// GPU ever waits for another rank.
/// Threads: every method from any thread.
class GpuGroup final : public Operations, public cuda::Progressable {
 public:
  /// Takes over a reference of the host backend. Call `leave` before `gpus` is destroyed.
  GpuGroup(Backend& owner, GpuSet& gpus, Backend* host, std::string name)
      : Operations(owner),
        gpus_(gpus),
        ranks_(gpus, host, std::move(name)),
        oversubscribed_(host->size() > os::usable_cpus()) {}
  ~GpuGroup() override {
    if (!left_) leave();
  }

  /// True if an operation has host calls that are not submitted yet: later calls may have to wait.
  [[nodiscard]] bool has_waiting() const noexcept { return ranks_.has_waiting(); }
  /// Begins a call, here or on NCCL. A call that cannot begin is an operation that has failed.
  [[nodiscard]] Pending submit(const Collective& call, bool asynchronous) noexcept;
  /// Without a limit: waits until the caller's stream is ordered behind the operation. With a
  /// limit: waits until the result is on the GPU; false: not within the limit.
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] Result<bool> cancel(std::uint64_t ticket) noexcept override;
  [[nodiscard]] Received received(std::uint64_t ticket) noexcept override;
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t /*ticket*/) noexcept override {
    return std::nullopt;  // the host backend has all probes
  }
  Received release(std::uint64_t ticket) noexcept override;
  void abort(const Outcome& cause);
  [[nodiscard]] Outcome health();
  /// See Backend::set_owner.
  void set_owner(Backend& owner) noexcept;
  /// Waits until all earlier calls are submitted, whose number is part of a new group's id. Bounded
  /// by the timeouts of those calls.
  void submit_all();
  /// Ends all operations and gives everything back. May wait for operations of NCCL.
  void leave() noexcept;

  Progress make_progress(std::vector<cuda::Due>& due) override;

 private:
  void progress();
  void go_on(GpuOperation& op, Step step, TimePoint now);
  void end(GpuOperation& op, Outcome outcome);
  void break_with(const Outcome& cause);

  GpuSet& gpus_;
  PeerGroup ranks_;
  Router router_{ranks_};
  std::vector<cuda::Due> due_;
  foreign::OperationList<GpuOperation> operations_{due_};
  std::vector<GpuOperation*> closing_;  ///< done, but something still uses their memory
  bool left_ = false;
  const bool oversubscribed_;     ///< more ranks than CPUs: waiting callers yield
  std::uint64_t steps_ = 0;       ///< counts the progress of operations
  std::uint64_t steps_seen_ = 0;  ///< the count at the last `make_progress`
  TimePoint next_health_{};       ///< when `progress` asks for the host backend's health again
};

}  // namespace tutti::gpu
