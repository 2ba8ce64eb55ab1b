#include <array>
#include <set>

#include "engine/interpreter.hpp"
#include "engine/names.hpp"
#include "unit/simulation/play.hpp"

// Interpreter::blocked_on against polling: while one of the ranks that it names stands still, the
// operation stays where it is, however often it is polled and whatever all others do.
namespace tutti::engine::simulation {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// All that is on its way arrives within this.
constexpr milliseconds kQuiet{50};

/// Where an operation stands.
struct Place {
  explicit Place(const Op& op)
      : seq(op.seq),
        runs(op.state == Op::State::running),
        pc(op.program.pc),
        loops{op.program.var[0], op.program.var[1]} {}
  friend bool operator==(const Place&, const Place&) = default;
  std::uint64_t seq;
  bool runs;
  std::uint32_t pc;
  std::array<std::int64_t, 2> loops;
};

class Looks {
 public:
  explicit Looks(std::uint64_t seed) : random_(seed), setup_(random_setup(random_, seed)) {
    ScriptOptions options;
    options.ranks = numbers(setup_.host_of.size());
    options.items = static_cast<int>(random_.between(1, 12));
    script_ = make_script(random_, options);
  }

  std::string run() {
    Simulation simulation(setup_);
    Play play(simulation, script_, hours(1000));
    const auto act = [&](int rank) { return play.act(rank); };
    const auto finished = [&] { return play.all_finished(); };
    for (int look = 0; look < 4; ++look) {
      const auto ahead = std::chrono::microseconds(random_.between(1, 2000));
      if (simulation.run(act, finished, Simulation::now() + ahead)) break;
      const int rank = static_cast<int>(random_.below(setup_.host_of.size()));
      if (std::string wrong = look_at(simulation, play, rank); !wrong.empty())
        return wrong + describe(setup_);
    }
    if (!simulation.run(act, finished, Simulation::now() + std::chrono::seconds(100)))
      return "not finished:" + play.standing() + describe(setup_);
    const std::vector<std::string> complaints = play.complaints();
    return complaints.empty() ? "" : complaints.front() + describe(setup_);
  }
  [[nodiscard]] int named() const noexcept { return named_; }
  /// Kinds of steps at which an operation stood, and behind the last one.
  [[nodiscard]] const std::set<int>& steps() const noexcept { return steps_; }

 private:
  /// Others stand still, until this rank has done what it can.
  static void settle(Simulation& simulation, int rank) {
    for (int other = 0; other < simulation.size(); ++other) {
      if (other != rank) simulation.freeze(other);
    }
    (void)simulation.run_engines([] { return false; }, Simulation::now() + kQuiet);
    for (int other = 0; other < simulation.size(); ++other) simulation.thaw(other);
  }

  std::string look_at(Simulation& simulation, Play& play, int rank) {
    settle(simulation, rank);
    const Op* const op = play.running(rank);
    if (op == nullptr) return {};
    const std::vector<int> ranks = Interpreter::blocked_on(*op);
    if (ranks.empty()) {
      // What it has sent is not taken yet, as others stand still.
      return simulation.engine(rank).has_unsent() ? "" : "it waits for nobody: " + text_of(*op);
    }
    named_ += static_cast<int>(ranks.size());
    const auto& steps = op->plan->schedule->steps;
    steps_.insert(op->program.pc < steps.size() ? static_cast<int>(steps[op->program.pc].kind)
                                                : -1);
    const int one = ranks[random_.below(ranks.size())];
    const Place before(*op);
    const int global = op->group->member(one).global;
    simulation.freeze(global);
    (void)simulation.run([&](int other) { return play.act(other); }, [] { return false; },
                         Simulation::now() + kQuiet);
    simulation.thaw(global);
    if (Place(*op) == before) return {};
    return "rank " + std::to_string(one) + " was named and not needed: " + text_of(*op);
  }
  static std::string text_of(const Op& op) {
    return op_text(op) + " on rank " + std::to_string(op.group->rank) + ", step " +
           std::to_string(op.program.pc) + " of " + std::to_string(op.plan->schedule->steps.size());
  }

  Random random_;
  Setup setup_;
  Script script_;
  int named_ = 0;
  std::set<int> steps_;
};

TEST(BlockedOn, WithoutARankThatItNamesTheOperationStaysWhereItIs) {
  int named = 0;
  std::set<int> steps;
  for_each_seed(300, [&](std::uint64_t seed) {
    Looks looks(seed);
    std::string wrong = looks.run();
    named += looks.named();
    steps.insert(looks.steps().begin(), looks.steps().end());
    return wrong;
  });
  if (std::getenv("TUTTI_SEED") != nullptr) return;
  EXPECT_GT(named, 0);
  if (std::getenv("TUTTI_SEEDS") != nullptr) return;
  EXPECT_GT(named, 100);
  using plan::StepKind;
  for (const StepKind kind : {StepKind::await_line, StepKind::await, StepKind::await_recv})
    EXPECT_TRUE(steps.contains(static_cast<int>(kind))) << static_cast<int>(kind);
}

}  // namespace
}  // namespace tutti::engine::simulation
