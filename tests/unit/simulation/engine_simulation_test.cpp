#include "unit/simulation/play.hpp"

// The engine on a simulated network, nothing going wrong: whatever the order in which ranks run and
// frames arrive, every result is right to the last bit.
namespace tutti::engine::simulation {
namespace {

using namespace std::chrono_literals;

struct History {
  std::string wrong;
  std::uint64_t trace = 0;
  std::uint64_t frames = 0;
};

History run(std::uint64_t seed) {
  Random random(seed);
  Setup setup = random_setup(random, seed);
  ScriptOptions options;
  options.ranks = numbers(setup.host_of.size());
  options.items = static_cast<int>(random.between(1, random.chance(20) ? 40 : 12));
  if (random.chance(10)) {
    setup.algorithms = "all_reduce:ring";
    options.exact = true;
  }
  const Script script = make_script(random, options);
  Simulation simulation(setup);
  Play play(simulation, script, 20s);
  const bool ended = simulation.run([&](int rank) { return play.act(rank); },
                                    [&] { return play.all_finished(); }, Simulation::now() + 100s);
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
  for_each_seed(1000, [&](std::uint64_t seed) {
    History history = run(seed);
    frames += history.frames;
    return history.wrong;
  });
  if (std::getenv("TUTTI_SEED") == nullptr) {
    EXPECT_GT(frames, 0u);
  }
}

/// How long an all_reduce of so many float32 takes, once all ranks, each on a host of its own, have
/// called it.
std::chrono::nanoseconds time_of_all_reduce(int ranks, std::size_t count,
                                            const verify::sim::LinkOptions& links) {
  Setup setup;
  setup.host_of = numbers(static_cast<std::size_t>(ranks));
  setup.links = links;
  Simulation simulation(setup);
  std::vector<Group*> groups;
  for (const int rank : setup.host_of)
    groups.push_back(simulation.add_group(
        rank, {.id = 1, .name = "world", .ranks = setup.host_of, .timeout = 20s}));
  std::vector<std::vector<float>> data(setup.host_of.size(), std::vector<float>(count, 1));
  const TimePoint begin = Simulation::now();
  std::vector<std::uint64_t> tickets;
  for (const int rank : setup.host_of) {
    const TensorView view = TensorView(base::at(data, rank));
    tickets.push_back(simulation.engine(rank).submit(
        *base::at(groups, rank),
        {.kind = Kind::all_reduce, .timeout = 20s, .input = view, .output = view}));
  }
  const auto finished = [&] {
    return std::ranges::all_of(setup.host_of, [&](int rank) {
      return simulation.engine(rank).is_done(*base::at(groups, rank), base::at(tickets, rank));
    });
  };
  EXPECT_TRUE(simulation.run_engines(finished, begin + 10s));
  for (const auto& one : data) EXPECT_EQ(one, std::vector<float>(count, static_cast<float>(ranks)));
  return Simulation::now() - begin;
}

TEST(EngineSimulation, SmallAllReduceBetweenHostsTakesOneLatency) {
  verify::sim::LinkOptions links;
  links.latency = 1ms;
  links.jitter = {};
  links.bytes_per_microsecond = 10'000;
  links.pieces = 1;
  for (const int ranks : {2, 3, 4}) {
    for (const std::size_t count : {2U, 16U}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements");
      const auto took = time_of_all_reduce(ranks, count, links);
      EXPECT_GE(took, links.latency);
      EXPECT_LT(took, 2 * links.latency) << "a second round of messages";
    }
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
