#include "engine/loss_inquiry.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "engine/detector_times.hpp"
#include "engine/names.hpp"

namespace tutti::engine {

using transport::PongFrame;

namespace {

constexpr int kMostWitnesses = 3;
constexpr std::size_t kMostQuestions = 64;

}  // namespace

bool LossInquiry::begin(int peer, const Outcome& why) {
  const auto host = [&](int rank) { return world_.host_of[static_cast<std::size_t>(rank)]; };
  for (const auto& [id, group] : groups_.by_id()) {
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
    open_.push_back({{peer, why}, world_.now() + kWitnessTime});
    return true;
  }
  return false;
}

void LossInquiry::on_ping(const Group& group, int asker, const transport::PingFrame& ping) {
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

void LossInquiry::on_pong(const Group& group, int rank) {
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

std::optional<LossInquiry::Loss> LossInquiry::on_reached(const Group& group, int rank,
                                                         const PongFrame& pong) {
  if (pong.reaches_plus_1 > static_cast<std::uint64_t>(group.size)) return std::nullopt;
  const int peer = group.member(static_cast<int>(pong.reaches_plus_1) - 1).global;
  const auto open =
      std::ranges::find_if(open_, [&](const Open& one) { return one.loss.peer == peer; });
  if (open == open_.end()) return std::nullopt;
  Loss loss = std::move(open->loss);
  open_.erase(open);
  loss.why =
      Outcome(loss.why.code(), "only " + name_of(world_, group, group.rank) + " has lost it, and " +
                                   name_of(world_, group, rank) +
                                   " still reaches both: " + std::string(loss.why.message()));
  return loss;
}

std::optional<LossInquiry::Loss> LossInquiry::take_due(TimePoint now) {
  const auto due = std::ranges::find_if(open_, [&](const Open& one) { return now >= one.until; });
  if (due == open_.end()) return std::nullopt;
  Loss loss = std::move(due->loss);
  open_.erase(due);
  return loss;
}

}  // namespace tutti::engine
