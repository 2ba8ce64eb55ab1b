#include "unit/simulation/simulation.hpp"

#include <algorithm>
#include <array>

#include "plan/select.hpp"

namespace tutti::engine::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr auto kTick = milliseconds(20);  // as drivers of real ranks look around
constexpr auto kHearOfDeath = milliseconds(5);

thread_local const Simulation* current = nullptr;

/// Process 1 is rank 0: no process has the number 0.
std::string process_state(int pid) {
  return current->runs(pid - 1) ? std::string() : std::string("stopped");
}

Outcome take_no_pages(std::byte*, std::size_t) { return {}; }

std::vector<int> random_hosts(Random& random) {
  constexpr std::array kSizes{1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 6, 7, 8, 9};
  const auto size = static_cast<std::size_t>(kSizes[random.below(kSizes.size())]);
  std::vector<int> hosts(size);
  const std::uint64_t kind = random.below(100);
  const std::uint64_t width = 1 + random.below(4);
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::size_t host = kind < 20   ? 0                                      // one host
                             : kind < 50 ? rank                                   // all different
                             : kind < 75 ? rank / width                           // 2 + 2, 3 + 1
                                         : random.below(1 + random.below(size));  // any
    hosts[rank] = static_cast<int>(host);
  }
  return hosts;
}

}  // namespace

Setup random_setup(Random& random, std::uint64_t seed) {
  Setup setup;
  setup.seed = seed;
  setup.host_of = random_hosts(random);
  setup.cpus = static_cast<int>(random.between(1, 8));
  const auto micro = [](std::int64_t us) { return std::chrono::microseconds(us); };
  setup.links.latency = micro(random.between(1, random.chance(50) ? 20 : 300));
  setup.links.jitter = micro(random.between(0, random.chance(50) ? 10 : 400));
  setup.links.bytes_per_microsecond = static_cast<std::size_t>(random.between(50, 10'000));
  setup.links.unsent_bytes = static_cast<std::size_t>(random.between(1, 200'000));
  setup.links.window_bytes = static_cast<std::size_t>(random.between(1, 400'000));
  setup.links.pieces = static_cast<int>(random.between(1, 5));
  if (random.chance(50)) {
    for (const Kind kind : {Kind::barrier, Kind::broadcast, Kind::all_reduce, Kind::all_gather}) {
      std::vector<std::string_view> names;
      for (const plan::Algorithm& one : plan::algorithms()) {
        if (one.kind == kind && one.order == plan::OrderClass::binomial) names.push_back(one.name);
      }
      if (!setup.algorithms.empty()) setup.algorithms += ',';
      setup.algorithms +=
          std::string(to_string(kind)) + ':' + std::string(names[random.below(names.size())]);
    }
  }
  return setup;
}

std::string describe(const Setup& setup) {
  std::string text = "\nhosts";
  for (const int host : setup.host_of) text += " " + std::to_string(host);
  return text + ", cpus " + std::to_string(setup.cpus) + ", algorithms '" + setup.algorithms + "'";
}

Simulation::Simulation(const Setup& setup)
    : memory_(setup.host_of),
      network_(static_cast<int>(setup.host_of.size()), setup.seed * 3 + 1),
      random_(setup.seed * 5 + 2) {
  current = this;
  network_.set_links(setup.links);
  const int size = static_cast<int>(setup.host_of.size());
  ranks_.resize(setup.host_of.size());
  for (int rank = 0; rank < size; ++rank) {
    World world;
    world.rank = rank;
    world.size = size;
    world.cpus = setup.cpus;
    world.settings = 77;
    world.regions = &memory_.regions(rank);
    world.host_of = setup.host_of;
    world.local_of = memory_.local_of(rank);
    world.transports.assign(setup.host_of.size(), nullptr);
    Rank& one = at(rank);
    one.ring =
        transport::shm::RingTransport::make({world.regions, size, take_no_pages, false}).value();
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const bool local = world.local_of[static_cast<std::size_t>(peer)] >= 0;
      transport::Transport* used =
          local ? static_cast<transport::Transport*>(one.ring.get()) : &network_.transport(rank);
      if (setup.observed) used = setup.observed(rank, *used);
      world.transports[static_cast<std::size_t>(peer)] = used;
    }
    world.whereabouts.assign(setup.host_of.size(), "");
    world.process_state = process_state;
    world.now = verify::sim::Network::now;
    world.populate = take_no_pages;
    world.algorithms = setup.algorithms;
    one.engine = std::make_unique<Engine>(std::move(world));
    one.next_tick = now() + nanoseconds(random_.between(0, nanoseconds(kTick).count()));
  }
}

Simulation::~Simulation() { current = nullptr; }

void Simulation::kill(int rank) {
  at(rank).dead = true;
  network_.kill(rank, kHearOfDeath);
  const auto& regions = memory_.regions(rank);
  for (std::size_t i = 0; i < regions.peers.size(); ++i) {
    const int peer = regions.peers[i].rank;
    if (peer == rank) continue;
    const auto when = now() + nanoseconds(random_.between(0, nanoseconds(kHearOfDeath).count()));
    at(peer).deaths.emplace(when, regions.self);
  }
}

int Simulation::pick() {
  // Often the same one again: ranks run ahead of others, as far as they can.
  if (random_.chance(50) && runs(last_)) return last_;
  for (int tries = 0; tries < 4; ++tries) {
    last_ = static_cast<int>(random_.below(ranks_.size()));
    if (runs(last_)) return last_;
  }
  const int first = last_;
  do {
    last_ = (last_ + 1) % size();
  } while (!runs(last_) && last_ != first);
  return last_;
}

bool Simulation::drive(int rank, const std::function<bool(int)>& act) {
  Rank& one = at(rank);
  Engine& driven = *one.engine;
  ++steps_;
  bool moved = false;
  for (std::uint64_t pass = random_.below(3) + 1; pass > 0; --pass) moved |= driven.progress();
  if (!one.leaving) moved |= act(rank);
  for (const Finished& finished : driven.take_finished()) {
    finished.callback.function(finished.callback.context, finished.status);
    moved = true;
  }
  while (!one.deaths.empty() && one.deaths.begin()->first <= now()) {
    driven.local_peer_died(one.deaths.begin()->second);
    one.deaths.erase(one.deaths.begin());
    moved = true;
  }
  if (now() >= one.next_tick) {
    driven.tick();
    one.next_tick = now() + kTick;
    moved = true;
  }
  if (one.leaving && !one.dead && !driven.has_unsent()) {
    one.ring->close(0);
    network_.transport(rank).close(0);
    memory_.regions(rank).control().words().left.store(
        1,
        std::memory_order_release);  // pairs with check_left
    one.dead = true;
  }
  return moved;
}

/// Nothing moves by itself: on to the next moment at which something may.
void Simulation::jump() {
  TimePoint next = network_.next_event();
  for (Rank& one : ranks_) {
    one.quiet = false;
    if (one.dead || one.frozen) continue;
    next = std::min(next, one.next_tick);
    if (!one.deaths.empty()) next = std::min(next, one.deaths.begin()->first);
  }
  network_.advance_to(next);
}

bool Simulation::run(const std::function<bool(int)>& act, const std::function<bool()>& finished,
                     TimePoint limit) {
  while (!finished()) {
    if (now() > limit) return false;
    const int rank = pick();
    if (!runs(rank)) return false;
    const bool moved = drive(rank, act);
    network_.advance_to(now() + nanoseconds(random_.between(20, 400)));
    if (moved) {
      for (Rank& one : ranks_) one.quiet = false;
      continue;
    }
    at(rank).quiet = true;
    const bool all = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& one) {
      return one.quiet || one.dead || one.frozen;
    });
    if (all) jump();
  }
  return true;
}

}  // namespace tutti::engine::simulation
