#include "engine/group_table.hpp"

#include <algorithm>
#include <utility>

#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"
#include "transport/shm/words.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

namespace {

constexpr std::size_t kClosedIds = 4096;  // how many closed ids are remembered

}  // namespace

GroupTable::GroupTable(const World& world, Staging& staging) : world_(world), staging_(staging) {
  groups_.resize(shm::kMaxGroups);
  retired_.reserve(shm::kMaxGroups);
}

Group* GroupTable::find(std::uint64_t id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

bool GroupTable::is_closed(std::uint64_t id) const noexcept {
  return std::find(closed_ids_.begin(), closed_ids_.end(), id) != closed_ids_.end();
}

/// Looks for every member, also after one was not found: a member that we skip could use its slot
/// for another group before we look again.
bool GroupTable::settle(Group& group) noexcept {
  shm::Counter& done = group.block->done;
  if (done.value.load(std::memory_order_relaxed) == kSettled) return true;  // only we write it
  bool all = true;
  for (const int rank : group.local_members) {
    Member& member = group.member(rank);
    if (member.block == nullptr && !find_block(group, member) && !is_gone(group, member))
      all = false;
  }
  shm::raise_counter(done, all ? kSettled : kClosed);
  return all;
}

/// True if a settled group has ended for all members of our host.
bool GroupTable::given_up_by_all(const Group& group) const noexcept {
  return std::all_of(group.local_members.begin(), group.local_members.end(), [&](int rank) {
    const Member& member = group.member(rank);
    if (is_gone(group, member)) return true;
    const transport::RegionPeer& peer =
        world_.regions->peers[static_cast<std::size_t>(member.local)];
    // Its slot may serve another group by now: then the member has settled this one.
    return !shm::serves_group(peer.control.group_id(member.slot), group.id) ||
           shm::value_of(member.block->done) == kSettled;
  });
}

void GroupTable::sweep_retired() noexcept {
  for (const std::unique_ptr<Group>& group : groups_) {
    if (group != nullptr && group->broken) (void)settle(*group);
  }
  std::erase_if(retired_, [&](const std::unique_ptr<Group>& group) {
    if (!settle(*group) || !given_up_by_all(*group)) return false;
    staging_.forget(*group);
    return true;
  });
}

/// A slot for a new group, or -1.
int GroupTable::free_slot() noexcept {
  sweep_retired();
  for (int slot = 0; slot < shm::kMaxGroups; ++slot) {
    const bool retired = std::any_of(retired_.begin(), retired_.end(),
                                     [&](const auto& group) { return group->slot == slot; });
    if (groups_[static_cast<std::size_t>(slot)] == nullptr && !retired) return slot;
  }
  return -1;
}

std::string GroupTable::no_place() const {
  std::string text = "this rank has " + std::to_string(shm::kMaxGroups) +
                     " groups already (messages from GPU to GPU take one for each direction "
                     "between two ranks of a group); destroy some.";
  if (!retired_.empty()) {
    text += " It has destroyed " + std::to_string(retired_.size()) +
            " of them, which other ranks of its host have not (the first is '" +
            retired_.front()->name + "').";
  }
  return text;
}

Result<Group*> GroupTable::make(const GroupSpec& spec) {
  const int free = free_slot();
  if (free < 0) return Outcome(Errc::resource, no_place());
  auto group = describe(spec, free);
  if (Outcome s = populate(*group); !s.ok()) return s;
  Group* const made = group.get();
  by_id_[spec.id] = made;  // before `show`, because it may throw bad_alloc
  show(*group);
  groups_[static_cast<std::size_t>(free)] = std::move(group);
  return made;
}

std::unique_ptr<Group> GroupTable::describe(const GroupSpec& spec, int slot) const {
  auto group = std::make_unique<Group>();
  group->id = spec.id;
  group->name = spec.name;
  group->size = static_cast<int>(spec.ranks.size());
  group->slot = slot;
  group->timeout = spec.timeout;
  group->strict = spec.strict;
  group->regions = world_.regions;
  group->block = &world_.regions->control().group(slot);
  std::vector<int> hosts;
  for (int r = 0; r < group->size; ++r) {
    Member member;
    member.global = spec.ranks[static_cast<std::size_t>(r)];
    member.local = world_.local_of[static_cast<std::size_t>(member.global)];
    hosts.push_back(world_.host_of[static_cast<std::size_t>(member.global)]);
    if (member.global == world_.rank)
      group->rank = r;
    else if (member.local >= 0)
      group->local_members.push_back(r);
    group->members.push_back(member);
  }
  group->no_memory = Outcome(Errc::resource,
                             "group '" + spec.name + "': " + name_of(world_, *group, group->rank) +
                                 " has no memory for an operation: the system refused it. Allow it "
                                 "more (ulimit -v, the limit of its cgroup), or use smaller "
                                 "tensors; the group is broken, make a new one.")
                         .with_culprit(group->rank);
  group->window.start_chain(call::chain_start(spec.id, world_.settings));
  group->plans = std::make_unique<PlanCache>(group->rank, plan::make_topology(std::move(hosts)),
                                             world_.cpus, world_.algorithms);
  const auto size = static_cast<std::size_t>(group->size);
  // An operation asks for no memory, also if ranks ask each other where they are. Large groups
  // seldom need it, and would have too much of it.
  constexpr std::size_t kAnswersAtOnce = 64;
  if (!group->one_host() && size <= kAnswersAtOnce) group->answers.resize(size);
  for (Op& op : group->window) {
    op.region.stage_of.resize(2 * size);
    op.program.sources.resize(size);
  }
  return group;
}

/// Allocates the pages that the group uses. Without this, touching one when memory is short would
/// kill the process (SIGBUS).
Outcome GroupTable::populate(const Group& group) const {
  if (world_.populate == nullptr) return Outcome();
  const transport::RegionControl& ours = world_.regions->control();
  auto* const word = reinterpret_cast<std::byte*>(&ours.break_word(group.slot));
  auto* const lines = reinterpret_cast<std::byte*>(group.block);
  auto* const id = reinterpret_cast<std::byte*>(&ours.group_id(group.slot));
  for (const auto& [data, bytes] :
       {std::pair(word, sizeof(std::uint64_t)), std::pair(lines, sizeof(shm::GroupBlock)),
        std::pair(id, sizeof(std::uint64_t))}) {
    if (Outcome s = world_.populate(data, bytes); !s.ok()) return s;
  }
  return Outcome();
}

void GroupTable::show(Group& group) noexcept {
  shm::GroupBlock& block = *group.block;
  const transport::RegionControl& ours = world_.regions->control();
  std::atomic<std::uint32_t>& slots = ours.words().slots;
  // relaxed: only we write it, and a rank that misses the id looks again.
  if (const auto end = static_cast<std::uint32_t>(group.slot + 1);
      slots.load(std::memory_order_relaxed) < end)
    slots.store(end, std::memory_order_relaxed);
  shm::show_block(ours.group_id(group.slot), block, ours.break_word(group.slot), group.id);
  Member& self = group.member(group.rank);
  self.block = &block;
  self.slot = group.slot;
}

void GroupTable::note_closed(std::uint64_t id) {
  closed_ids_.push_back(id);
  if (closed_ids_.size() > kClosedIds) closed_ids_.pop_front();
}

void GroupTable::retire(Group& group) noexcept {
  by_id_.erase(group.id);
  retired_.push_back(std::move(groups_[static_cast<std::size_t>(group.slot)]));
  sweep_retired();
}

}  // namespace tutti::engine
