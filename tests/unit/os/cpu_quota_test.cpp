#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "os/cpu_quota.hpp"

namespace tutti::os {
namespace {

namespace fs = std::filesystem;

/// A machine whose /proc and cgroups are files of ours.
class Machine : public testing::Test {
 protected:
  Machine() {
    std::string name = testing::TempDir() + "/tutti-quota-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~Machine() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void second_version(const std::string& group) const {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void first_version(const std::string& root, const std::string& group) const {
    write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,cpuacct:" + group + "\n3:cpuset:/\n");
    write("/proc/self/mountinfo",
          "25 23 0:22 / / rw - ext4 /dev/vda rw\n"
          "32 31 0:29 " +
              root +
              " /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
              "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  }
  [[nodiscard]] int cpus() const {
    const std::optional<CpuQuota> quota = cpu_quota(root_);
    return quota ? quota->cpus : 0;
  }

  std::string root_;
};

TEST_F(Machine, WithoutCgroupsHasNoQuota) { EXPECT_EQ(cpus(), 0); }

TEST_F(Machine, OfTheSecondVersionTellsTheLeastOnTheWayUp) {
  second_version("/slice/job");
  write("/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cpus(), 0);
  write("/sys/fs/cgroup/slice/cpu.max", "350000 100000\n");
  EXPECT_EQ(cpus(), 3);
  write("/sys/fs/cgroup/slice/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpus(), 1);
}

TEST_F(Machine, OfTheSecondVersionMayShowItsQuotaAtTheMount) {
  second_version("/");
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpus(), 2);
}

TEST_F(Machine, OfTheFirstVersionTellsItsQuota) {
  first_version("/", "/job/step");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/step/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 4);
}

TEST_F(Machine, OfTheFirstVersionInAContainerShowsItsOwnGroupOnly) {
  first_version("/docker/1f", "/docker/1f");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 2);
}

TEST_F(Machine, TellsGroupsApart) {
  second_version("/a");
  write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  write("/sys/fs/cgroup/b/cpu.max", "200000 100000\n");
  const std::optional<CpuQuota> one = cpu_quota(root_);
  second_version("/b");
  const std::optional<CpuQuota> other = cpu_quota(root_);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->group, other->group);
}

}  // namespace
}  // namespace tutti::os
