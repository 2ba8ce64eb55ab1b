#include "backend/mpi/launcher.hpp"

#include <gmock/gmock.h>

#include "support/temporary_folder.hpp"
#include "support/variable.hpp"

namespace tutti::mpi {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A folder with lib/libmpi.so and launchers in bin, which PATH names alone.
class MpiLauncher : public testing::Test {
 protected:
  MpiLauncher() {
    fs::create_directories(folder_.at("lib"));
    fs::create_directories(folder_.at("bin"));
    std::ofstream(folder_.at("lib/libmpi.so"));
  }

  std::string program(const std::string& name, const std::string& script) {
    return folder_.file("bin/" + name, "#!/bin/sh\nPATH=/usr/bin:/bin\n" + script + "\n", true);
  }
  [[nodiscard]] LibraryInfo library(const std::string& name) const {
    LibraryInfo info;
    info.name = name;
    info.path = folder_.at("lib/libmpi.so").string();
    return info;
  }

  /// The launcher of a library with this name; what is wrong if there is none.
  [[nodiscard]] std::string found_for(const std::string& name) const {
    auto found = find_launcher(library(name));
    return found ? *found : std::string(found.status().message());
  }

  test::TemporaryFolder folder_;
  test::Variable path_{"PATH", folder_.at("bin").string()};
};

TEST_F(MpiLauncher, StandsBesideTheLibrary) {
  const std::string ours = program("mpiexec", "echo 'mpirun (Open MPI) 9.9.9'");
  EXPECT_EQ(found_for("Open MPI 9.9.9"), ours);
}

TEST_F(MpiLauncher, OfAnotherMpiIsPassedOver) {
  program("mpiexec", "echo 'HYDRA build details:'");
  const std::string ours = program("mpirun", "echo 'Intel(R) MPI Library for Linux* OS'");
  EXPECT_EQ(found_for("Intel(R) MPI Library 9.9"), ours);
}

TEST_F(MpiLauncher, ThatIsMissingIsToldWithTheOnesThatAreThere) {
  const std::string other = program("mpiexec", "echo 'HYDRA build details:'");
  auto found = find_launcher(library("Intel(R) MPI Library 9.9"));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.status().code(), Errc::unsupported);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(other));
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("Intel(R) MPI Library 9.9"));
}

TEST_F(MpiLauncher, ThatNeverEndsIsNotWaitedFor) {
  const std::string endless = program("mpiexec", "exec yes 'HYDRA build details:'");
  EXPECT_EQ(found_for("MPICH 9.9"), endless);
}

TEST_F(MpiLauncher, GetsWhatTheRanksNeedToFindTheSameLibrary) {
  const std::string ours = program("mpiexec", "echo 'mpirun (Open MPI) 9.9.9'");
  const LibraryInfo info = library("Open MPI 9.9.9");
  auto command = launch_command(info, 3);
  ASSERT_TRUE(command) << command.status().message();
  EXPECT_THAT(command->argv, testing::IsSupersetOf({ours, std::string("-n"), std::string("3")}));
  EXPECT_THAT(command->environment,
              testing::UnorderedElementsAre("TUTTI_BACKEND=mpi", "TUTTI_MPI_LIBRARY=" + info.path));
}

}  // namespace
}  // namespace tutti::mpi
