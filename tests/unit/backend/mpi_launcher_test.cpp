#include "backend/mpi/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::mpi {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A folder with lib/libmpi.so and launchers in bin, which PATH names alone.
class MpiLauncher : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "mpi_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "lib");
    fs::create_directories(folder_ / "bin");
    std::ofstream(folder_ / "lib" / "libmpi.so");
    const char* const path = std::getenv("PATH");
    path_ = path == nullptr ? "" : path;
    ::setenv("PATH", (folder_ / "bin").c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    fs::remove_all(folder_);
  }

  std::string program(const std::string& name, const std::string& script) {
    const fs::path file = folder_ / "bin" / name;
    std::ofstream(file) << "#!/bin/sh\nPATH=/usr/bin:/bin\n" << script << "\n";
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }
  [[nodiscard]] LibraryInfo library(const std::string& name) const {
    LibraryInfo info;
    info.name = name;
    info.path = (folder_ / "lib" / "libmpi.so").string();
    return info;
  }

  /// The launcher of a library with this name; what is wrong if there is none.
  [[nodiscard]] std::string found_for(const std::string& name) const {
    auto found = find_launcher(library(name));
    return found ? *found : std::string(found.status().message());
  }

  fs::path folder_;
  std::string path_;
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
