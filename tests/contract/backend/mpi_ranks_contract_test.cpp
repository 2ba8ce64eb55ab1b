#include <csignal>

#include "backend_contract.hpp"

// The backend on MPI, as a plug-in over the MPI that has started this process by its mpirun. One
// process without a launcher is a world of one rank.
namespace tutti::test {
namespace {

/// The process that the launcher has started.
std::vector<Arrangement> launched_by_mpi() {
  Arrangement one = launched_arrangement("Launched", "mpi");
  one.size = std::max(ranks_of_mpirun(), 1);
  one.waiting_message = std::size_t{256} << 20;  // some MPIs hold much for a receiver
  // With Intel MPI a receiver that does anything takes a message of any length.
  one.takes_any_message = [] { return about_backend("mpi").find("Intel") != std::string::npos; };
  return {one};
}

INSTANTIATE_TEST_SUITE_P(Mpi, BackendContract, testing::ValuesIn(launched_by_mpi()), name_of);
INSTANTIATE_TEST_SUITE_P(Mpi, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(launched_by_mpi())), name_of);

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
  const int status = status_of_fork([&] { world.all_reduce(values).wait(); });
  EXPECT_EQ(status == 0, keeps_promise("mpi", Promise::fork_is_error)) << status;
  world.all_reduce(values).wait();
  EXPECT_EQ(values, std::vector<int>(3, world.size()));
}

TEST(MpiRanks, AForkedChildMakesNoWorldOnTheMpiOfItsParent) {
  ProcessGroup world = launched_world("mpi");
  EXPECT_EQ(status_of_fork([] { (void)launched_world("mpi"); }), 0);
  world.barrier().wait();
}

TEST(MpiRanks, EncryptionIsRefused) {
  Config config = Config::from_environment().value();
  config.tls = true;
  for (const char* const backend : {"mpi", "cpu:mpi"}) {
    config.backend = backend;
    const Outcome error =
        error_of<InvalidArgument>([&] { (void)init_process_group({.config = config}); });
    EXPECT_THAT(error.message(), testing::HasSubstr("'mpi' (TUTTI_BACKEND) does not encrypt, but "
                                                    "TUTTI_TLS is 1; choose 'native'"));
  }
  ProcessGroup world = launched_world("mpi");  // nothing of that has reached MPI
  EXPECT_TRUE(world.authenticated()) << "by MPI's launcher";
  world.barrier().wait();
}

TEST(MpiRanks, OptionsThatNameNoRanksAreToldAtOnce) {
  Config config = Config::from_environment().value();
  config.backend = "mpi";
  const auto refused = [](std::any options, const char* text) {
    const Outcome error = error_of<InvalidArgument>(
        [&] { (void)launched_world("mpi", kForever, std::move(options)); });
    EXPECT_THAT(error.message(), testing::HasSubstr(text));
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
    const Outcome error = error_of<InvalidArgument>([&] { (void)init_process_group(options); });
    EXPECT_THAT(error.message(), testing::HasSubstr(text));
  };
  members({size}, "no rank of the communicator");
  members({-1}, "no rank of the communicator");
  launched_world("mpi").barrier().wait();
}

// ---- Run by themselves, by tests/processes/backend/five_mpis.py

// On many ranks: at its end each rank tells all others that it has left, most of which it has never
// talked to. With MPICH on UCX, MPI_Finalize must not begin before that.

TEST(LastNotes, EndThoughTheirGroupIsBroken) {
  ProcessGroup world = launched_world("mpi");
  if (world.rank() == 0) world.abort("it is a test");
}

TEST(LastNotes, EndThoughTheirLastNotesOpenConnections) {
  ProcessGroup world = launched_world("mpi");
  std::vector<int> even;
  for (int rank = 0; rank < world.size(); rank += 2) even.push_back(rank);
  const ProcessGroup group = world.new_group(even);
  EXPECT_EQ(static_cast<bool>(group), world.rank() % 2 == 0);
  world.barrier().wait();
}

// mpirun ends the whole job, this test's result with it: five_mpis.py expects that it fails in
// time.
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
