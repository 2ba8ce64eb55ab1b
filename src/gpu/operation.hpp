#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>

#include "backend/foreign/operation_list.hpp"
#include "gpu/gpu_set.hpp"
#include "gpu/host_call.hpp"
#include "gpu/path.hpp"
#include "gpu/peer_group.hpp"

namespace tutti::gpu {

using foreign::TimePoint;

/// A point of a stream that the host looks for.
struct Mark {
  cuda::Event event{};
  /// True from its recording until the host has seen that the stream has passed it. Each query of a
  /// passed event costs 2 us, and 6 us if 8 ranks share the GPU (H200, MPS).
  bool pending = false;
};

/// One call of this rank that could not be submitted to the host backend at once. Its path moves
/// its elements by host calls and by work on its GPU. It lives until its ticket is released and
/// nothing uses its memory.
struct GpuOperation : foreign::ListedOperation {
  enum class State : std::uint8_t {
    waiting,    ///< for its stream, or for those before it
    moving,     ///< in parts: `ready` tells when the next host call may be submitted
    running,    ///< the host backend has it, or NCCL
    returning,  ///< its result goes to the GPU: `end` tells when it is there
    done,
  };

  State state = State::done;
  bool unsubmitted = false;    ///< some of its host calls have not been submitted (PeerGroup)
  bool arrived = false;        ///< the stream has reached the call, and its input is there
  bool compared = false;       ///< the ranks have compared the whole call, for PartsPath
  bool driven = false;         ///< its caller is in `wait` and drives it
  bool on_nccl = false;        ///< NCCL has all of it, as `pending`
  bool settled = false;        ///< nothing uses its memory any more
  std::uint32_t advanced = 0;  ///< counts its progress
  int lane = PeerGroup::kNone;
  PeerGroup* ranks = nullptr;
  std::unique_ptr<Path> path;
  HostCall host_call;

  Pending pending;                           ///< its host call, or NCCL's
  bool submitted = false;                    ///< `pending` is a ticket
  std::optional<Outcome> submitted_outcome;  ///< how that has ended
  std::vector<Pending> spent;                ///< calls that are over, which some caller waits for
  int waiters = 0;                           ///< callers that wait there

  Gpu* gpu = nullptr;  ///< where its tensors are; null: CPU tensors, which only wait
  cuda::Stream stream{};
  Mark ready;  ///< the host call may begin: the input is on the host, or a slot is filled
  Mark end;    ///< our copies and kernels are done; for the last ones: the result is on the GPU
  cuda::PinnedBlock block;

  /// "all_reduce(...) in group 'world'".
  [[nodiscard]] std::string text() const;
  /// The same, and "on rank 3 on node-1, pid 17".
  [[nodiscard]] std::string text_with_rank() const;
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept;
  /// True if its next host call may be submitted: it has arrived and is the next of its lane.
  [[nodiscard]] bool may_submit() const noexcept {
    return lane == PeerGroup::kNone || (arrived && ranks->is_next(*this));
  }

  // ---- Its life

  /// Goes on without waiting.
  [[nodiscard]] Step step();
  /// Its deadline has passed.
  [[nodiscard]] Step late(TimePoint now) const;
  /// Orders the caller's stream behind the result, if that is on its way to the GPU. Else the host
  /// must wait: the stream is being captured, and a graph cannot wait for an event outside of it.
  [[nodiscard]] Step order_caller();
  /// Gives back what a done operation has, as soon as nobody uses it. False: somebody still does.
  [[nodiscard]] bool settle();

  // ---- Host calls, one after the other

  /// Submits one. `last`: no other comes after it.
  [[nodiscard]] Step submit(const Collective& next, bool last);
  /// Looks at the one that runs. The result is absent if that has succeeded.
  [[nodiscard]] std::optional<Step> look_at_host_call();
  /// Releases one that has succeeded.
  void drop_host_call();
  /// A recv whose host call knows its message.
  void note_received() {
    const Received received = pending.received();
    source = received.source;
    if (received.source >= 0) call.tag = received.tag;
  }
  void drop_all_host_calls() noexcept;

  // ---- Work on the GPU

  /// Sets `passed` if the stream has passed the mark. The result is a failure of CUDA.
  [[nodiscard]] std::optional<Step> look(Mark& mark, bool& passed);
  /// A failure of CUDA on this rank.
  [[nodiscard]] Step failed(const std::string& failure) const;

  // ---- For OperationList

  [[nodiscard]] bool in_use() const noexcept { return !settled; }
  /// Makes this object ready for the next call.
  void reset() {
    this->~GpuOperation();
    new (this) GpuOperation();
  }
};

/// Calls of the driver on the GPU of an operation, as long as it lives.
struct GpuScope {
  explicit GpuScope(const GpuOperation& op)
      : cuda(op.ranks->gpus.cuda()), calls(cuda), current(cuda, *op.gpu->device, calls) {}

  cuda::CudaApi& cuda;
  cuda::Calls calls;
  cuda::Current current;

  /// False: `calls` has the failure. The mark is pending all the same, because it shows when
  /// earlier work of the stream has ended.
  bool record(Mark& mark, cuda::Stream stream) {
    mark.pending = true;
    return calls.cuda("cuEventRecord", cuda.record_event(mark.event, stream));
  }
};

}  // namespace tutti::gpu
