#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/group.hpp"
#include "engine/p2p_matcher.hpp"
#include "engine/world.hpp"
#include "verify/sim/memory.hpp"

namespace tutti::engine {

/// The groups of one rank in shared memory, as an engine would have made them, without an engine.
/// Slots count up.
class BareGroups {
 public:
  BareGroups(verify::sim::Memory& memory, int rank, int size) : rank_(rank) {
    world_.rank = rank;
    world_.size = size;
    world_.regions = &memory.regions(rank);
    world_.local_of = memory.local_of(rank);
    world_.whereabouts.assign(static_cast<std::size_t>(size), "");
    world_.route.assign(static_cast<std::size_t>(size), nullptr);
  }

  [[nodiscard]] World& world() noexcept { return world_; }
  [[nodiscard]] const std::unordered_map<std::uint64_t, Group*>& by_id() const noexcept {
    return by_id_;
  }
  /// Of all ranks.
  Group& make(std::uint64_t id) {
    auto group = std::make_unique<Group>();
    group->id = id;
    group->name = "group " + std::to_string(id);
    group->size = world_.size;
    group->rank = rank_;
    group->slot = static_cast<int>(groups_.size());
    group->regions = world_.regions;
    group->block = new (&world_.regions->group(group->slot)) transport::shm::GroupBlock{};
    group->no_memory = Status(Errc::resource, "no memory").with_culprit(rank_);
    for (int rank = 0; rank < world_.size; ++rank) {
      Member member;
      member.global = rank;
      member.local = world_.local_of[static_cast<std::size_t>(rank)];
      if (rank != rank_ && member.local >= 0) group->local_members.push_back(rank);
      group->members.push_back(member);
    }
    Member& self = group->members[static_cast<std::size_t>(rank_)];
    self.block = group->block;
    self.slot = group->slot;
    world_.regions->group_id(group->slot).store(id);
    by_id_[id] = group.get();
    groups_.push_back(std::move(group));
    return *groups_.back();
  }

 private:
  int rank_;
  World world_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::unordered_map<std::uint64_t, Group*> by_id_;
};

}  // namespace tutti::engine
