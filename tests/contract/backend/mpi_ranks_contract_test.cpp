#include <sys/wait.h>
#include <unistd.h>

#include "backend_contract.hpp"
#include "launched_world.hpp"

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

TEST(MpiRanks, AForkedChildMakesNoWorldOnTheMpiOfItsParent) {
  ProcessGroup world = launched_world("mpi");
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      (void)launched_world("mpi");
      ::_exit(1);
    } catch (const Error& error) {
      ::_exit(std::string_view(error.what()).find("forked") == std::string_view::npos ? 2 : 0);
    }
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  world.barrier().wait();
}

TEST(MpiRanks, OptionsThatNameNoRanksAreToldAtOnce) {
  Config config = Config::from_environment().value();
  config.backend = "mpi";
  const auto refused = [&](std::any options, const char* text) {
    try {
      (void)init_process_group({.config = config, .backend_options = std::move(options)});
      ADD_FAILURE() << "no error";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  refused(std::string("a communicator"), "mpi_handle(communicator)");
  refused(std::vector<int>{0}, "needs rank, size and an exchange");
  // As a plug-in for torch asks, whose ranks met elsewhere.
  const int size = std::max(ranks_of_mpirun(), 1);
  const auto members = [&](std::vector<int> ranks, const char* text) {
    InitOptions options;
    options.config = config;
    options.rank = 0;
    options.size = static_cast<int>(ranks.size());
    options.backend_options = std::move(ranks);
    options.exchange = [](const std::string& /*name*/,
                          const std::string& mine) -> Result<std::vector<std::string>> {
      return std::vector<std::string>{mine};
    };
    try {
      (void)init_process_group(options);
      ADD_FAILURE() << "no error";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  members({size}, "no rank of the communicator");
  members({-1}, "no rank of the communicator");
  launched_world("mpi").barrier().wait();
}

}  // namespace
}  // namespace tutti::test
