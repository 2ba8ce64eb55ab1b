#include <tutti/launch.hpp>

#include "support/temporary_folder.hpp"
#include "support/told.hpp"
#include "tuttirun_process.hpp"

// tuttirun --backend: which variables the workers get, and who starts them.
namespace {

using testing::HasSubstr;

constexpr const char* kOpenMpi = "TUTTI_MPI_LIBRARY=libmpi.so.40";

TEST(BackendLauncher, NativeWorkersAreStartedByTuttirun) {
  expect_printed("native 0 tutti\n",
                 {"--backend", "native", "bash", "-c",
                  "echo $TUTTI_BACKEND $RANK ${TUTTI_BACKEND_PATH##*/lib/}"},
                 {"TUTTI_BACKEND=none"});
}

TEST(BackendLauncher, RanksOfMpiAreStartedByMpirun) {
  const Ended run(0,
                  {"--backend", "mpi", "--nproc-per-node", "3", "bash", "-c",
                   "echo $TUTTI_BACKEND $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE "
                   "${TUTTI_MPI_LIBRARY##*/}. \"$1\"",
                   "bash", "a b"},
                  {kOpenMpi});
  for (const char* const rank : {"0", "1", "2"})
    EXPECT_THAT(run.out, HasSubstr("mpi " + std::string(rank) + "/3 libmpi.so.40. a b\n"));
}

TEST(BackendLauncher, ItsExitCodeIsThatOfTheRanks) {
  const Ended run(7, {"--backend=mpi", "bash", "-c", "exit 7"}, {kOpenMpi});
}

TEST(BackendLauncher, ProgramsAreFoundByOurPath) {
  const tutti::test::TemporaryFolder folder;
  (void)folder.file("true", "#!/bin/sh\nexit 7\n", true);  // mpirun's own folder has another one
  const Ended run(7, {"--backend=mpi", "true"},
                  {kOpenMpi, "PATH=" + folder.path() + ":" + std::getenv("PATH")});
}

TEST(BackendLauncher, OptionsThatMpirunCannotFollowAreNamed) {
  expect_told(2,
              HasSubstr("--max-restarts, --tag and --backend mpi do not go together: its ranks are "
                        "started by "),
              {"--backend", "mpi", "--tag", "--max-restarts", "3", "true"}, {kOpenMpi});
}

TEST(BackendLauncher, ABackendThatDoesNotEncryptIsRefused) {
  const Ended run(2, {"--backend", "mpi", "--tls", "true"}, {kOpenMpi});
  EXPECT_THAT(run.err, HasSubstr("--tls (TUTTI_TLS=1) and --backend mpi do not go together"));
  const Ended by_variable(2, {"--backend", "mpi", "true"}, {kOpenMpi, "TUTTI_TLS=1"});
  EXPECT_EQ(by_variable.err, run.err);
}

TEST(BackendLauncher, ABackendThatIsNotThereIsNamed) {
  expect_told(2, HasSubstr("the backend 'nope'"), {"--backend", "nope", "true"});
  const std::string missing = "TUTTI_MPI_LIBRARY=/nowhere/libmpi.so";
  expect_told(2, HasSubstr(missing + " cannot be used"), {"--backend", "mpi", "true"}, {missing});
}

TEST(BackendLauncher, ThreadsAreNoRanksOfMpi) {
  tutti::Config config;
  config.backend = "mpi";
  const auto nothing = [](tutti::ProcessGroup&) {};
  const auto told = tutti::test::told<tutti::Error>([&] { run_threads(2, nothing, config); });
  EXPECT_EQ(told.code, tutti::Errc::unsupported);
  EXPECT_THAT(told.text, HasSubstr("the ranks of the backend 'mpi' are processes that its own "
                                   "launcher starts (tuttirun --backend mpi), not threads"));
}

}  // namespace
