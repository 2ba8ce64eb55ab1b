#include <csignal>

#include "launched_world.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

// Run by itself (--gtest_filter), because mpirun ends the whole job, this test's result with it.
// tests/processes/backend/five_mpis.py starts it and expects that the job fails in time.
namespace tutti::test {
namespace {

TEST(KilledMpiRank, AKilledRankEndsTheJob) {
  ProcessGroup world = launched_world("mpi");
  world.barrier().wait();
  if (world.rank() == world.size() - 1) ::raise(SIGKILL);
  std::vector<int> values(3, 1);
  for (const auto until = std::chrono::steady_clock::now() + kForever;
       std::chrono::steady_clock::now() < until;)
    world.all_reduce(values, {.timeout = kForever}).wait();
}

}  // namespace
}  // namespace tutti::test
