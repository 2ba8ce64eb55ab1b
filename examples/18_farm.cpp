// A farm: rank 0 gives out tasks one at a time, each to the rank that asks next, so ranks that are
// slow get fewer. A worker asks for its next task by sending the result of its last one.
//
//   tuttirun --nproc-per-node 4 18_farm

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

constexpr int kTasks = 40;
constexpr int kNoTask = -1;
constexpr int kTask = 1;  // tags
constexpr int kResult = 2;

struct Result {
  int task = kNoTask;
  int primes = 0;
};

/// How many of the numbers from 1000 * task on, up to the next thousand, are prime.
int primes_of(int task) {
  int primes = 0;
  for (int n = 1000 * task; n < 1000 * (task + 1); ++n) {
    bool prime = n > 1;
    for (int i = 2; i * i <= n && prime; ++i) prime = n % i != 0;
    primes += prime ? 1 : 0;
  }
  return primes;
}

void work(tutti::ProcessGroup& world) {
  Result result;  // of no task at first
  while (true) {
    world.send(std::span(&result, 1), 0, {.tag = kResult});
    int task = kNoTask;
    world.recv(std::span(&task, 1), 0, {.tag = kTask});
    if (task == kNoTask) return;
    result = {task, primes_of(task)};
  }
}

std::vector<int> give_out(tutti::ProcessGroup& world) {
  std::vector<int> primes(kTasks);
  int next = 0;
  for (int workers = world.size() - 1; workers > 0;) {
    Result result;
    const int worker = world.recv(std::span(&result, 1), tutti::any_source, {.tag = kResult});
    if (result.task != kNoTask) primes[static_cast<std::size_t>(result.task)] = result.primes;
    const int task = next < kTasks ? next++ : kNoTask;
    world.send(std::span(&task, 1), worker, {.tag = kTask});
    if (task == kNoTask) --workers;
  }
  for (; next < kTasks; ++next)  // alone in the world
    primes[static_cast<std::size_t>(next)] = primes_of(next);
  return primes;
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  if (world.rank() != 0) {
    work(world);
    return 0;
  }
  const std::vector<int> primes = give_out(world);
  const int all = std::accumulate(primes.begin(), primes.end(), 0);
  std::printf("%d ranks found %d primes below %d\n", world.size(), all, 1000 * kTasks);
  return all == 4203 ? 0 : 1;
}
