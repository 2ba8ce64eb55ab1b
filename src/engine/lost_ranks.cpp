#include "engine/lost_ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "engine/blame.hpp"
#include "engine/detector_times.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"

namespace tutti::engine {

using transport::PongFrame;

namespace {

constexpr int kMostWitnesses = 3;
constexpr std::size_t kMostQuestions = 64;

}  // namespace

void LostRanks::connection_ended(int peer, const Outcome& why, bool may_ask) noexcept {
  channel_.connection_ended(peer);
  // If a rank was only asked what it is doing, no operation here needs anything from it, and it may
  // have ended gracefully. So that it cannot be reached breaks no group.
  if (why.code() == Errc::peer_left || channel_.is_only_asked(peer)) {
    channel_.set_left(peer);
    return;
  }
  propagation_.guarded(nullptr, [&] {
    const bool asks = may_ask && why.code() == Errc::peer_lost &&
                      world_.transports[static_cast<std::size_t>(peer)]->is_unanswered(peer);
    if (!asks || !ask(peer, why)) lost(peer, why);
  });
}

void LostRanks::process_ended(int local_index) noexcept {
  transport::RegionPeer& peer = world_.regions->peers[static_cast<std::size_t>(local_index)];
  peer.died = true;
  // acquire: pairs with Host::leave; its last lines were written before that.
  if (peer.words().left.load(std::memory_order_acquire) != 0) return;
  channel_.clear_control(peer.rank);  // nobody will read those frames
  propagation_.guarded(nullptr,
                       [&] { lost(peer.rank, Outcome(Errc::peer_lost, "its process died")); });
}

void LostRanks::check_new_group(Group& group) {
  if (propagation_.break_if_aborted_early(group)) return;
  for (int rank = 0; rank < group.size; ++rank) {
    if (!channel_.is_lost(group.member(rank).global)) continue;
    propagation_.break_group(
        group,
        Outcome(Errc::peer_lost, "group '" + group.name + "': " + name_of(world_, group, rank) +
                                     " was lost before the group was made; make one of "
                                     "the survivors.")
            .with_culprit(rank));
    return;
  }
}

void LostRanks::lost(int peer, const Outcome& why) {
  if (!channel_.set_lost(peer)) return;
  std::vector<FailurePropagation::Break> breaks;
  for (const auto& [id, group] : groups_) {
    const int rank = group->rank_of(peer);
    if (!group->broken && rank >= 0) breaks.push_back({group, cause_for(*group, rank, why)});
  }
  propagation_.break_groups(breaks);
}

/// The cause for which the loss of this rank breaks the group.
Outcome LostRanks::cause_for(Group& group, int rank, const Outcome& why) const {
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

/// Begins an inquiry. False: there is nobody to ask, so the rank is lost now.
bool LostRanks::ask(int peer, const Outcome& why) {
  const auto host = [&](int rank) { return world_.host_of[static_cast<std::size_t>(rank)]; };
  for (const auto& [id, group] : groups_) {
    const int lost = group->rank_of(peer);
    if (lost < 0 || group->broken) continue;
    int asked = 0;
    for (int rank = 0; rank < group->size && asked < kMostWitnesses; ++rank) {
      const int global = group->member(rank).global;
      // A first connection would take too long, and the rank might be gone as well.
      if (host(global) == host(world_.rank) || host(global) == host(peer) ||
          !channel_.is_open(global) || !channel_.is_used(global))
        continue;
      transport::PingFrame ping{group->id};
      ping.unreached_plus_1 = static_cast<std::uint64_t>(lost) + 1;
      channel_.control(global, encode(ping));
      ++asked;
    }
    if (asked == 0) continue;
    inquiries_.push_back({peer, why, world_.now() + kWitnessTime});
    return true;
  }
  return false;
}

void LostRanks::end(std::vector<Inquiry>::iterator inquiry, const Outcome& why) {
  const int peer = inquiry->peer;
  inquiries_.erase(inquiry);
  channel_.connection_ended(peer);  // of frames that were made meanwhile
  lost(peer, why);
}

void LostRanks::tick(TimePoint now) {
  for (;;) {
    const auto due =
        std::ranges::find_if(inquiries_, [&](const Inquiry& one) { return now >= one.until; });
    if (due == inquiries_.end()) return;
    end(due, Outcome(due->why));
  }
}

void LostRanks::on_question(const Group& group, int asker, const transport::PingFrame& ping) {
  if (ping.unreached_plus_1 > static_cast<std::uint64_t>(group.size)) return;
  const int about = static_cast<int>(ping.unreached_plus_1) - 1;
  const Member& member = group.member(about);
  if (about == asker || about == group.rank || !channel_.is_open(member.global)) return;
  const TimePoint now = world_.now();
  std::erase_if(questions_, [&](const Question& one) { return now >= one.asked + kWitnessTime; });
  // A rank of our own host says nothing of the network.
  if (member.local >= 0 || questions_.size() >= kMostQuestions) return;
  questions_.push_back({group.id, asker, about, now});
  detector_.ping(group, about);
}

void LostRanks::on_answer(const Group& group, int rank) {
  if (questions_.empty()) return;
  for (const Question& one : questions_) {
    if (one.group != group.id || one.about != rank) continue;
    PongFrame pong{group.id};
    pong.reaches_plus_1 = static_cast<std::uint64_t>(rank) + 1;
    channel_.control(group.member(one.asker).global, encode(pong));
  }
  std::erase_if(questions_,
                [&](const Question& one) { return one.about == rank && one.group == group.id; });
}

void LostRanks::on_reached(const Group& group, int rank, const PongFrame& pong) {
  if (pong.reaches_plus_1 > static_cast<std::uint64_t>(group.size)) return;
  const int peer = group.member(static_cast<int>(pong.reaches_plus_1) - 1).global;
  const auto open = std::ranges::find(inquiries_, peer, &Inquiry::peer);
  if (open == inquiries_.end()) return;
  const Outcome& why = open->why;
  end(open, Outcome(why.code(), "only " + name_of(world_, group, group.rank) +
                                    " has lost it, and " + name_of(world_, group, rank) +
                                    " still reaches both: " + std::string(why.message())));
}

}  // namespace tutti::engine
