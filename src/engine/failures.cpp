#include <algorithm>
#include <utility>
#include <vector>

#include "engine/blame.hpp"
#include "engine/engine.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"

// Ends operations when a group breaks, and breaks groups when a rank is lost.
namespace tutti::engine {

void Engine::break_group(Group& group, const Outcome& cause) noexcept {
  propagation_.break_group(group, cause);
}

void Engine::break_for(Group& group, const std::optional<Outcome>& cause) noexcept {
  if (cause) break_group(group, *cause);
}

bool Engine::hear_of_break(Group& group) noexcept { return propagation_.hear_of_break(group); }

void Engine::break_for_memory(Group* group) noexcept {
  if (group != nullptr) return propagation_.break_for_memory(*group);
  for (const auto& [id, each] : groups_.by_id()) propagation_.break_for_memory(*each);
}

void Engine::end_all(Group& group) noexcept {
  for (Op& op : group.window) {
    if (op.state != Op::State::running) continue;
    op.failed = true;
    end(op);
    call_back(op, group.cause);
  }
  if (group.matcher != nullptr) group.matcher->fail();
  queued_ -= group.window.fail_queue(completions_, group.cause);
  channel_.drop_held(group.id);
  group.window.close();
  (void)groups_.settle(group);
}

void Engine::local_peer_died(int local_index) noexcept {
  transport::RegionPeer& peer = world_.regions->peers[static_cast<std::size_t>(local_index)];
  // Takes all that it had published or sent completely. One pass takes a part of a full ring, and
  // some 20 passes take the longest one.
  for (int pass = 0; pass < 64 && progress(); ++pass) {
  }
  // acquire: pairs with Host::leave; its last lines were written before that.
  peer.died = true;
  if (peer.header().left.load(std::memory_order_acquire) != 0) return;
  channel_.clear_control(peer.rank);  // nobody will read those frames
  guarded(nullptr, [&] { lost(peer.rank, Outcome(Errc::peer_lost, "its process died")); });
}

void Engine::on_lost(int peer, const Outcome& why) noexcept {
  channel_.connection_ended(peer);
  // If a rank was only asked what it is doing, no operation here needs anything from it, and it may
  // have ended gracefully. So that it cannot be reached breaks no group.
  if (why.code() == Errc::peer_left || channel_.is_only_asked(peer)) {
    channel_.set_left(peer);
    return;
  }
  guarded(nullptr, [&] {
    // A tick ends the inquiry if nobody answers it, and ticks come only while we are busy.
    const bool asks = busy() && why.code() == Errc::peer_lost &&
                      world_.route[static_cast<std::size_t>(peer)]->is_unanswered(peer);
    if (!asks || !inquiry_.begin(peer, why)) lost(peer, why);
  });
}

/// The inquiry about this loss is over.
void Engine::report_loss(const LossInquiry::Loss& loss) {
  channel_.connection_ended(loss.peer);  // of frames that were made meanwhile
  lost(loss.peer, loss.why);
}

/// A new group may have members that are gone, or be broken by somebody who made it earlier.
void Engine::break_if_lost_already(Group& group) {
  if (propagation_.break_if_aborted_early(group)) return;
  for (int rank = 0; rank < group.size; ++rank) {
    if (!channel_.is_lost(group.member(rank).global)) continue;
    break_group(group, Outcome(Errc::peer_lost,
                               "group '" + group.name + "': " + name_of(world_, group, rank) +
                                   " was lost before the group was made; make one of "
                                   "the survivors.")
                           .with_culprit(rank));
    return;
  }
}

void Engine::lost(int peer, const Outcome& why) {
  if (!channel_.set_lost(peer)) return;
  std::vector<FailurePropagation::Break> breaks;
  for (const auto& [id, group] : groups_.by_id()) {
    const int rank = group->rank_of(peer);
    if (!group->broken && rank >= 0) breaks.push_back({group, loss_of(*group, rank, why)});
  }
  propagation_.break_groups(breaks);
}

/// The cause for the loss of this rank of the group.
Outcome Engine::loss_of(Group& group, int rank, const Outcome& why) {
  std::string text = group.matcher != nullptr ? group.matcher->running_text() : std::string();
  if (text.empty()) text = "group '" + group.name + "'";
  for (const Op& op : group.window) {
    if (op.state != Op::State::running) continue;
    text = op_text(op);
    break;
  }
  Blame blame(std::move(text), 0, group.size, [&](int one) { return name_of(world_, group, one); });
  // With Errc::resource our own memory was short, for frames to that rank.
  blame.lost(rank, why, why.code() == Errc::resource ? group.rank : rank);
  return blame.loss();
}

}  // namespace tutti::engine
