#include <sys/wait.h>
#include <unistd.h>

#include "backend_contract.hpp"
#include "launched_world.hpp"
#include "promises_contract.hpp"

// The backend on MPI, as a plug-in over the MPI that has started this process by its mpirun. One
// process without a launcher is a world of one rank.
namespace tutti::test {
namespace {

/// What the launcher has started; none with fewer ranks than `least`.
std::vector<Arrangement> launched(int least) {
  Arrangement one;
  one.name = "Mpi";
  one.backend = "mpi";
  one.size = std::max(ranks_of_mpirun(), 1);
  if (one.size < least) return {};
  one.run = [](const Arrangement::Body& body) {
    ProcessGroup world = launched_world("mpi");
    body(world);
    // A rank that is ahead must not end before the others have what they wait for.
    if (world.health().ok()) world.barrier().wait();
  };
  return {one};
}

std::string name_of(const testing::TestParamInfo<Arrangement>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Launched, BackendContract, testing::ValuesIn(launched(1)), name_of);
INSTANTIATE_TEST_SUITE_P(Launched, BackendContractOfSeveral, testing::ValuesIn(launched(2)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Launched, BackendPromises, testing::ValuesIn(launched(1)), name_of);
INSTANTIATE_TEST_SUITE_P(Launched, BackendPromisesOfSeveral, testing::ValuesIn(launched(2)),
                         name_of);

TEST(MpiRanks, RanksAreNoThreads) {
  ProcessGroup world = launched_world("mpi");
  Config config = Config::from_environment().value();
  config.backend = "mpi";
  const auto start = [&] {
    run_threads(
        2, [](ProcessGroup& group) { group.barrier().wait(); }, config);
  };
  if (keeps_promise("mpi", Promise::thread_ranks)) {
    EXPECT_NO_THROW(start());
  } else {
    EXPECT_THROW(start(), Error);
  }
  world.barrier().wait();
}

TEST(MpiRanks, AForkedChildGetsAnError) {
  ProcessGroup world = launched_world("mpi");
  std::vector<int> values(3, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      world.all_reduce(values).wait();
      ::_exit(1);
    } catch (const Error& error) {
      ::_exit(std::string_view(error.what()).find("forked") == std::string_view::npos ? 2 : 0);
    }
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) && WEXITSTATUS(status) == 0,
            keeps_promise("mpi", Promise::fork_is_error))
      << status;
  world.all_reduce(values).wait();
  EXPECT_EQ(values, std::vector<int>(3, world.size()));
}

}  // namespace
}  // namespace tutti::test
