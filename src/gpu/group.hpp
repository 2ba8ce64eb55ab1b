#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/error.hpp>

#include "gpu/nccl_choice.hpp"
#include "gpu/operation.hpp"

namespace tutti::gpu {

/// The operations of one group of this rank that have GPU tensors, and CPU operations that must
/// wait for them because the host backend gets all calls in order.
///
/// An input is copied to pinned memory on the caller's stream. When an event shows that the copy is
/// done, the host backend gets the call with that memory. The result is copied back on a stream of
/// ours, which ends with another event. Waiting callers and a thread poll the events, so nothing on
/// a GPU ever waits for another rank.
///
/// Three other paths: from GPU to GPU (DirectCall, if IpcPeers can), while host calls without data
/// order the ranks; a message between two GPUs as a broadcast in a group of its two ranks; and NCCL
/// for collectives, if the ranks choose so (NcclChoice).
///
/// Threads: every method from any thread.
class Group final : public cuda::Progressable {
 public:
  /// Takes over a reference of the host backend. Call `leave` before `gpus` is destroyed.
  /// `for_messages`: a pair's group, which moves messages from its rank 0 to its rank 1.
  Group(Gpus& gpus, Backend* cpus, std::string name, bool for_messages = false);
  ~Group() override { leave(); }

  /// True if an operation has host calls that are not submitted yet: later calls may have to wait.
  [[nodiscard]] bool has_waiting() const noexcept {
    return waiting_.load(std::memory_order_acquire) != 0;  // pairs with `gives_no_more`
  }

  /// NCCL, if this call may be submitted to it at once; null: `submit` the call here.
  [[nodiscard]] Backend* nccl_for(const Collective& call);
  /// NCCL, once calls may go to it at once; else null.
  [[nodiscard]] Backend* nccl() const noexcept { return choice_.opened(); }
  /// Begins a call and returns its ticket; a call that cannot begin is an operation that has
  /// failed. Returns nothing if the call must go to `nccl`.
  [[nodiscard]] std::optional<std::uint64_t> submit(const Collective& call) noexcept;
  /// Without a limit: waits until the caller's stream is ordered behind the operation. With a
  /// limit: waits until the result is on the GPU; false: not within the limit.
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome);
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket);
  [[nodiscard]] int source(std::uint64_t ticket);
  int release(std::uint64_t ticket) noexcept;
  void on_done(std::uint64_t ticket, Callback callback);
  void abort(const Outcome& cause);
  [[nodiscard]] Outcome health();
  /// See Backend::join.
  void join(Backend& whole) noexcept;
  /// Waits until the CPUs have all that was called before: they count calls where they make a
  /// group. Bounded by the timeouts of those calls.
  void give_all();
  /// Ends all operations and gives everything back except the NCCL group.
  void leave() noexcept;
  /// Drops the NCCL group after `leave`; may wait for its operations.
  void leave_nccl() noexcept { choice_.give_back(); }

  Progress make_progress(std::vector<cuda::Due>& due) override;

 private:
  /// The messages from GPU to GPU from one rank to another. This rank is one of the two.
  struct MessagePair {
    std::shared_ptr<Group> group;
    std::uint64_t begun = 0;  ///< messages that the group has been given
  };

  [[nodiscard]] std::uint64_t begin(const Collective& call, bool has_passed);
  bool begin_on_gpu(Operation& op, const Collective& call, bool has_passed);
  [[nodiscard]] bool takes_this_gpu(Operation& op);
  bool copy_in(Operation& op, cuda::Calls& calls, cuda::Stream stream);
  void copy_out(Operation& op);
  [[nodiscard]] bool may_be_given(const Operation& op) const noexcept;
  [[nodiscard]] bool is_next(const Operation& op) const noexcept;
  void give(Operation& op, const Collective& call, bool last);
  void gives_no_more(Operation& op);
  [[nodiscard]] bool may_begin_on_stream(const Operation& op);
  bool begin_on_stream(Operation& op, cuda::Calls& calls);
  void begin_direct(Operation& op);
  void go_on(Operation& op);
  void move_part(Operation& op);
  void go_by_host(Operation& op);
  [[nodiscard]] bool may_be_direct_message(const Operation& op, const Collective& call);
  void make_message(Operation& op);
  [[nodiscard]] bool give_what_is_missing(Operation& op);
  [[nodiscard]] bool pair_up(Operation& op);
  [[nodiscard]] MessagePair* pair_of(Operation& op);
  void look_at_pair(Operation& op);
  [[nodiscard]] bool is_returning(const Operation& op);
  [[nodiscard]] static bool has_matched(const Operation* op) noexcept;
  void leave(TimePoint until) noexcept;
  [[nodiscard]] bool is_busy() const noexcept;
  void make_parts(Operation& op, const call::Extent& extent);
  void begin_parts(Operation& op);
  void give_part(Operation& op);
  void go_on_with_parts(Operation& op);
  void begin_choice(Operation& op);
  void go_on_choosing(Operation& op);
  void hand_over(Operation& op);
  void open_choice();
  [[nodiscard]] bool chooses() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds left_of(const Operation& op) const noexcept;
  void progress();
  void step(Operation& op, TimePoint now);
  bool look(Operation& op, Mark& mark, bool& passed);
  bool order_caller(Operation& op);
  void end(Operation& op, Outcome outcome);
  void release_calls(Operation& op);
  bool settle(Operation& op);
  void recycle(Operation& op);
  int give_up(std::uint64_t ticket) noexcept;
  void fail(const Outcome& cause);
  void fail_calls(Operation& op, const std::string& failure);
  void fail_late(Operation& op, TimePoint now);
  [[nodiscard]] std::string text_of(const Operation& op) const;
  [[nodiscard]] std::string name_of_rank() const;

  Gpus& gpus_;
  Backend* cpus_;  ///< the host backend; holds a reference until `left_`
  const std::string name_;
  bool left_ = false;
  IpcPeers peers_;
  NcclChoice choice_;
  base::TicketTable<Operation> operations_;
  std::vector<Operation*> active_;   ///< not done, in the order of their calls
  std::vector<Operation*> closing_;  ///< done, but something still uses their memory
  std::uint64_t steps_ = 0;          ///< counts the progress of operations
  std::uint64_t steps_seen_ = 0;     ///< the count at the last `make_progress`
  TimePoint next_health_{};          ///< when `progress` asks for the host backend's health again
  std::map<std::pair<int, int>, MessagePair> pairs_;  ///< by sender and receiver
  Gpu* message_gpu_ = nullptr;  ///< the GPU of the first message that may go from GPU to GPU
  const bool oversubscribed_;   ///< more ranks than CPUs: waiting callers yield
  /// The operation whose caller is in `wait` and drives it, so its host call is not asynchronous.
  /// Set only while `wait` holds the lock.
  const Operation* driven_ = nullptr;
  std::vector<cuda::Due> due_;
  std::atomic<int> waiting_{0};  ///< operations with `gives`; written under the lock
};

}  // namespace tutti::gpu
