#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

#include "group/thread_ranks.hpp"
#include "support/rotation.hpp"

// Worlds whose ranks are threads of the test, for the tests of groups and of backends.
namespace tutti::test {

/// How ranks reach each other. mixed, halves: they are on two hosts, in turn or by halves.
enum class Way { shm, tcp, tls, mixed, halves };

inline std::string name_of(Way way) {
  constexpr const char* kNames[] = {"Shm", "Tcp", "Tls", "Mixed", "Halves"};
  return kNames[static_cast<int>(way)];
}

/// An operation that takes a minute hangs: its error ends the test.
inline Config config_of(Way way, int rank, int size) {
  Config config;
  config.timeout = std::chrono::seconds(60);
  if (way == Way::tcp || way == Way::tls) config.transport = Config::TransportChoice::tcp;
  config.tls = way == Way::tls;
  if (way == Way::mixed) config.host_id = rank % 2 == 0 ? "even" : "odd";
  if (way == Way::halves) config.host_id = rank < size / 2 ? "one" : "other";
  return config;
}

struct World {
  using Body = std::function<void(ProcessGroup& world)>;
  using Change = std::function<void(Config& config)>;

  int size = 2;
  Way way = Way::shm;

  /// Runs the body on every rank. `change`: what else stands in the config of all of them.
  void run(const Body& body, const Change& change = {}) const {
    group::run_thread_ranks(size, body, [&](int rank) {
      Config config = config_of(way, rank, size);
      if (change) change(config);
      return config;
    });
  }
};
inline void PrintTo(const World& world, std::ostream* out) {
  *out << name_of(world.way) << world.size;
}

/// Every size in every way.
inline std::vector<World> worlds(const std::vector<int>& sizes, const std::vector<Way>& ways) {
  std::vector<World> all;
  for (const Way way : ways) {
    for (const int size : sizes) all.push_back({size, way});
  }
  return all;
}

/// Every size by shared memory and by TCP.
inline std::vector<World> plain_worlds() { return worlds(world_sizes(), {Way::shm, Way::tcp}); }

/// Tests that take a world; INSTANTIATE_TEST_SUITE_P says which.
class OnWorlds : public testing::TestWithParam<World> {
 protected:
  static void run(const World::Body& body, const World::Change& change = {}) {
    GetParam().run(body, change);
  }
};
inline std::string world_name(const testing::TestParamInfo<World>& one) {
  return testing::PrintToString(one.param);
}

/// Waits for what another rank does.
inline void wait_for(const std::function<bool()>& event) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!event()) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "it has not come";
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
inline void wait_until_broken(const ProcessGroup& group) {
  wait_for([&] { return !group.health().ok(); });
}

/// The ranks after and before this one, in a ring.
inline int after(const ProcessGroup& world) { return (world.rank() + 1) % world.size(); }
inline int before(const ProcessGroup& world) {
  return (world.rank() + world.size() - 1) % world.size();
}

}  // namespace tutti::test
