#pragma once

#include <chrono>
#include <future>
#include <memory>

#include "backend/nccl/api.hpp"

namespace tutti::nccl {

/// Where a split writes its communicator. NCCL may write there until the split has ended, or an
/// abort of the communicator that is split has returned.
using CommPlace = std::shared_ptr<Comm>;

/// Until when aborts that begin now are waited for.
[[nodiscard]] inline std::chrono::steady_clock::time_point abort_deadline(const Api& nccl) {
  return std::chrono::steady_clock::now() + nccl.abort_limit();
}

/// ncclCommAbort, on a thread of its own. It ends what runs at once. But it does not return before
/// the program has destroyed the graphs that have work of the communicator, whose memory it frees;
/// nor does it promise to return soon when a network or a GPU has failed.
///
/// Lifetime: the thread goes on when this is destroyed. `nccl` lives as long as the process.
class Abort {
 public:
  /// Of nothing: it has returned.
  Abort() = default;
  /// `split`: the place of a split that is under way, whose communicator is aborted after `comm`.
  /// If no thread can be made, the constructor calls NCCL and may block.
  Abort(Api& nccl, Comm comm, const CommPlace& split = nullptr) noexcept;

  /// False: it has not returned until then.
  [[nodiscard]] bool wait(std::chrono::steady_clock::time_point until) noexcept;

 private:
  std::future<void> over_;
};

}  // namespace tutti::nccl
