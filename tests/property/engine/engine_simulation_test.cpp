#include <gtest/gtest.h>

#include <numeric>

#include "property/engine/play.hpp"
#include "property/engine/seeds.hpp"

// The engine on a simulated network, nothing going wrong: whatever the order in which ranks run and
// frames arrive, every result is right to the last bit.
namespace tutti::engine::simulation {
namespace {

using std::chrono::seconds;

struct History {
  std::string wrong;
  std::uint64_t trace = 0;
  std::uint64_t frames = 0;
};

History run(std::uint64_t seed) {
  Random random(seed);
  Setup setup = random_setup(random, seed);
  ScriptOptions options;
  options.ranks.resize(setup.host_of.size());
  std::iota(options.ranks.begin(), options.ranks.end(), 0);
  options.items = static_cast<int>(random.between(1, random.chance(20) ? 40 : 12));
  if (random.chance(10)) {
    setup.algorithms = "all_reduce:ring";
    options.exact = true;
  }
  const Script script = make_script(random, options);
  Simulation simulation(setup);
  Play play(simulation, script, seconds(20));
  const auto finished = [&] {
    for (const int rank : options.ranks) {
      if (!play.finished(rank)) return false;
    }
    return true;
  };
  const bool ended = simulation.run([&](int rank) { return play.act(rank); }, finished,
                                    Simulation::now() + seconds(100));
  History history;
  history.trace = simulation.network().trace();
  history.frames = simulation.network().frames();
  if (!ended) history.wrong += "not finished:" + play.standing();
  for (const Ending& ending : play.endings()) {
    if (ending.status.ok()) continue;
    history.wrong += "\nrank " + std::to_string(ending.rank) + ", item " +
                     std::to_string(ending.item) + ": " + std::string(ending.status.message());
    break;
  }
  for (const std::string& complaint : play.complaints()) history.wrong += "\n" + complaint;
  if (!history.wrong.empty()) history.wrong += describe(setup);
  return history;
}

TEST(EngineSimulation, ResultsAreRightToTheLastBit) {
  std::uint64_t frames = 0;
  for_each_seed(4000, [&](std::uint64_t seed) {
    History history = run(seed);
    frames += history.frames;
    return history.wrong;
  });
  if (std::getenv("TUTTI_SEED") == nullptr) {
    EXPECT_GT(frames, 0u);
  }
}

TEST(EngineSimulation, OneSeedIsOneHistory) {
  std::uint64_t different = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const History first = run(seed);
    const History second = run(seed);
    EXPECT_EQ(first.trace, second.trace) << "seed " << seed;
    EXPECT_EQ(first.frames, second.frames) << "seed " << seed;
    if (first.trace != run(seed + 100).trace) ++different;
  }
  EXPECT_GT(different, 15u);
}

}  // namespace
}  // namespace tutti::engine::simulation
