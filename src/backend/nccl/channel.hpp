#pragma once

#include <deque>
#include <optional>

#include "backend/nccl/abort.hpp"
#include "backend/nccl/calls.hpp"
#include "backend/nccl/launch.hpp"
#include "backend/nccl/operation.hpp"

namespace tutti::nccl {

/// A communicator with a stream of its own, and the operations that wait for it or run on it, in
/// their order. A group has one for its collectives, and one for the messages from each rank to
/// each other: so a message never waits for one that goes the other way.
///
/// Nothing blocks but `end_close` and the destructor: `advance` does what can be done now.
/// Threads: one at a time (the lock of the group).
class Channel {
 public:
  Channel(Api& nccl, CudaApi& cuda, Device& device, int rank, int size)
      : nccl_(nccl), cuda_(cuda), device_(device), rank_(rank), size_(size) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  /// The id of the communicator, which the others join: made at the next `advance`.
  void make_of(const UniqueId& id) noexcept {
    id_ = id;
    state_ = State::named;
  }
  /// Its communicator was made by a split.
  void adopt(Comm comm) noexcept {
    comm_ = comm;
    state_ = State::ready;
  }
  /// It copies within this rank, and needs no communicator.
  void make_for_copies() noexcept { state_ = State::ready; }

  void push(NcclOperation& op);
  /// Its communicator is made, and NCCL has been given all operations before.
  [[nodiscard]] bool accepts() const noexcept {
    return state_ == State::ready && queue_.empty() && capturing_ == nullptr;
  }
  /// In place of `push`: gives NCCL a collective on its caller's stream, which is being captured.
  /// It must accept. When `check` finds NCCL no longer busy, `end_capture` comes next; until then
  /// nothing else is launched. False: as `advance`.
  bool begin_capture(NcclOperation& op, Calls& calls);
  bool end_capture(Calls& calls);
  /// Asks the communicator; `busy`: it has not ended what it was given. False: as `advance`.
  bool check(Calls& calls, bool& busy);
  /// False: a function has failed; `calls` says which.
  bool advance(Calls& calls);
  [[nodiscard]] bool idle() const noexcept { return queue_.empty() && running_.empty(); }

  /// Ends what runs. All channels of a group begin before the first is waited for.
  void begin_abort() noexcept;
  /// Absent: the abort may still take its time, until `until`, and the GPU 1 s more. False: that
  /// has not ended what ran.
  [[nodiscard]] std::optional<bool> end_abort(TimePoint until) noexcept;
  /// CUDA had gone before the channel did: nothing may be called.
  [[nodiscard]] bool driver_gone() const noexcept { return driver_gone_; }
  /// Begins to give the communicator back in peace: what was sent is delivered. NCCL may wait for
  /// the other ranks there, so all channels of a group begin before one is ended.
  void begin_close() noexcept;
  /// Until then; `begin_abort` is for what is left.
  void end_close(TimePoint until) noexcept;

 private:
  enum class State { unnamed, named, initialising, ready, closing, closed };

  [[nodiscard]] Place place() const noexcept {
    return {nccl_, cuda_, comm_, stream_, rank_, size_};
  }
  bool make(Calls& calls);
  bool launched(Calls& calls);
  bool look_at_running(Calls& calls);
  [[nodiscard]] bool can_launch() const noexcept;
  void destroy_stream() noexcept;
  [[nodiscard]] CommPlace split_under_way() const noexcept;
  bool forget_if_driver_gone() noexcept;

  Api& nccl_;
  CudaApi& cuda_;
  Device& device_;
  int rank_;
  int size_;
  State state_ = State::unnamed;
  UniqueId id_;
  Comm comm_{};
  Abort abort_;
  Event fence_{};              ///< behind what was aborted
  TimePoint fence_until_;      ///< when the fence is no longer waited for
  std::optional<bool> ended_;  ///< what `end_abort` has found
  bool driver_gone_ = false;
  Stream stream_{};
  NcclOperation* capturing_ = nullptr;  ///< NCCL still puts it on its caller's stream
  std::deque<NcclOperation*> queue_;    ///< not given to NCCL yet; the first may be being launched
  std::deque<NcclOperation*> running_;  ///< on the stream
};

}  // namespace tutti::nccl
