// Sample sort: numbers that lie on all ranks are put in order over all ranks. Samples of all give
// the limits between the ranks; then each number goes to its rank. A rank knows what it sends, not
// what it gets: all_to_all_v learns that.
//
//   tuttirun --nproc-per-node 4 19_sample_sort

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

constexpr std::size_t kSamples = 16;  // of each rank

/// The numbers of a rank, sorted; some ranks have more than others.
std::vector<std::uint32_t> numbers_of(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<std::uint32_t> numbers(1000 + 500 * static_cast<std::size_t>(rank % 3));
  for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::vector<std::uint32_t> mine = numbers_of(world.rank());

  std::vector<std::uint32_t> samples;
  for (std::size_t i = 0; i < kSamples; ++i) samples.push_back(mine[i * mine.size() / kSamples]);
  std::vector<std::uint32_t> all_samples(kSamples * ranks);
  world.all_gather(all_samples, samples).wait();
  std::sort(all_samples.begin(), all_samples.end());

  std::vector<std::size_t> to_each;  // what is below the next rank's first sample stays here
  auto begin = mine.begin();
  for (std::size_t next = 1; next <= ranks; ++next) {
    const auto end = next == ranks
                         ? mine.end()
                         : std::lower_bound(begin, mine.end(), all_samples[kSamples * next]);
    to_each.push_back(static_cast<std::size_t>(end - begin));
    begin = end;
  }
  std::vector<std::uint32_t> sorted = world.all_to_all_v(mine, to_each).wait().values;
  std::sort(sorted.begin(), sorted.end());

  const tutti::Blocks<std::uint32_t> all = world.gather_v(sorted, {.root = 0}).wait();
  if (world.rank() != 0) return 0;
  std::vector<std::uint32_t> expected;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::vector<std::uint32_t> theirs = numbers_of(rank);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  std::sort(expected.begin(), expected.end());
  for (std::size_t rank = 0; rank < ranks; ++rank)
    std::printf("rank %zu has %zu numbers\n", rank, all.counts[rank]);
  return all.values == expected ? 0 : 1;
}
