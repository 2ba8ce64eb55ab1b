#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/config.hpp>
#include <tutti/error.hpp>

#include "backend/foreign/call_comparison.hpp"
#include "backend/foreign/operation_list.hpp"
#include "backend/nccl/channel.hpp"
#include "backend/nccl/operation.hpp"
#include "cuda/device.hpp"
#include "cuda/gpu_progress_thread.hpp"

namespace tutti::nccl {

/// The operations of one group on this rank, from submit to their end.
///
/// Beside NCCL it has a group of our own engine, the mesh: the CPUs of the same ranks. Over the
/// mesh run barriers and the making of groups; the comparison of the calls of all ranks, while NCCL
/// already works; the id of a communicator; and what a message is (its tag, its length), before
/// NCCL moves it. If the mesh breaks, the group does, on all ranks.
///
/// Threads: every method from any thread.
class NcclGroup final : public cuda::Progressable, private foreign::CallComparison::Primitives {
 public:
  /// Takes over a reference of the mesh.
  NcclGroup(Api& nccl, CudaApi& cuda, const Config& config, Backend* mesh, std::string name);
  ~NcclGroup() override { leave(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::string location(int rank) const { return mesh_->location(rank); }

  /// Begins a call; the ticket of it. Never fails: an operation that cannot be has failed.
  std::uint64_t submit(const Collective& call) noexcept;
  /// Without a limit: until the caller's stream is ordered behind the operation. With one: until it
  /// is over, for the host; false: not yet.
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome);
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket);
  [[nodiscard]] Received received(std::uint64_t ticket);
  Received release(std::uint64_t ticket) noexcept;
  void on_done(std::uint64_t ticket, Callback callback);
  /// Also waits until NCCL uses the tensors no more, or takes too long.
  void abort(const Outcome& cause);
  [[nodiscard]] Outcome health();
  /// The group that the next Kind::new_group makes; null: this rank will be in none.
  [[nodiscard]] Result<std::shared_ptr<NcclGroup>> make_child(std::span<const int> ranks,
                                                              std::string name);
  /// Waits for what still runs on the GPU, until its deadline; then gives everything back.
  void leave() noexcept;

  Progress make_progress(std::vector<cuda::Due>& due) override;

 private:
  // group.cpp
  void refuse(NcclOperation& op, const std::string& why);
  void begin(NcclOperation& op);
  bool begin_on_device(NcclOperation& op, const Collective& call);
  void begin_collective(NcclOperation& op);
  bool begin_numbered(NcclOperation& op);
  void ensure_channel(NcclOperation& op);
  Device* device_of(int index, const NcclOperation* op);
  void progress();
  void progress(NcclOperation& op);
  bool advance(Channel& channel);
  void end_new_group(NcclOperation& op);
  void adopt(Comm comm, int device);
  void end(NcclOperation& op, Outcome outcome);
  // group_capture.cpp
  void capture(NcclOperation& op, std::unique_lock<std::mutex>& lock);
  bool may_capture(NcclOperation& op, std::unique_lock<std::mutex>& lock);
  // group_messages.cpp
  void begin_send(NcclOperation& op);
  void begin_receive(NcclOperation& op);
  void progress_messages();
  void received_announcement(NcclOperation& op);
  void received_clearance(NcclOperation& op);
  void move_message(NcclOperation& op, Channel& channel);
  // group_ends.cpp
  [[nodiscard]] std::string text_of(const foreign::ForeignOperation& op) const override;
  [[nodiscard]] std::string name_of(int rank) const override;
  [[nodiscard]] std::string call_text(const call::CallCode& code) const override;
  /// Breaks the group. The operations end when the aborts have.
  void fail(const Outcome& cause, bool tell);
  void fail_calls(const NcclOperation& op, const Calls& calls);
  void look_at_mesh();
  void begin_aborts() noexcept;
  /// Ends the operations if the aborts have ended, or take too long.
  void end_aborts();
  void wait_for_aborts(std::unique_lock<std::mutex>& lock);
  void look_at_clock(NcclOperation& op, TimePoint now);
  void begin_maximum(foreign::ForeignOperation& call) override;
  void begin_lengths(foreign::ForeignOperation& call) override;
  void begin_codes(foreign::ForeignOperation& call) override;
  /// The primitive of the comparison that runs for the operation.
  [[nodiscard]] bool primitive_ended(const NcclOperation& op) const;
  [[nodiscard]] bool agrees(NcclOperation& op);
  [[nodiscard]] bool runs_on_gpu() const noexcept;
  /// In an order that all ranks have in common, by sender and receiver: NCCL may wait for other
  /// ranks where communicators end.
  template <class Action>
  void each_channel(const Action& action) {
    if (channel_ != nullptr) action(*channel_);
    const auto after = incoming_.lower_bound(rank_);
    for (auto one = incoming_.begin(); one != after; ++one) action(*one->second);
    for (const auto& [rank, one] : outgoing_) {
      if (one.channel != nullptr) action(*one.channel);
    }
    for (auto one = after; one != incoming_.end(); ++one) action(*one->second);
  }

  Api& nccl_;
  CudaApi& cuda_;
  const Config config_;
  Backend* mesh_;  ///< a reference is held
  const std::string name_;
  const int rank_;
  const int size_;

  std::mutex mutex_;
  bool left_ = false;
  std::vector<cuda::Due> due_;
  foreign::CallComparison comparison_;
  foreign::OperationList<NcclOperation> operations_;

  std::unique_ptr<Device> device_;    ///< that of all its tensors, from the first one on
  std::unique_ptr<Channel> channel_;  ///< of the collectives, from the first one on
  UniqueId id_;                       ///< of its communicator
  MeshCall id_call_;
  struct Outgoing {
    UniqueId id;
    std::uint64_t messages = 0;
    bool named = false;
    std::unique_ptr<Channel> channel;
  };
  std::map<int, Outgoing> outgoing_;                  ///< by receiver
  std::map<int, std::unique_ptr<Channel>> incoming_;  ///< by sender; of ourselves: copies

  struct Child {
    std::shared_ptr<NcclGroup> group;
    int color = kNoColor;
    int key = 0;
  };
  Child child_;

  bool aborting_ = false;      ///< the operations end with the aborts
  TimePoint abort_until_;      ///< when the aborts are no longer waited for
  std::vector<Abort> others_;  ///< of communicators that no channel has
};

}  // namespace tutti::nccl
