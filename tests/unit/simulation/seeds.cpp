#include "unit/simulation/seeds.hpp"

#include <array>

#include "plan/select.hpp"

namespace tutti::engine::simulation {
namespace {

std::vector<int> random_hosts(Random& random) {
  constexpr std::array kSizes{1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 6, 7, 8, 9};
  const auto size = static_cast<std::size_t>(kSizes[random.below(kSizes.size())]);
  std::vector<int> hosts(size);
  const std::uint64_t kind = random.below(100);
  const std::uint64_t width = 1 + random.below(4);
  for (std::size_t rank = 0; rank < size; ++rank) {
    int& host = hosts[rank];
    if (kind < 20)
      host = 0;  // one host
    else if (kind < 50)
      host = static_cast<int>(rank);  // all different
    else if (kind < 75)
      host = static_cast<int>(rank / width);  // 2 + 2, 3 + 1, ...
    else
      host = static_cast<int>(random.below(1 + random.below(size)));  // any
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

}  // namespace tutti::engine::simulation
