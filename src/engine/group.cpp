#include "engine/group.hpp"

#include <algorithm>

#include "engine/p2p_matcher.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

void P2PMatcherDeleter::operator()(P2PMatcher* matcher) const noexcept { delete matcher; }

int Group::rank_of(int global) const noexcept {
  // Mostly the ranks are those of the world.
  if (global < size && member(global).global == global) [[likely]]
    return global;
  for (int one = 0; one < size; ++one) {
    if (member(one).global == global) return one;
  }
  return -1;
}

bool find_block(const Group& group, Member& member) noexcept {
  const transport::RegionPeer& peer = group.regions->peers[static_cast<std::size_t>(member.local)];
  // relaxed: of a slot that we miss now, the id is found the next time.
  const auto slots = static_cast<int>(peer.words().slots.load(std::memory_order_relaxed));
  for (int slot = 0; slot < std::min(slots, shm::kMaxGroups); ++slot) {
    if (shm::serves_group(peer.control.group_id(slot), group.id)) {
      member.block = &peer.group(slot);
      member.slot = slot;
      return true;
    }
  }
  return false;
}

std::uint64_t last_call_of(const shm::GroupBlock& block) noexcept {
  std::uint64_t last = 0;
  for (const shm::Arrival& line : block.lines) {
    last = std::max(last, line.epoch.load(std::memory_order_acquire));  // pairs with publish
  }
  return last;
}

bool is_gone(const Group& group, const Member& member) noexcept {
  const transport::RegionPeer& peer = group.regions->peers[static_cast<std::size_t>(member.local)];
  // acquire: pairs with Host::leave.
  return peer.died || peer.words().left.load(std::memory_order_acquire) != 0;
}

}  // namespace tutti::engine
