#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/group.hpp"
#include "engine/p2p_matcher.hpp"
#include "engine/world.hpp"
#include "verify/sim/memory.hpp"

namespace tutti::engine {

/// The clock of all ranks, which the test moves, and the state of a process, as the test says.
inline TimePoint bare_now;
inline std::function<std::string(int)> bare_process_state;

/// The groups of one rank in shared memory, as an engine would have made them, without an engine.
/// Slots count up.
class BareGroups {
 public:
  BareGroups(verify::sim::Memory& memory, int rank, int size) : rank_(rank) {
    world_.rank = rank;
    world_.size = size;
    world_.now = []() noexcept { return bare_now; };
    world_.process_state = [](int pid) { return bare_process_state(pid); };
    world_.regions = &memory.regions(rank);
    world_.local_of = memory.local_of(rank);
    world_.whereabouts.assign(base::as_size(size), "");
    world_.transports.assign(base::as_size(size), nullptr);
  }

  [[nodiscard]] World& world() noexcept { return world_; }
  [[nodiscard]] const auto& by_id() const noexcept { return by_id_; }
  /// Of all ranks.
  Group& make(std::uint64_t id) {
    auto group = std::make_unique<Group>();
    group->id = id;
    group->name = "group " + std::to_string(id);
    group->size = world_.size;
    group->rank = rank_;
    group->slot = static_cast<int>(groups_.size());
    group->regions = world_.regions;
    group->block = new (&world_.regions->control().group(group->slot)) transport::shm::GroupBlock{};
    group->no_memory = Outcome(Errc::resource, "no memory").with_culprit(rank_);
    for (int rank = 0; rank < world_.size; ++rank) {
      Member& member = group->members.emplace_back();
      member.global = rank;
      member.local = base::at(world_.local_of, rank);
      if (rank != rank_ && member.local >= 0) group->local_members.push_back(rank);
    }
    std::vector<int> hosts;  // a rank that is not on ours has one of its own
    for (int rank = 0; rank < world_.size; ++rank)
      hosts.push_back(group->member(rank).local >= 0 ? 0 : rank + 1);
    group->plans = std::make_unique<PlanCache>(rank_, plan::make_topology(hosts), 8, "");
    Member& self = group->member(rank_);
    self.block = group->block;
    self.slot = group->slot;
    world_.regions->control().words().slots.store(static_cast<std::uint32_t>(group->slot) + 1);
    world_.regions->control().break_word(group->slot).store(0);
    world_.regions->control().group_id(group->slot).store(id);
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

/// A test of such ranks: all run, until it says otherwise.
class BareGroupsTest : public testing::Test {
 protected:
  BareGroupsTest() {
    bare_now = TimePoint(std::chrono::hours(1));
    bare_process_state = [](int) { return std::string(); };
  }
  /// In simulated memory the process of a rank has the number of the rank, plus one.
  static void set_process_state(int rank, const std::string& state) {
    bare_process_state = [=](int pid) { return pid == rank + 1 ? state : std::string(); };
  }
  static void expect_text(const std::optional<Outcome>& cause, const std::string& part) {
    ASSERT_TRUE(cause);
    EXPECT_THAT(std::string(cause->message()), testing::HasSubstr(part));
  }
  /// The rank has made this call, and all before it.
  static void call(Group& group, std::uint64_t seq) { group.block->line(seq).epoch.store(seq); }
};

/// Notes who is asked what.
struct NotedPings final : ControlChannel {
  void control(int peer, const transport::FrameHeader& header, std::string /*payload*/) override {
    EXPECT_EQ(type_of(header), transport::FrameType::ping);
    sent.emplace_back(peer, transport::decode<transport::PingFrame>(header));
  }
  bool take_in(int /*peer*/) override { return false; }
  [[nodiscard]] bool has_left(int peer) const noexcept override { return peer == left; }
  int left = -1;
  std::vector<std::pair<int, transport::PingFrame>> sent;
};

}  // namespace tutti::engine
