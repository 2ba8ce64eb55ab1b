// What goes wrong is told by name: which group and operation, which rank, what to try. Three
// accidents, each in a group of its own, because an accident breaks its group for all members:
//   1. the ranks call different things,
//   2. a rank does not come,
//   3. a rank's process dies.
//
//   tuttirun --nproc-per-node 3 06_failing_rank

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

#include <tutti/tutti.hpp>

using namespace std::chrono_literals;

namespace {

/// Runs `action` and prints its error. True if it failed as `expected`, blaming `culprit` (if
/// told).
template <class Action>
bool fails_with(tutti::Errc expected, std::optional<int> culprit, int rank, Action&& action) {
  try {
    action();
  } catch (const tutti::Error& error) {
    std::printf("[rank %d] %s\n\n", rank, error.what());
    return error.code() == expected && (!culprit || error.culprit() == culprit);
  }
  std::printf("[rank %d] no error: that is wrong\n", rank);
  return false;
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  if (world.size() < 2) {
    std::fprintf(stderr, "06_failing_rank needs at least two ranks, so that one can fail\n");
    return 2;
  }
  const int rank = world.rank();
  const int last = world.size() - 1;
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  bool right = true;

  auto first = world.new_group(all, {.name = "different calls"});
  std::vector<float> values(rank == last ? 3 : 2, 1.0F);
  right &=
      fails_with(tutti::Errc::disagreement, {}, rank, [&] { first.all_reduce(values).wait(); });

  auto second = world.new_group(all, {.name = "who is late"});
  if (rank != last) {
    right &= fails_with(tutti::Errc::timeout, last, rank,
                        [&] { second.barrier({.timeout = 300ms}).wait(); });
  }
  world.barrier().wait();  // the world is whole: only the two groups are broken

  // Dies like a crash: nothing is said, nobody is told. (The status 0 keeps tuttirun from ending
  // the others at once, as it would after a real crash.) When it comes out of this barrier, the
  // others have at least entered it: so they are past the one before.
  if (rank == last) {
    world.barrier().wait();
    std::fflush(stdout);
    std::_Exit(0);
  }
  right &= fails_with(tutti::Errc::peer_lost, last, rank, [&] {
    world.barrier().wait();  // perhaps already here
    world.barrier().wait();
  });
  return right ? 0 : 1;
}
