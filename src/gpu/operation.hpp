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

namespace tutti::staged {

using TimePoint = std::chrono::steady_clock::time_point;

class Group;

/// A point of a stream that the host looks for.
struct Mark {
  cuda::Event event{};
  /// It was recorded, and the host has not seen it pass. A look at an event that has passed costs
  /// 2 us, and 6 us where 8 ranks share the GPU (H200, MPS).
  bool pending = false;

  bool record(cuda::Calls& calls, cuda::CudaApi& cuda, cuda::Stream stream) {
    pending = true;
    return calls.cuda("cuEventRecord", cuda.record_event(event, stream));
  }
};

/// A send or recv whose elements may go from GPU to GPU. The CPUs' backend matches it. If the other
/// tensor is on a GPU, too, the group of the two ranks moves the elements, by a broadcast.
struct DirectMessage {
  Collective call;  ///< what the CPUs get: the message without its memory
  Details details;
  call::GpuMessage gpu;
  bool by_host = false;         ///< the other tensor is on the host
  std::shared_ptr<Group> pair;  ///< the group that has it
  std::uint64_t ticket = 0;     ///< there
};

/// One call on one rank that the CPUs' backend could not be given at once, from submit until its
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
  /// Operations of one lane are given to the CPUs in the order of their calls, because the ranks
  /// agree on it: the collectives, and the messages to each rank.
  static constexpr int kCollectives = -1;
  static constexpr int kNone = -2;  ///< receives wait for nobody

  State state = State::done;
  bool released = false;  ///< nobody will ask for its ticket any more
  bool gives = true;      ///< the CPUs have not been given all calls of it
  bool given = false;     ///< the CPUs' backend has a ticket of it
  bool settled = false;   ///< nothing uses its memory any more
  int lane = kNone;

  bool asks = false;  ///< may go to a backend for GPUs, which has to be agreed on before (Choice)
  HostCall call;
  std::optional<DirectCall> direct;  ///< from GPU to GPU; absent: by way of the host
  std::optional<HostParts> parts;    ///< by way of the host, one part after the other
  std::optional<DirectMessage> message;
  Pending inner;                   ///< what the CPUs' backend has of it
  std::vector<Pending> spent;      ///< calls that are over, which some caller waits for
  std::optional<Outcome> on_cpus;  ///< how it ended there
  int inside = 0;                  ///< callers that wait there

  Gpu* gpu = nullptr;  ///< where its tensors are; null: on the host, it only waits for others
  cuda::Stream stream{};
  Mark ready;  ///< what the CPUs' call needs has been done: the input is on the host, a slot filled
  Mark end;    ///< what we have begun on the GPU is over; in the end the result is there
  bool arrived = false;
  cuda::PinnedBlock block;

  TimePoint started{};
  TimePoint deadline{};
  std::chrono::nanoseconds timeout{};
  Outcome outcome;
  int source = -1;
  std::vector<Callback> callbacks;

  /// For the next call in this place.
  void reset() {
    this->~Operation();
    new (this) Operation();
  }
};

}  // namespace tutti::staged
