#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include <tutti/backend/backend.hpp>

#include "base/ticket_table.hpp"
#include "call/gpu_calls.hpp"
#include "gpu/direct_call.hpp"
#include "gpu/gpus.hpp"
#include "gpu/host_call.hpp"
#include "gpu/host_parts.hpp"

namespace tutti::gpu {

using TimePoint = std::chrono::steady_clock::time_point;

class Group;

/// A point of a stream that the host looks for.
struct Mark {
  cuda::Event event{};
  /// True from its recording until the host has seen that the stream has passed it. Each query of a
  /// passed event costs 2 us, and 6 us if 8 ranks share the GPU (H200, MPS).
  bool pending = false;

  bool record(cuda::Calls& calls, cuda::CudaApi& cuda, cuda::Stream stream) {
    pending = true;
    return calls.cuda("cuEventRecord", cuda.record_event(event, stream));
  }
};

/// A send or recv whose elements may go from GPU to GPU. The host backend matches it. If the peer's
/// tensor is on a GPU, too, the pair's group moves the elements by a broadcast.
struct DirectMessage {
  Collective call;  ///< the message without its memory, for the host backend
  Details details;
  call::GpuMessage gpu;
  bool by_host = false;         ///< the peer's tensor is in host memory
  std::shared_ptr<Group> pair;  ///< the group of the two ranks that moves the elements
  std::uint64_t ticket = 0;     ///< in `pair`
};

/// One call of this rank that could not be given to the host backend at once. It lives until its
/// ticket is released and nothing uses its memory.
struct Operation : base::TicketPlace {
  enum class State : std::uint8_t {
    waiting,    ///< for its input to come to the host, or for those before it
    moving,     ///< direct, in parts: `ready` tells when the CPUs are given the next call
    running,    ///< the CPUs have it
    returning,  ///< its result goes to the GPU: `end` tells when it is there
    handed,     ///< a backend for GPUs has it, all of it, as `inner`
    paired,     ///< the group of its two ranks has it (DirectMessage)
    done,
  };
  /// The host backend gets the operations of one lane in the order of their calls, which is the
  /// same on all ranks. Lanes are the collectives, and the messages to each rank.
  static constexpr int kCollectives = -1;
  static constexpr int kNone = -2;  ///< receives have no lane

  State state = State::done;
  bool released = false;  ///< the caller has given back the ticket
  bool gives = true;      ///< some of its host calls have not been submitted
  bool given = false;     ///< `inner` is a ticket of the host backend
  bool settled = false;   ///< nothing uses its memory any more
  int lane = kNone;

  bool asks = false;  ///< may run on NCCL, if the ranks agree on it (NcclChoice)
  HostCall call;
  std::optional<DirectCall> direct;  ///< from GPU to GPU; absent: through host memory
  std::optional<HostParts> parts;    ///< through host memory, one part after the other
  std::optional<DirectMessage> message;
  Pending inner;                   ///< what the CPUs' backend has of it
  std::vector<Pending> spent;      ///< calls that are over, which some caller waits for
  std::optional<Outcome> on_cpus;  ///< how it ended there
  int inside = 0;                  ///< callers that wait there

  Gpu* gpu = nullptr;  ///< where its tensors are; null: CPU tensors, which only wait
  cuda::Stream stream{};
  Mark ready;  ///< the host call may begin: the input is on the host, or a slot is filled
  Mark end;    ///< our copies and kernels are done; for the last ones: the result is on the GPU
  bool arrived = false;
  cuda::PinnedBlock block;

  TimePoint started{};
  TimePoint deadline{};
  std::chrono::nanoseconds timeout{};
  Outcome outcome;
  int source = -1;
  std::vector<Callback> callbacks;

  /// Makes this object ready for the next call.
  void reset() {
    this->~Operation();
    new (this) Operation();
  }
};

}  // namespace tutti::gpu
