#include "rendezvous/launcher_process.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/format.hpp"
#include "settings.hpp"
#include "support/temporary_folder.hpp"

namespace tutti::rendezvous {
namespace {

using namespace std::string_view_literals;

/// Processes above this one as /proc shows them; the first is its parent.
class LauncherProcess : public testing::Test {
 protected:
  void add(int pid, int parent, std::string_view name, std::string_view environment = {}) {
    const std::filesystem::path folder = folder_.at(std::to_string(pid));
    std::filesystem::create_directory(folder);
    std::ofstream(folder / "stat")
        << base::format("{} ({}) S {} 1 1 34816 1 4194560 100 0 0 0 1 2 3 4 20 0 1 0 {} 9 9 9\n",
                        pid, name, parent, 1000 + pid);
    std::ofstream(folder / "environ", std::ios::binary) << environment;
  }
  [[nodiscard]] std::string found(const Variables& variables) const {
    return launcher_process(Environment(lookup_in(variables)), folder_.path()).value_or("none");
  }

  const int parent_ = ::getppid();
  const Variables by_hand_ = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  const Variables started_ = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "8"}};

 private:
  const tutti::test::TemporaryFolder folder_;
};

TEST_F(LauncherProcess, IsTheNearestKnownOne) {
  add(parent_, 7, "sh) S 5 (");
  add(7, 6, "python3");
  add(6, 5, "hydra_pmi_proxy");
  add(5, 1, "mpiexec.hydra");
  for (const Variables& variables : {by_hand_, started_}) EXPECT_EQ(found(variables), "6 1006");
}

TEST_F(LauncherProcess, ElseItIsTheNearestThatWasNotStartedAsThisRank) {
  const auto ours = "HOME=/\0PMI_FD=8\0PMI_RANK=1\0PMI_SIZE=2\0"sv;
  add(parent_, 7, "sh", ours);
  add(7, 6, "sh", ours);
  add(6, 4, "new_launcher", "PMI_FD=8\0XPMI_RANK=1\0PMI_RANK=11\0"sv);  // itself a rank
  add(4, 5, "bash");
  add(5, 0, "init");
  EXPECT_EQ(found(started_), "6 1006");
  EXPECT_EQ(found(by_hand_), "none");
}

TEST_F(LauncherProcess, IsNoneWhereAContainerHidesIt) {
  EXPECT_EQ(found(started_), "none");
  add(parent_, 0, "sh", "PMI_RANK=1\0PMI_SIZE=2\0PMI_FD=8\0"sv);
  EXPECT_EQ(found(started_), "none");
}

TEST_F(LauncherProcess, IsNotTheProcessThatTakesOrphansOfAllJobs) {
  add(parent_, 1, "systemd");
  add(1, 0, "init");
  EXPECT_EQ(found(started_), "none");
}

}  // namespace
}  // namespace tutti::rendezvous
