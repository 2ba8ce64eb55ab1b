#include "engine/group.hpp"

#include <algorithm>

#include "engine/p2p_matcher.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

void P2PMatcherDeleter::operator()(P2PMatcher* matcher) const noexcept { delete matcher; }

int Group::rank_of(int global) const noexcept {
  for (int one = 0; one < size; ++one) {
    if (member(one).global == global) return one;
  }
  return -1;
}

bool find_block(const Group& group, Member& member) noexcept {
  const transport::RegionPeer& peer = group.regions->peers[static_cast<std::size_t>(member.local)];
  for (int slot = 0; slot < shm::kMaxGroups; ++slot) {
    // acquire: pairs with the release in add_group, so that the cleared lines are seen.
    if (peer.group_id(slot).load(std::memory_order_acquire) == group.id) {
      member.block = &peer.group(slot);
      member.slot = slot;
      return true;
    }
  }
  return false;
}

bool is_gone(const Group& group, const Member& member) noexcept {
  const transport::RegionPeer& peer = group.regions->peers[static_cast<std::size_t>(member.local)];
  // acquire: pairs with leaving.
  return peer.died || peer.header().left.load(std::memory_order_acquire) != 0;
}

bool passed_by_all(Group& group, std::uint64_t seq) {
  if (group.peers_done >= seq && group.done_upto >= seq) return true;
  std::uint64_t least = ~std::uint64_t{0};
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member)) return false;
    // acquire: pairs with the release in finish(): its reads of our memory lie behind it.
    least = std::min(least, member.block->done.value.load(std::memory_order_acquire));
  }
  group.peers_done = least;
  return least >= seq && group.done_upto >= seq;
}

bool is_read_by_all(Group& group, std::uint64_t seq) {
  if (passed_by_all(group, seq)) return true;
  if (group.done_upto < seq) return false;
  return std::all_of(group.local_members.begin(), group.local_members.end(), [&](int rank) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (is_gone(group, member)) return true;
    if (member.block == nullptr && !find_block(group, member)) return false;
    // acquire: as in passed_by_all.
    return member.block->done.value.load(std::memory_order_acquire) >= seq;
  });
}

}  // namespace tutti::engine
