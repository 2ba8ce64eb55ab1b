#include <array>

#include "engine/detector_times.hpp"
#include "unit/simulation/play.hpp"

// The engine on a simulated network when something goes wrong at a random moment: every pending
// call of every survivor ends in time, with an error that names who did it, and the survivors can
// go on.
namespace tutti::engine::simulation {
namespace {

using namespace std::chrono_literals;

enum class Fault : std::uint8_t { kill, drop, freeze, short_freeze, leave, let_go, disagree };
constexpr std::array kFaults{Fault::kill,     Fault::kill,     Fault::kill,         Fault::drop,
                             Fault::drop,     Fault::freeze,   Fault::short_freeze, Fault::leave,
                             Fault::disagree, Fault::disagree, Fault::let_go};

constexpr auto kTimeout = 2s;
// A rank that has only destroyed its groups is found out by asking, group after group: long before
// this.
constexpr auto kLongTimeout = 60s;
constexpr auto kInTime = 100ms;  // from a death or a broken connection to the last error

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

int place_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// One run with one fault.
class Incident {
 public:
  explicit Incident(std::uint64_t seed)
      : random_(seed * 7 + 3), setup_(random_setup(random_, seed)) {
    while (setup_.host_of.size() < 2) setup_ = random_setup(random_, seed);
    fault_ = kFaults[random_.below(kFaults.size())];
    options_.ranks = numbers(setup_.host_of.size());
    options_.items = static_cast<int>(random_.between(2, 14));
    victim_ = static_cast<int>(random_.below(options_.ranks.size()));
    other_ = static_cast<int>(random_.below(options_.ranks.size()));
    if (other_ == victim_) other_ = (victim_ + 1) % static_cast<int>(options_.ranks.size());
    const auto host = [&](int rank) { return setup_.host_of[static_cast<std::size_t>(rank)]; };
    // Nothing that can break lies between the ranks of one host.
    if (fault_ == Fault::drop && host(victim_) == host(other_)) fault_ = Fault::kill;
    script_ = make_script(random_, options_);
  }

  std::string wrong();
  [[nodiscard]] std::uint64_t trace() const noexcept { return trace_; }
  [[nodiscard]] int failures() const noexcept { return failures_; }
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  [[nodiscard]] std::map<int, Script> disagreeing();
  [[nodiscard]] bool shows_nothing(const Script& own) const;
  void strike() {
    struck_ = true;
    switch (fault_) {
      case Fault::kill: simulation_->kill(victim_); break;
      case Fault::drop: simulation_->network().drop(victim_, other_, 5ms); break;
      case Fault::freeze:
      case Fault::short_freeze: simulation_->freeze(victim_); break;
      case Fault::leave:
      case Fault::let_go: play_->stop_calling(victim_); break;
      case Fault::disagree: break;
    }
  }
  void judge(const Ending& ending);
  void judge_untouched(const Ending& ending);
  [[nodiscard]] bool survives(int rank) const {
    return rank != victim_ || (fault_ != Fault::kill && fault_ != Fault::leave);
  }
  [[nodiscard]] bool all_finished(bool with_victim) const {
    return std::ranges::all_of(options_.ranks, [&](int rank) {
      return !survives(rank) || (rank == victim_ && !with_victim) || play_->finished(rank);
    });
  }
  bool go(const std::function<bool()>& finished, std::chrono::nanoseconds limit, const char* what) {
    const auto act = [&](int rank) {
      const bool may_go = struck_ && rank == victim_ && !play_->has_pending(rank);
      if (may_go && fault_ == Fault::leave) simulation_->leave(rank);
      if (may_go && fault_ == Fault::let_go) play_->let_go(rank);
      return play_->act(rank);
    };
    if (simulation_->run(act, finished, Simulation::now() + limit)) return true;
    complain(std::string("not finished: ") + what + play_->standing());
    return false;
  }
  void survivors_go_on();
  void complain(const std::string& what) { wrong_ += "\n" + what; }

  Random random_;
  Setup setup_;
  ScriptOptions options_;
  Fault fault_ = Fault::kill;
  int victim_ = 0;
  int other_ = 0;
  Script script_;
  std::size_t changed_ = 0;  ///< disagree: the item that the victim calls otherwise
  bool swapped_ = false;
  std::unique_ptr<Simulation> simulation_;
  std::unique_ptr<Play> before_;
  std::unique_ptr<Play> play_;
  bool struck_ = false;
  TimePoint thawed_at_ = TimePoint::max();
  std::uint64_t trace_ = 0;
  int failures_ = 0;
  std::string wrong_;
};

/// The victim's own script: one call of it is another one.
std::map<int, Script> Incident::disagreeing() {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < script_.items.size(); ++i) {
    const Item& item = script_.items[i];
    const auto& ranks = script_.groups[static_cast<std::size_t>(item.group)].ranks;
    const bool ordinary = item.kind == Kind::all_reduce || item.kind == Kind::broadcast ||
                          item.kind == Kind::barrier || item.kind == Kind::all_gather;
    if (item.action == Action::call && ordinary && ranks.size() > 1 && contains(ranks, victim_))
      candidates.push_back(i);
  }
  if (candidates.empty()) return {};
  changed_ = candidates[random_.below(candidates.size())];
  Script own = script_;
  Item& item = own.items[changed_];
  for (std::size_t next = changed_ + 1; random_.chance(30) && next < own.items.size(); ++next) {
    const Item& later = own.items[next];
    if (later.group != item.group || later.action != Action::call) break;
    const bool alike = later.kind == item.kind && later.count == item.count;
    if (alike && (later.kind == Kind::barrier || later.dtype == item.dtype)) break;
    std::swap(own.items[changed_], own.items[next]);
    swapped_ = true;
    return {{victim_, own}};
  }
  const auto size = script_.groups[static_cast<std::size_t>(item.group)].ranks.size();
  switch (item.kind == Kind::barrier ? 0 : random_.below(4)) {
    case 0:
      item.kind = item.kind == Kind::all_reduce ? Kind::broadcast : Kind::all_reduce;
      item.uneven = false;
      break;
    case 1: item.count += 1 + random_.below(100); break;
    case 2: item.dtype = item.dtype == DType::float32 ? DType::int32 : DType::float32; break;
    default:
      if (item.kind == Kind::broadcast)
        item.root = (item.root + 1) % static_cast<int>(size);
      else if (item.kind == Kind::all_gather)
        item.count += 1;
      else
        item.op = item.op == ReduceOp::sum ? ReduceOp::max : ReduceOp::sum;
  }
  item.number += 1;
  return {{victim_, own}};
}

/// An uneven all_gather in which no rank has an element, before and after the change: another count
/// is then the same call, as only the blocks are given, and nobody sends what could be compared.
bool Incident::shows_nothing(const Script& own) const {
  const auto is_empty = [&](const Item& item) {
    const auto size = script_.groups[static_cast<std::size_t>(item.group)].ranks.size();
    return item.kind == Kind::all_gather &&
           std::ranges::all_of(output_blocks(item, 0, static_cast<int>(size)),
                               [](std::size_t block) { return block == 0; });
  };
  return !swapped_ && is_empty(script_.items[changed_]) && is_empty(own.items[changed_]);
}

/// A call that has failed: may it have failed, in this way?
void Incident::judge(const Ending& ending) {
  if (ending.status.ok()) return;
  ++failures_;
  const Item& item = play_->script_of(ending.rank).items[ending.item];
  const auto& ranks = script_.groups[static_cast<std::size_t>(item.group)].ranks;
  const Errc code = ending.status.code();
  const int culprit = ending.status.culprit().value_or(-1);
  const int place = place_of(ranks, victim_);
  const bool concerned = contains(ranks, victim_);
  bool right = false;
  switch (fault_) {
    case Fault::kill: right = concerned && code == Errc::peer_lost && culprit == place; break;
    case Fault::drop:
      right = concerned && contains(ranks, other_) && code == Errc::peer_lost &&
              (culprit == place || culprit == place_of(ranks, other_));
      break;
    case Fault::leave:
    case Fault::let_go: right = concerned && code == Errc::peer_left && culprit == place; break;
    case Fault::freeze:
      // A rank that waits for the victim is late for others.
      right = !concerned || ending.when >= thawed_at_
                  ? code == Errc::timeout || code == Errc::peer_left
                  : code == Errc::timeout && culprit == place;
      break;
    case Fault::short_freeze: break;
    case Fault::disagree:
      right =
          item.group == script_.items[changed_].group && code == Errc::disagreement &&
          ending.status.message().find("rank " + std::to_string(place)) != std::string_view::npos;
      judge_untouched(ending);
      break;
  }
  if (!right)
    complain("rank " + std::to_string(ending.rank) + ", item " + std::to_string(ending.item) +
             ", group " + std::to_string(item.group) + " (victim is its rank " +
             std::to_string(place) + "): " + std::string(to_string(code)) + ", culprit " +
             std::to_string(culprit) + ": " + std::string(ending.status.message()));
}

/// Where everybody's part is needed, a disagreement leaves the outputs as they were.
void Incident::judge_untouched(const Ending& ending) {
  const Item& item = play_->script_of(ending.rank).items[ending.item];
  if (ending.item < changed_ || !ending.output_touched) return;
  const auto& ranks = script_.groups[static_cast<std::size_t>(item.group)].ranks;
  const bool from_victim = ranks[static_cast<std::size_t>(item.root)] == victim_;
  // Of another call than ours; a rank without elements sends nothing to compare.
  const bool others_block = std::ranges::any_of(ranks, [&](int rank) {
    return (rank == victim_) != (ending.rank == victim_) &&
           block_of(item, place_of(ranks, rank), 0) > 0;
  });
  const bool promised = item.kind == Kind::all_reduce ||
                        (item.kind == Kind::broadcast && (ending.rank == victim_ || from_victim)) ||
                        (item.kind == Kind::all_gather && others_block);
  if (promised)
    complain("rank " + std::to_string(ending.rank) + ", item " + std::to_string(ending.item) +
             ": the output was written although the ranks disagree");
}

/// Those who are left make a new group on the same engines, and it works.
void Incident::survivors_go_on() {
  ScriptOptions options;
  for (const int rank : options_.ranks) {
    if (survives(rank) && !(fault_ == Fault::drop && rank == victim_))
      options.ranks.push_back(rank);
  }
  options.first_id = 1000;
  options.items = 3;
  before_ = std::move(play_);  // engines may still have calls of the victim in it
  play_ = std::make_unique<Play>(*simulation_, make_script(random_, options), kTimeout);
  const auto finished = [&] {
    return std::ranges::all_of(options.ranks, [&](int rank) { return play_->finished(rank); });
  };
  struck_ = false;
  if (!go(finished, 60s, "the survivors' new group")) return;
  for (const Ending& ending : play_->endings()) {
    if (!ending.status.ok())
      complain("the survivors' new group: " + std::string(ending.status.message()));
  }
  for (const std::string& complaint : play_->complaints()) complain("new group: " + complaint);
}

std::string Incident::wrong() {
  std::map<int, Script> own;
  if (fault_ == Fault::disagree) own = disagreeing();
  simulation_ = std::make_unique<Simulation>(setup_);
  play_ = std::make_unique<Play>(*simulation_, script_,
                                 fault_ == Fault::let_go ? kLongTimeout : kTimeout, own);
  const std::uint64_t after_calls = random_.below(play_->script_of(victim_).items.size());
  const std::uint64_t and_steps = random_.below(200);
  std::uint64_t since = 0;
  const auto due = [&] {
    return all_finished(true) || (play_->calls(victim_) >= after_calls && ++since > and_steps);
  };
  if (!go(due, 30s, "before the fault")) return wrong_ + describe(setup_);
  if (!all_finished(true)) strike();
  if (fault_ == Fault::short_freeze && struck_) {
    const auto until = Simulation::now() + kTimeout / 4;
    (void)simulation_->run([&](int rank) { return play_->act(rank); },
                           [&] { return Simulation::now() >= until; }, until);
    simulation_->thaw(victim_);
  }
  if ((fault_ == Fault::kill || fault_ == Fault::drop) && struck_) {
    // Others are asked whether they reach the rank, before the loss is told.
    const auto until = Simulation::now() + kInTime + (fault_ == Fault::drop ? kWitnessTime : 0ms);
    (void)simulation_->run([&](int rank) { return play_->act(rank); },
                           [&] { return all_finished(true); }, until);
    for (const int rank : options_.ranks) {
      const int with = fault_ == Fault::drop ? other_ : victim_;
      if (survives(rank) && play_->waits_with(rank, victim_, with))
        complain("rank " + std::to_string(rank) + " has not heard of it in time");
    }
  }
  bool ended = go([&] { return all_finished(fault_ != Fault::freeze); }, 120s, "after the fault");
  if (fault_ == Fault::freeze && struck_ && ended) {
    thawed_at_ = Simulation::now();
    simulation_->thaw(victim_);
    ended = go([&] { return all_finished(true); }, 60s, "after the thaw");
  }
  for (const Ending& ending : play_->endings()) judge(ending);
  if (fault_ == Fault::disagree && !own.empty() && failures_ == 0 &&
      !shows_nothing(own.at(victim_)))
    complain("nobody saw the disagreement");
  for (const std::string& complaint : play_->complaints()) complain(complaint);
  if (ended && wrong_.empty()) survivors_go_on();
  trace_ = simulation_->network().trace();
  if (!wrong_.empty())
    complain("fault " + std::to_string(static_cast<int>(fault_)) + ", victim " +
             std::to_string(victim_) + ", other " + std::to_string(other_) + describe(setup_));
  return wrong_;
}

TEST(EngineFaults, EverySurvivorLearnsWhoDidIt) {
  std::array<std::uint64_t, 7> failed{};
  for_each_seed(1000, [&](std::uint64_t seed) {
    Incident incident(seed);
    const std::string wrong = incident.wrong();
    if (incident.failures() > 0) ++failed[static_cast<std::size_t>(incident.fault())];
    return wrong;
  });
  if (std::getenv("TUTTI_SEEDS") == nullptr && std::getenv("TUTTI_SEED") == nullptr) {
    for (const Fault fault :
         {Fault::kill, Fault::drop, Fault::freeze, Fault::leave, Fault::let_go, Fault::disagree}) {
      EXPECT_GT(failed[static_cast<std::size_t>(fault)], 50u)
          << "fault " << static_cast<int>(fault);
    }
  }
}

// Rare seeds that rotation has found. 1000296613: one rank calls all_reduce without elements and
// runs more operations ahead than a window keeps, the other one waits in a barrier.
TEST(EngineFaults, SeedsThatHaveFailed) {
  for (const std::uint64_t seed : {1000001421, 1000296613}) {
    Incident incident(seed);
    EXPECT_EQ(incident.wrong(), "") << "seed " << seed;
  }
}

TEST(EngineFaults, OneSeedIsOneHistory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Incident first(seed);
    Incident second(seed);
    EXPECT_EQ(first.wrong(), second.wrong());
    EXPECT_EQ(first.trace(), second.trace()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti::engine::simulation
