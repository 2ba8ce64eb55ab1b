#include "engine/engine.hpp"

// A group begins and ends: what the other parts do about it.
namespace tutti::engine {

Result<Group*> Engine::add_group(const GroupSpec& spec) {
  Result<Group*> made = groups_.make(spec);
  if (!made.ok()) return made;
  break_if_lost_already(**made);
  adopt_early(**made);
  return made;
}

void Engine::remove_group(Group& group) noexcept {
  // First cause wins; other hosts hear of a break before they hear that we have closed the group.
  guarded(nullptr, [&] {
    if (propagation_.breaks_to_see()) [[unlikely]]
      propagation_.check_breaks();
  });
  propagation_.tell_the_rest(group);
  if (!group.broken) {
    Status cause = group.no_memory;
    guarded(&group,
            [&] { cause = Status(Errc::aborted, "group '" + group.name + "' was destroyed"); });
    propagation_.end(group, cause);
  }
  guarded(nullptr, [&] { groups_.note_closed(group.id); });
  channel_.drop_held(group.id);
  forget_matcher(group);
  groups_.retire(group);
}

}  // namespace tutti::engine
