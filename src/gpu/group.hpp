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

#include "gpu/choice.hpp"
#include "gpu/operation.hpp"

namespace tutti::staged {

/// The operations of one group on this rank whose tensors are on a GPU, and those of the CPU that
/// must wait for them to be given to the CPUs in their order.
///
/// An input is copied to pinned memory on the caller's stream. When an event tells that it is
/// there, the CPUs' backend gets the call, with that memory as its tensors. The result is
/// copied back on a stream of ours, and an event tells when it is there. Events are looked at: by
/// callers that wait, and by a thread. So nothing on a GPU ever waits for another rank.
///
/// Where Peers can, a call goes from GPU to GPU (DirectCall), and the CPUs only let the ranks meet.
/// A message between two GPUs is a broadcast in a group of its two ranks, which they make when they
/// need it.
/// Where the ranks choose so (Choice), collectives go to a backend for GPUs.
///
/// Threads: every method from any thread.
class Group final : public cuda::Passing {
 public:
  /// Takes over a reference of the CPUs' backend. Leave it before the GPUs go. `for_messages`: it
  /// is the group of two ranks that moves messages from GPU to GPU, from its rank 0 to its rank 1.
  Group(Gpus& gpus, Backend* cpus, std::string name, bool for_messages = false);
  ~Group() override { leave(); }

  /// True if the CPUs have not been given all of an operation: what is called after it may have to
  /// wait.
  [[nodiscard]] bool has_waiting() const noexcept {
    return waiting_.load(std::memory_order_acquire) != 0;  // pairs with the release in `give`
  }

  /// The backend for GPUs that this call may be given at once; null: `submit` it here.
  [[nodiscard]] Backend* beside_for(const Collective& call);
  /// That backend, where collectives have gone there; else null.
  [[nodiscard]] Backend* beside() const noexcept { return choice_.opened(); }
  /// Begins a call; the ticket of it. Never fails: an operation that cannot be has failed. Nothing,
  /// if it is for `beside`.
  [[nodiscard]] std::optional<std::uint64_t> submit(const Collective& call) noexcept;
  /// Without a limit: until the caller's stream is ordered behind the operation. With one: until it
  /// is over, for the host; false: not yet.
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
  /// Ends what still runs, and gives everything back but the backend for GPUs.
  void leave() noexcept;
  /// After `leave`; may wait for what runs there.
  void leave_beside() noexcept { choice_.give_back(); }

  Progress pass(std::vector<cuda::Due>& due) override;

 private:
  /// The messages from GPU to GPU from one rank to another one, of which this rank is one.
  struct MessagePair {
    std::shared_ptr<Group> group;
    std::uint64_t begun = 0;  ///< how many of them the group has been given
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
  Backend* cpus_;  ///< a reference is held, until `left_`
  const std::string name_;
  bool left_ = false;
  Peers peers_;
  Choice choice_;
  base::TicketTable<Operation> operations_;
  std::vector<Operation*> active_;   ///< not done, in the order of their calls
  std::vector<Operation*> closing_;  ///< done, but something still uses their memory
  std::uint64_t steps_ = 0;          ///< that its operations have gone on
  std::uint64_t steps_seen_ = 0;     ///< by `pass`
  TimePoint next_health_{};          ///< when the CPUs' backend is asked again
  std::map<std::pair<int, int>, MessagePair> pairs_;  ///< by sender and receiver
  Gpu* message_gpu_ = nullptr;  ///< that of the first message that may go from GPU to GPU
  const bool oversubscribed_;   ///< more ranks than CPUs: a caller that waits yields
  /// Its caller is in `wait` and drives it, so it is not given as asynchronous. Set only while
  /// `wait` holds the lock.
  const Operation* driven_ = nullptr;
  std::vector<cuda::Due> due_;
  std::atomic<int> waiting_{0};  ///< operations that `gives`; written under the lock
};

}  // namespace tutti::staged
