#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "verify/sim/memory.hpp"

namespace tutti::engine {

/// Engines of the ranks of one host, in one thread. Nobody drives them but the test.
class Host {
 public:
  /// `change`: what the world of each rank has otherwise.
  explicit Host(int size, const std::function<void(World&)>& change = {})
      : memory_(std::vector<int>(base::as_size(size), 0)) {
    const auto count = base::as_size(size);
    for (int rank = 0; rank < size; ++rank) {
      World world;
      world.rank = rank;
      world.size = size;
      world.regions = &memory_.regions(rank);
      world.host_of.assign(count, 0);
      world.local_of = memory_.local_of(rank);
      world.transports.assign(count, nullptr);
      world.whereabouts.assign(count, "");
      world.now = []() noexcept { return TimePoint(std::chrono::hours(1)); };
      world.populate = [](std::byte*, std::size_t) { return Outcome(); };
      if (change) change(world);
      engines_.push_back(std::make_unique<Engine>(std::move(world)));
      everybody_.push_back(rank);
    }
    groups_.resize(count);
  }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(engines_.size()); }
  [[nodiscard]] Engine& engine(int rank) noexcept { return *base::at(engines_, rank); }
  [[nodiscard]] transport::Regions& regions(int rank) noexcept { return memory_.regions(rank); }

  /// The rank makes group `id`; the slot that it took, -1 where it has none. `ranks`: its members,
  /// none: all.
  int make(int rank, std::uint64_t id, std::vector<int> ranks = {}) {
    Result<Group*> made =
        engine(rank).add_group({.id = id,
                                .name = "group " + std::to_string(id),
                                .ranks = ranks.empty() ? everybody_ : std::move(ranks)});
    if (!made.ok()) return -1;
    base::at(groups_, rank)[id] = *made;
    return (*made)->slot;
  }
  /// All ranks make it; false: one of them cannot.
  bool make_all(std::uint64_t id) {
    return std::ranges::all_of(everybody_, [&](int rank) { return make(rank, id) >= 0; });
  }
  [[nodiscard]] Group& group(int rank, std::uint64_t id) { return *base::at(groups_, rank).at(id); }
  void close(int rank, std::uint64_t id) {
    auto& groups = base::at(groups_, rank);
    engine(rank).remove_group(*groups.at(id));
    groups.erase(id);
  }
  /// All do what they can until nothing moves any more.
  void settle() {
    bool moved = true;
    for (int pass = 0; moved && pass < 10'000; ++pass) {
      moved = false;
      for (const auto& engine : engines_) moved |= engine->progress();
    }
  }
  /// Slots that this rank cannot use though it has no group: those among its first `most`.
  [[nodiscard]] int leaked(int rank, int most) {
    std::set<int> free;
    for (int i = 0; i < most; ++i)
      free.insert(make(rank, kAlone + static_cast<unsigned>(i), {rank}));
    for (int i = 0; i < most; ++i) close(rank, kAlone + static_cast<unsigned>(i));
    int lost = 0;
    for (int slot = 0; slot < most; ++slot) lost += free.contains(slot) ? 0 : 1;
    return lost;
  }
  /// All look around twice, as they do whenever they make or close a group.
  void look_around() {
    for (int round = 0; round < 2; ++round) {
      for (int rank = 0; rank < size(); ++rank) {
        make(rank, kAlone, {rank});
        close(rank, kAlone);
      }
    }
  }

 private:
  static constexpr std::uint64_t kAlone = 1'000'001;

  verify::sim::Memory memory_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<int> everybody_;
  std::vector<std::unordered_map<std::uint64_t, Group*>> groups_;  // by rank
};

}  // namespace tutti::engine
