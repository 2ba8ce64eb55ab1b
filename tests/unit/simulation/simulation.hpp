#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "support/rotation.hpp"
#include "transport/shm/ring_transport.hpp"
#include "verify/sim/memory.hpp"
#include "verify/sim/network.hpp"

namespace tutti::engine::simulation {

using verify::sim::Random;

struct Setup {
  std::uint64_t seed = 0;
  std::vector<int> host_of;
  verify::sim::LinkOptions links;
  std::string algorithms;
  int cpus = 4;
  /// The transport that a rank uses in place of its own; empty: its own.
  std::function<transport::Transport*(int rank, transport::Transport&)> observed = {};
};

/// 0, 1, ...
[[nodiscard]] inline std::vector<int> numbers(std::size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// A world of random shape and speed.
[[nodiscard]] Setup random_setup(Random& random, std::uint64_t seed);
/// Hosts and algorithms, for messages.
[[nodiscard]] std::string describe(const Setup& setup);

/// Ranks with an engine each, in one thread and in virtual time. Who is driven next, and how often,
/// follows from the seed.
class Simulation {
 public:
  explicit Simulation(const Setup& setup);
  ~Simulation();

  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Engine& engine(int rank) noexcept { return *base::at(ranks_, rank).engine; }
  [[nodiscard]] verify::sim::Network& network() noexcept { return network_; }
  [[nodiscard]] Random& random() noexcept { return random_; }
  [[nodiscard]] static TimePoint now() noexcept { return verify::sim::Network::now(); }

  /// It is never driven again; the others hear of it within a few milliseconds.
  void kill(int rank);
  void freeze(int rank) { at(rank).frozen = true; }
  void thaw(int rank) {
    at(rank).frozen = false;
    at(rank).quiet = false;
  }
  /// It says that it leaves, once what it has to send is sent, and is then driven no more.
  void leave(int rank) { at(rank).leaving = true; }
  [[nodiscard]] bool runs(int rank) const noexcept {
    const Rank& one = base::at(ranks_, rank);
    return !one.dead && !one.frozen;
  }

  /// Drives ranks until `finished`. `act`: what the program of a rank does when it is its turn;
  /// true if it did something. False when virtual time reached `limit` first.
  [[nodiscard]] bool run(const std::function<bool(int)>& act, const std::function<bool()>& finished,
                         TimePoint limit);
  /// The same, and programs do nothing.
  [[nodiscard]] bool run_engines(const std::function<bool()>& finished, TimePoint limit) {
    return run([](int) { return false; }, finished, limit);
  }
  /// The rank becomes a member of such a group.
  Group* add_group(int rank, const GroupSpec& spec) { return engine(rank).add_group(spec).value(); }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  struct Rank {
    std::unique_ptr<transport::shm::RingTransport> ring;  ///< to the ranks of its host
    std::unique_ptr<Engine> engine;
    bool dead = false;
    bool frozen = false;
    bool leaving = false;
    bool quiet = false;  ///< nothing moved when it was driven last
    TimePoint next_tick{};
    std::multimap<TimePoint, int> deaths;  ///< of local peers, by index: when it hears of them
  };

  [[nodiscard]] Rank& at(int rank) noexcept { return base::at(ranks_, rank); }
  bool drive(int rank, const std::function<bool(int)>& act);
  int pick();
  void jump();

  verify::sim::Memory memory_;
  verify::sim::Network network_;
  Random random_;
  std::vector<Rank> ranks_;
  int last_ = 0;
  std::uint64_t steps_ = 0;
};

/// Seeds from here on are those of a rotation.
inline constexpr std::uint64_t kRotatingSeeds = 1'000'000'000;

/// Runs `body` (empty: good) for seeds 1 .. `seeds` and for as many again that follow from the
/// commit; with TUTTI_LONG_TESTS for ten times as many of both, under a sanitizer for half as many.
/// TUTTI_SEEDS sets how many, TUTTI_SEED runs that one alone. Stops at the first seed that fails
/// and says how to repeat it.
inline void for_each_seed(std::uint64_t seeds,
                          const std::function<std::string(std::uint64_t)>& body) {
  if (const char* const one = std::getenv("TUTTI_SEED")) {
    ASSERT_EQ(body(std::strtoull(one, nullptr, 10)), "");
    return;
  }
  if (test::kSanitized) seeds /= 2;
  if (const char* const many = std::getenv("TUTTI_SEEDS")) seeds = std::strtoull(many, nullptr, 10);
  if (test::long_tests()) seeds *= 10;
  for (const std::uint64_t before : {std::uint64_t{0}, kRotatingSeeds + test::rotation() * seeds}) {
    for (std::uint64_t seed = before + 1; seed <= before + seeds; ++seed) {
      const std::string wrong = body(seed);
      ASSERT_EQ(wrong, "") << "repeat it with TUTTI_SEED=" << seed;
    }
  }
}

}  // namespace tutti::engine::simulation
