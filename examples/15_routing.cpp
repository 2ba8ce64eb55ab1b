// Sends each piece of work to the rank that is in charge of it, and the results back: all_to_all
// with uneven splits, as layers of experts and distributed tables do it. Nobody knows beforehand
// how much comes from whom, so the counts go first.
//
//   tuttirun --nproc-per-node 4 15_routing

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using Counts = std::vector<std::size_t>;

std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// How many elements each rank will send to this one, where this one sends `to` each.
Counts exchanged(tutti::ProcessGroup& world, const Counts& to) {
  std::vector<std::int64_t> ours(to.begin(), to.end());
  std::vector<std::int64_t> theirs(to.size());
  world.all_to_all(theirs, ours).wait();
  return {theirs.begin(), theirs.end()};
}

}  // namespace

int main() {
  auto world = tutti::init_process_group();
  const auto ranks = static_cast<std::uint32_t>(world.size());
  const auto me = static_cast<std::uint32_t>(world.rank());

  // This rank's work: numbers as they come. Number x belongs to rank x % ranks.
  std::vector<std::uint32_t> work(50 + 10 * me);
  for (std::uint32_t i = 0; i < work.size(); ++i) work[i] = (i * i + 7 * me) % 1000;

  // All pieces for one rank must lie together; `order` says where each piece came from.
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work[a] % ranks < work[b] % ranks; });
  std::vector<std::uint32_t> sorted;
  Counts to(ranks, 0);
  for (const std::size_t at : order) {
    sorted.push_back(work[at]);
    ++to[work[at] % ranks];
  }

  const Counts from = exchanged(world, to);
  std::vector<std::uint32_t> mine(sum(from));
  world.all_to_all(mine, sorted, {.output_splits = from, .input_splits = to}).wait();
  const bool all_mine =
      std::all_of(mine.begin(), mine.end(), [&](std::uint32_t x) { return x % ranks == me; });

  for (std::uint32_t& x : mine) x = 2 * x + 1;  // what this rank is in charge of

  // Back the same way: what came from a rank goes to it, so the splits change places.
  std::vector<std::uint32_t> answers(work.size());
  world.all_to_all(answers, mine, {.output_splits = to, .input_splits = from}).wait();
  bool right = all_mine;
  for (std::size_t i = 0; i < order.size(); ++i)
    right = right && answers[i] == 2 * work[order[i]] + 1;

  std::printf("rank %d sent %zu numbers and worked on %zu: %s\n", world.rank(), work.size(),
              mine.size(), right ? "all answers are right" : "WRONG");
  return right ? 0 : 1;
}
