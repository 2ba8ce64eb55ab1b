#include <algorithm>
#include <utility>

#include "engine/engine.hpp"
#include "engine/p2p_matcher.hpp"

// What becomes of operations and callbacks where the system refuses memory: the group breaks, with
// code `resource`, and this rank is the culprit. Nothing here needs memory to do so.
namespace tutti::engine {

/// First cause wins here too. The text of another cause needs memory; without it ours is told.
void Engine::break_for_memory(Group* group) noexcept {
  if (group == nullptr) {
    for (const std::unique_ptr<Group>& each : groups_) {
      if (each != nullptr) break_for_memory(each.get());
    }
    return;
  }
  if (group->broken) return;
  Status cause = group->no_memory;
  try {
    cause = claim(*group, cause);
  } catch (const std::bad_alloc&) {  // our page says it already
  }
  spread(*group, cause);
}

/// What finds no memory is tried again at the next pass.
void Engine::try_tell_remote(Group& group, const Status& cause) noexcept {
  try {
    group.untold = false;
    tell_remote(group, cause);
  } catch (const std::bad_alloc&) {
    group.untold = true;
    untold_ = true;
  }
}

void Engine::tell_the_rest() noexcept {
  untold_ = false;
  for (const std::unique_ptr<Group>& group : groups_) {
    if (group != nullptr && group->untold) try_tell_remote(*group, group->cause);
  }
}

bool Engine::on_done(Group& group, std::uint64_t ticket, Callback callback) noexcept {
  try {
    completions_.reserve();
    if (const std::optional<Status> known = outcome(group, ticket)) {
      completions_.add(callback, *known);
      return true;
    }
    if (is_p2p(ticket)) {
      group.matcher->on_done(ticket, callback);
    } else if (Op& op = group.op_at(ticket); op.seq == ticket) {
      op.callbacks.push_back(callback);
    } else {
      group.queued_callbacks.emplace_back(ticket, callback);
    }
    completions_.registered();
    return true;
  } catch (const std::bad_alloc&) {
    break_for_memory(&group);
    return false;
  }
}

}  // namespace tutti::engine
