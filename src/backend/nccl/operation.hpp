#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <tutti/backend/backend.hpp>

#include "backend/foreign/foreign_operation.hpp"
#include "backend/nccl/abort.hpp"
#include "backend/nccl/api.hpp"
#include "backend/nccl/buffers.hpp"
#include "cuda/device.hpp"

namespace tutti::nccl {

using cuda::Current;
using cuda::Device;
using foreign::TimePoint;

class Channel;
class NcclGroup;

/// In the first word of the code of a captured call (call::encode leaves these bits 0), so that
/// the ranks compare it, too.
inline constexpr std::uint64_t kCapturedCall = std::uint64_t{1} << 24;

/// An operation on our own mesh of CPUs that belongs to one on NCCL. Its memory stays
/// where it is while it is `pending`.
class MeshCall {
 public:
  MeshCall() = default;
  ~MeshCall() { drop(); }
  MeshCall(const MeshCall&) = delete;
  MeshCall& operator=(const MeshCall&) = delete;

  void start(Backend& mesh, const Collective& call) {
    drop();
    pending_ = mesh.submit(call, true);
  }
  [[nodiscard]] bool started() const noexcept { return pending_.operations != nullptr; }
  /// The outcome; absent while it runs, ok if there is none.
  [[nodiscard]] std::optional<Outcome> poll() const {
    return started() ? pending_.poll() : Outcome();
  }
  [[nodiscard]] bool pending() const { return !poll().has_value(); }
  /// It is over, and went well (or was never begun).
  [[nodiscard]] bool succeeded() const {
    const std::optional<Outcome> outcome = poll();
    return outcome && outcome->ok();
  }
  /// If it was started.
  [[nodiscard]] const Pending& get() const noexcept { return pending_; }
  [[nodiscard]] int source() const { return started() ? pending_.received().source : -1; }
  void drop() noexcept {
    if (started()) (void)std::exchange(pending_, {}).release();
  }

 private:
  Pending pending_;
};

/// A sender tells this of a message to its receiver before NCCL moves it.
struct Announcement {
  UniqueId id;               ///< of the communicator for messages from this sender to this receiver
  std::uint64_t number = 0;  ///< of the message among those of the sender to this receiver
  std::uint64_t count = 0;
  std::uint64_t dtype = 0;
};

/// One call on one rank, from submit until its ticket is released.
struct NcclOperation : foreign::ForeignOperation {
  enum class State : std::uint8_t {
    on_mesh,    ///< it runs on our mesh: barriers, and messages that are not matched yet
    queued,     ///< it waits for its communicator, or for those before it
    launching,  ///< NCCL has been given it and still puts it on the stream
    running,    ///< on the stream: `end` tells when it is over
    moved,      ///< its data are there; the calls of the ranks are still being compared
    done,
  };

  State state = State::on_mesh;
  Buffer in;
  Buffer out;
  /// PREMUL_SUM: the factor, or where it is on the device.
  alignas(16) std::array<std::byte, 16> factor{};
  void* device_factor = nullptr;
  Op made_op{};
  bool has_made_op = false;

  Stream caller{};  ///< the caller's stream
  /// It is being captured: the operation becomes a part of the graph, and has no events.
  bool captured = false;
  Event start{};  ///< what the caller's stream had been given before the call
  Event end{};
  Device* device = nullptr;  ///< where its tensors are; null: it has none
  Channel* channel = nullptr;
  NcclOperation* partner = nullptr;  ///< of a message to oneself: the other end
  std::shared_ptr<NcclGroup> child;  ///< new_group: what it makes here; null: this rank is in none
  CommPlace made;                    ///< ... and its communicator, by a split
  int color = kNoColor;
  int key = 0;

  MeshCall mesh;  ///< a barrier, the comparison of the calls, or the announcement of a message
  MeshCall lengths;
  std::list<MeshCall> explanations;
  MeshCall clearance;  ///< of a message: the receiver is ready
  Announcement announcement;
  std::uint64_t cleared = 0;  ///< number of the message whose receiver is ready
  bool clearance_taken = false;

  [[nodiscard]] bool mesh_pending() const {
    return mesh.pending() || lengths.pending() || clearance.pending();
  }
  /// Our mesh has its memory.
  [[nodiscard]] bool in_use() const {
    return mesh_pending() ||
           std::ranges::any_of(explanations, [](const MeshCall& one) { return one.pending(); });
  }
  void drop_mesh_calls() noexcept {
    for (MeshCall* const one : {&mesh, &lengths, &clearance}) one->drop();
    explanations.clear();
  }

  /// Nothing is missing but NCCL: the ranks agree. A clearance may be that of another message, so
  /// it must have been read, too.
  [[nodiscard]] bool mesh_succeeded() const {
    const bool read = call.kind != Kind::send || !clearance.started() || clearance_taken;
    const bool agrees = seq == 0 || agreement == foreign::Agreement::agreed;
    return mesh.succeeded() && agrees && clearance.succeeded() && read;
  }

  /// For the next call in this place. Nothing of it may be pending.
  void reset() {
    this->~NcclOperation();
    new (this) NcclOperation();
  }
};

}  // namespace tutti::nccl
