#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/collective.hpp>
#include <tutti/tensor.hpp>
#include <tutti/work.hpp>

namespace tutti {

class Backend;

/// What an all_reduce may be told beside its buffer.
struct AllReduceOptions {
  ReduceOp op = ReduceOp::sum;
  /// Absent: the group's.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

struct BroadcastOptions {  ///< What a broadcast may be told beside its buffer.
  /// The rank (of this group) whose values everybody gets.
  int root = 0;
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

struct BarrierOptions {  ///< What a barrier may be told.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

struct NewGroupOptions {  ///< What a new group may be told beside its ranks.
  /// For messages; absent: made from the ranks.
  std::string name = {};
  /// Default timeout of the new group's operations; absent: the parent's.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

/// A group of ranks that call the same operations in the same order.
///
/// A handle: copies mean the same group. Ranks are the group's own, 0 .. size()-1.
/// Lifetime: the group lives as long as a handle or a Work of it; its end is local and never waits
/// for
///           others. What this rank has sent still arrives.
/// Threads:  any thread may call; the order of the calls is the order of the operations, so two
/// threads
///           that call without an order of their own disagree with other ranks.
/// Errors:   every operation throws InvalidArgument at the call for what is wrong with the call;
/// then
///           nothing was sent and the group is usable. Everything else comes through the Work.
class ProcessGroup {
 public:
  /// Takes over a reference to the backend. For init and tests.
  ProcessGroup(Backend* backend, std::string name, std::vector<int> global_ranks,
               std::chrono::nanoseconds timeout);

  [[nodiscard]] int rank() const noexcept;               ///< ours, 0 .. size() - 1
  [[nodiscard]] int size() const noexcept;               ///< how many ranks there are
  [[nodiscard]] std::string_view name() const noexcept;  ///< for messages
  /// Name of the backend: "native".
  [[nodiscard]] std::string_view backend() const noexcept;
  /// Rank of the world for a rank of this group. InvalidArgument if it is out of range.
  [[nodiscard]] int global_rank(int rank) const;
  /// Rank of this group for a rank of the world; absent for a non-member.
  [[nodiscard]] std::optional<int> group_rank(int global_rank) const noexcept;
  [[nodiscard]] std::chrono::nanoseconds timeout() const noexcept;

  /// Combines the buffers of all ranks, element by element, into each of them.
  ///
  /// Shapes:   equal dtype and count on every rank; strides are free.
  /// Order:    collective. Values: sums that round are added as ((0+1)+(2+3))+((4+5)+...), whatever
  ///           the size, the transport and the algorithm, so all ranks hold the same bits.
  /// Lifetime: the buffer must not be touched until the Work is done.
  /// Errors:   from the Work: DisagreementError (buffer unchanged), TimeoutError, NetworkError
  ///           (buffer undefined).
  Work all_reduce(const TensorView& buffer, const AllReduceOptions& options = {});
  /// The same for a contiguous range of numbers.
  template <NumberRange R>
  Work all_reduce(R&& buffer, const AllReduceOptions& options = {}) {
    return all_reduce(view_of(buffer), options);
  }

  /// Copies the root's buffer to every other rank's.
  ///
  /// Shapes:   equal dtype and count on every rank; strides are free.
  /// Order:    collective; the root may return before others have arrived.
  Work broadcast(const TensorView& buffer, const BroadcastOptions& options = {});
  template <MovableRange R>
  Work broadcast(R&& buffer, const BroadcastOptions& options = {}) {
    return broadcast(bytes_view_of(buffer), options);
  }

  /// Done when every rank has called it.
  Work barrier(const BarrierOptions& options = {});

  /// Makes a group of some of our ranks. Collective over this group: every rank calls it with the
  /// same list, in the new group's order; blocks. Empty for ranks that are not in the list.
  [[nodiscard]] std::optional<ProcessGroup> new_group(std::span<const int> ranks,
                                                      const NewGroupOptions& options = {});
  [[nodiscard]] std::optional<ProcessGroup> new_group(std::initializer_list<int> ranks,
                                                      const NewGroupOptions& options = {}) {
    return new_group(std::span<const int>(ranks.begin(), ranks.size()), options);
  }

  /// Breaks the group here and on every other member: all running and later operations fail.
  void abort(std::string_view reason);
  /// Ok, or what broke the group.
  [[nodiscard]] Status health() const;
  /// The engine's end, for bindings.
  [[nodiscard]] Backend& impl() const noexcept;
  /// Starts a call that was put together elsewhere (bindings). `asynchronous`: nobody waits for it
  /// soon, so the progress thread shall see to it.
  Work submit(Collective& call, std::optional<std::chrono::nanoseconds> timeout, bool asynchronous);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Waits for all of them; throws the first error after the last one is done.
void wait_all(std::span<Work> works);

}  // namespace tutti
