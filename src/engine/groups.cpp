#include "engine/engine.hpp"

// Makes and removes groups, and updates the other parts of the engine.
namespace tutti::engine {

Result<Group*> Engine::add_group(const GroupSpec& spec) {
  Result<Group*> made = groups_.make(spec);
  if (!made.ok()) return made;
  if (world_.recorder != nullptr && spec.recorded)
    (*made)->record_place =
        world_.recorder->add_group(spec.id, spec.name, (*made)->rank, (*made)->size);
  break_if_lost_already(**made);
  p2p_.adopt_early(**made);
  return made;
}

void Engine::remove_group(Group& group) noexcept {
  // The first cause wins. Other hosts must hear of a break before they hear that we have closed the
  // group.
  guarded(nullptr, [&] {
    if (propagation_.breaks_to_see()) [[unlikely]]
      propagation_.check_breaks();
  });
  propagation_.tell_the_rest(group);
  if (!group.broken) {
    Outcome cause = group.no_memory;
    guarded(&group,
            [&] { cause = Outcome(Errc::aborted, "group '" + group.name + "' was destroyed"); });
    propagation_.end(group, cause);
  }
  guarded(nullptr, [&] { groups_.note_closed(group.id); });
  channel_.drop_held(group.id);
  p2p_.forget(group);
  if (world_.recorder != nullptr) world_.recorder->remove_group(group.record_place);
  groups_.retire(group);
}

}  // namespace tutti::engine
