#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <tutti/error.hpp>

#include "engine/group.hpp"
#include "engine/staging.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// A group as its members agree about it.
struct GroupSpec {
  std::uint64_t id = 0;
  std::string name;
  std::vector<int> ranks;  ///< global, in the group's order
  std::chrono::nanoseconds timeout{};
  bool strict = false;
  bool recorded = true;  ///< in the flight recorder, which has places for few groups
};

/// The groups of this rank, their slots in shared memory, and when the slot and the staging of a
/// closed group may be used again. It does not know how a group breaks.
///
/// Threads: none; under the driver lock.
class GroupTable {
 public:
  using ById = std::unordered_map<std::uint64_t, Group*>;

  /// Both must stay as long as this does.
  GroupTable(const World& world, Staging& staging);

  /// Makes a group and publishes its lines to the ranks of our host.
  [[nodiscard]] Result<Group*> make(const GroupSpec& spec);
  /// Notes that the group of this id is closed: frames of it are dropped from now on.
  void note_closed(std::uint64_t id);
  /// Takes the group out of the table. Peers may still read our last lines, so its slot and its
  /// object stay until the group has ended for all members.
  void retire(Group& group) noexcept;

  /// nullptr: this rank has none of this id (yet).
  [[nodiscard]] Group* find(std::uint64_t id) const noexcept;
  /// One of the last ids that were closed.
  [[nodiscard]] bool is_closed(std::uint64_t id) const noexcept;
  [[nodiscard]] const ById& by_id() const noexcept { return by_id_; }

  /// The group has ended here: looks for the lines of every member of our host, and publishes
  /// kSettled once all are found. True: they are.
  bool settle(Group& group) noexcept;

 private:
  [[nodiscard]] int free_slot() noexcept;
  /// Says what holds all slots.
  [[nodiscard]] std::string no_place() const;
  void sweep_retired() noexcept;
  [[nodiscard]] bool given_up_by_all(const Group& group) const noexcept;
  [[nodiscard]] std::unique_ptr<Group> describe(const GroupSpec& spec, int slot) const;
  [[nodiscard]] Outcome populate(const Group& group) const;
  void show(Group& group) noexcept;

  const World& world_;
  Staging& staging_;
  std::vector<std::unique_ptr<Group>> groups_;  ///< by slot; empty where free
  ById by_id_;
  std::deque<std::uint64_t> closed_ids_;
  /// Peers may still read our lines and staging.
  std::vector<std::unique_ptr<Group>> retired_;
};

}  // namespace tutti::engine
