#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tutti/backend/group_access.hpp>

#include "base/forks.hpp"
#include "group/forked_backend.hpp"

namespace tutti {
inline namespace v0 {

/// The part that the handles of one group share: its backend, and the checks that each call passes.
struct ProcessGroup::Impl : GroupParts {
  explicit Impl(GroupParts parts) : GroupParts(std::move(parts)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (forks != base::fork_generation()) return;  // it is a copy of the parent's
    backend->close(std::chrono::seconds(1));
    backend->drop_reference();
  }

  /// Where calls enter: in a forked child they must not reach the parent's group.
  [[nodiscard]] Backend& entry() const noexcept {
    if (forks != base::fork_generation()) [[unlikely]]
      return group::ForkedBackend::get();
    return *backend;
  }

  /// Of calls that give none.
  [[nodiscard]] std::chrono::nanoseconds default_timeout() const noexcept {
    return current_timeout.load(std::memory_order_relaxed);  // relaxed: it stands alone
  }

  /// Checks a call and starts it. See GroupAccess::submit.
  Work submit(Collective& call, std::optional<std::chrono::nanoseconds> limit, bool asynchronous);
  /// Throws if the backend cannot do the call. `view`: the tensor whose dtype and device stand for
  /// the call.
  void check_supported(const Collective& call, const TensorView& view);
  /// Throws if the arguments of a send, recv or probe are wrong, before anything is sent. False:
  /// they are right, and the peer is no_rank.
  [[nodiscard]] bool check_transfer(Collective& call,
                                    std::optional<std::chrono::nanoseconds> limit);
  /// Starts a send or recv that was checked.
  Work start_transfer(const Collective& call, bool asynchronous);
  /// The same, and waits for it. For a recv: which message it was.
  Received run_transfer(const Collective& call);
  /// Makes the group of `ranks`; without ranks, this rank takes part while others make theirs. The
  /// group is made before all have agreed, so that a faster rank finds our lines. Then all ranks of
  /// this group compare `digest`.
  ProcessGroup make_sub_group(std::span<const int> ranks, std::uint64_t digest,
                              const NewGroupOptions& options);

  /// See GroupAccess::learn_counts.
  std::vector<std::size_t> learn_counts(Kind kind, const ConstTensorView& input,
                                        std::span<const std::size_t> sent, int root,
                                        std::chrono::nanoseconds& limit);

  // As the backend has them, which is asked once.
  const int rank = backend->rank();
  const int size = backend->size();
  const std::uint64_t forks = base::fork_generation();
  std::atomic<std::chrono::nanoseconds> current_timeout{timeout};

  /// One bit per device and dtype, for each kind and op: the backend was asked and can do it.
  static constexpr std::size_t kOps = 16;
  static constexpr unsigned kDTypes = 32;
  static_assert(kReduceOpCount <= kOps && kDTypeCount <= kDTypes &&
                    kDeviceTypeCount * kDTypes <= 64,
                "else two of them would share a bit");
  std::array<std::array<std::atomic<std::uint64_t>, kOps>, kKindCount> known{};
};

}  // namespace v0
}  // namespace tutti
