#include "launched_world.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

// On many ranks: at its end each rank tells all others that it has left, most
// of which it has never talked to. With MPICH on UCX, MPI_Finalize must not begin before that.
namespace tutti::test {
namespace {

TEST(LastNotes, EndThoughTheirGroupIsBroken) {
  ProcessGroup world = launched_world("mpi");
  if (world.rank() == 0) world.abort("it is a test");
}

TEST(LastNotes, EndThoughTheirLastNotesOpenConnections) {
  ProcessGroup world = launched_world("mpi");
  std::vector<int> even;
  for (int rank = 0; rank < world.size(); rank += 2) even.push_back(rank);
  const std::optional<ProcessGroup> group = world.new_group(even);
  EXPECT_EQ(group.has_value(), world.rank() % 2 == 0);
  world.barrier().wait();
}

}  // namespace
}  // namespace tutti::test
