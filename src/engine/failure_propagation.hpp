#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>

#include <tutti/error.hpp>

#include "engine/control_channel.hpp"
#include "engine/group.hpp"
#include "transport/frames.hpp"
#include "transport/region.hpp"

namespace tutti::engine {

/// How a group ends badly: the first cause wins, is shown to the ranks of this host
/// by break words and notes in shared memory, and told to those of other hosts by abort frames.
/// Where memory lacks, what asks for it is put off or does without.
///
/// Threads: none; under the driver lock.
class FailurePropagation {
 public:
  /// Those that run what a group has under way.
  class Operations {
   public:
    /// Ends all of it: the group is broken, for `group.cause`. Needs no memory.
    virtual void end_all(Group& group) noexcept = 0;

   protected:
    ~Operations() = default;
  };
  /// The groups that this rank has, by their id.
  using Groups = std::unordered_map<std::uint64_t, Group*>;
  /// One event may break several groups.
  struct Break {
    Group* group = nullptr;
    Status cause;
  };

  FailurePropagation(const transport::Regions& regions, const Groups& groups, int world_size,
                     ControlChannel& channel, Operations& operations) noexcept
      : regions_(regions),
        groups_(groups),
        world_size_(world_size),
        channel_(channel),
        operations_(operations) {}

  /// Breaks the group here and tells the other members, for `cause`, or for one that a rank of our
  /// host shows already.
  void break_group(Group& group, const Status& cause) noexcept;
  /// The same for several: all are shown before any is told, since a rank that hears of the first
  /// may leave, and would be missed in the next. The causes may become others.
  void break_groups(std::span<Break> breaks);
  /// Breaks the group because this rank has no memory.
  void break_for_memory(Group& group) noexcept;
  /// Breaks the group here, and tells nobody: it is destroyed.
  void end(Group& group, const Status& cause) noexcept;

  /// A rank of our host has written a break word into our page since the last check_breaks.
  [[nodiscard]] bool breaks_to_see() const noexcept {
    // relaxed: the words themselves are read with acquire in check_breaks.
    return regions_.page().breaks.load(std::memory_order_relaxed) != breaks_seen_;
  }
  /// Breaks the groups of which our page says so.
  void check_breaks();
  /// Looks whether a rank of our host broke the group before we had made it, and told nobody. True:
  /// it is broken.
  bool hear_of_break(Group& group) noexcept;

  /// Has this member destroyed its end of the group, which is not broken? Then all that it had sent
  /// in it has come here. Of a rank of another host a pong tells it.
  [[nodiscard]] bool has_given_up(Group& group, Member& member);

  /// A rank of another host says that the group is broken. `group`: ours of that id, which may be
  /// none yet.
  void on_abort(Group* group, const transport::AbortFrame& abort,
                std::span<const std::byte> reason);
  /// Breaks a new group of which an abort came before it was made. True: it is broken.
  bool break_if_aborted_early(Group& group);

  /// Memory lacked to tell other hosts of a break.
  [[nodiscard]] bool untold() const noexcept { return untold_; }
  void tell_the_rest() noexcept;
  /// ... of this one, before it is destroyed.
  void tell_the_rest(Group& group) noexcept;

 private:
  [[nodiscard]] Status cause_of(Group& group, std::uint64_t word) const;
  [[nodiscard]] std::uint64_t shown_break(Group& group) noexcept;
  [[nodiscard]] Status claim(Group& group, const Status& cause);
  void spread(Group& group, const Status& cause) noexcept;
  void tell_local(Group& group) noexcept;
  void tell_remote(Group& group, const Status& cause);
  void try_tell_remote(Group& group, const Status& cause) noexcept;

  const transport::Regions& regions_;
  const Groups& groups_;
  int world_size_;
  ControlChannel& channel_;
  Operations& operations_;
  std::uint32_t breaks_seen_ = 0;
  bool untold_ = false;  ///< of some group, other hosts are still to be told
  std::deque<std::pair<std::uint64_t, Status>>
      aborted_early_;  ///< groups that we have not made yet
};

}  // namespace tutti::engine
