#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <tutti/error.hpp>

#include "engine/control_channel.hpp"
#include "engine/group.hpp"
#include "transport/frames.hpp"
#include "transport/region.hpp"
#include "transport/shm/park.hpp"

namespace tutti::engine {

/// Breaks groups. The first cause wins. It reaches the ranks of this host by break words and notes
/// in shared memory, and other hosts by abort frames. Without memory a frame is sent later, and a
/// text is left out.
///
/// Threads: none; under the driver lock.
class FailurePropagation {
 public:
  /// Implemented by the owner of the operations.
  class Operations {
   public:
    /// Ends all operations of the group, which is broken (`group.cause`). Needs no memory.
    virtual void end_all(Group& group) noexcept = 0;

   protected:
    ~Operations() = default;
  };
  /// The groups that this rank has, by their id.
  using Groups = std::unordered_map<std::uint64_t, Group*>;
  /// One event may break several groups.
  struct Break {
    Group* group = nullptr;
    Outcome cause;
  };

  FailurePropagation(const transport::Regions& regions, const Groups& groups, int world_size,
                     ControlChannel& channel, Operations& operations) noexcept
      : regions_(regions),
        groups_(groups),
        world_size_(world_size),
        channel_(channel),
        operations_(operations) {}

  /// Breaks the group here and reports it to the other members. The cause is `cause`, or one that a
  /// rank of our host has published before.
  void break_group(Group& group, const Outcome& cause) noexcept;
  /// The same for several groups. All break words are written before any group is reported: a rank
  /// that hears of the first may leave, and the next group would then break because it has left.
  /// The causes may become others.
  void break_groups(std::span<Break> breaks);
  /// Breaks the group if there is a cause.
  void break_for(Group& group, const std::optional<Outcome>& cause) noexcept {
    if (cause) break_group(group, *cause);
  }
  /// Breaks the group because this rank has no memory.
  void break_for_memory(Group& group) noexcept;
  /// The same for all groups, because each may have lost something.
  void break_all_for_memory() noexcept;
  /// Runs what asks for memory. If there is none, `group` is broken (nullptr: all groups are), and
  /// the result is that of a default constructor.
  template <class Action>
  auto guarded(Group* group, Action&& action) noexcept {
    try {
      return action();
    } catch (const std::bad_alloc&) {
      group != nullptr ? break_for_memory(*group) : break_all_for_memory();
    }
    if constexpr (!std::is_void_v<decltype(action())>) return decltype(action()){};
  }
  /// Breaks the group here and does not report it: it is being destroyed.
  void end(Group& group, const Outcome& cause) noexcept;

  /// A rank of our host has set a break word of ours since the last check_breaks.
  [[nodiscard]] bool breaks_to_see() const noexcept {
    return transport::shm::has_breaks(regions_.control().words(), breaks_seen_);
  }
  /// Breaks the groups whose break word of ours is set.
  void check_breaks() noexcept;
  /// Checks whether a rank of our host broke the group before we had made it, when it could not
  /// set our break word. True: it is broken.
  bool hear_of_break(Group& group) noexcept;

  /// True if this member has destroyed its end of the group, which is not broken. Then all that it
  /// had sent in it has come here. A rank of another host says so in a pong.
  /// This reads frames of the member (Sink::on_frame runs inside it). So operations may end, and
  /// the group may break, before it returns.
  [[nodiscard]] bool has_given_up(Group& group, Member& member);

  /// A rank of another host says that a group is broken. `group`: our group of that id; nullptr: we
  /// have not made it yet.
  void on_abort(Group* group, const transport::AbortFrame& abort,
                std::span<const std::byte> reason);
  /// Breaks a new group if an abort came before it was made. True: it is broken.
  bool break_if_aborted_early(Group& group);

  /// There was no memory for an abort frame to other hosts.
  [[nodiscard]] bool untold() const noexcept { return untold_; }
  /// Sends those frames.
  void tell_the_rest() noexcept;
  /// Sends those of this group, before it is destroyed.
  void tell_the_rest(Group& group) noexcept;

 private:
  void take_breaks();
  [[nodiscard]] Outcome cause_of(Group& group, std::uint64_t word) const;
  [[nodiscard]] std::uint64_t shown_break(Group& group) noexcept;
  [[nodiscard]] Outcome claim(Group& group, const Outcome& cause);
  void spread(Group& group, const Outcome& cause) noexcept;
  void tell_local(Group& group) noexcept;
  void tell_remote(Group& group, const Outcome& cause);
  void try_tell_remote(Group& group, const Outcome& cause) noexcept;

  const transport::Regions& regions_;
  const Groups& groups_;
  int world_size_;
  ControlChannel& channel_;
  Operations& operations_;
  std::uint32_t breaks_seen_ = 0;
  bool untold_ = false;  ///< Group::untold is set in some group
  std::deque<std::pair<std::uint64_t, Outcome>>
      aborted_early_;  ///< groups that we have not made yet
};

}  // namespace tutti::engine
