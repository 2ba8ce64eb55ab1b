#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "os/cgroup.hpp"
#include "os/cpu_quota.hpp"
#include "support/temporary_folder.hpp"

namespace tutti::os {
namespace {

namespace fs = std::filesystem;

/// A machine whose /proc and cgroups are files of ours.
class Machine : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_.path() + path).parent_path());
    (void)root_.file(path.substr(1), text);
  }
  void quota_of_first_version(const std::string& group, const std::string& quota) const {
    write("/sys/fs/cgroup/cpu,cpuacct/" + group + "cpu.cfs_quota_us", quota);
    write("/sys/fs/cgroup/cpu,cpuacct/" + group + "cpu.cfs_period_us", "100000\n");
  }
  void second_version(const std::string& group) const {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void first_version(const std::string& root, const std::string& group) const {
    write("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,cpuacct:" + group + "\n3:cpuset:/\n");
    write("/proc/self/mountinfo",
          "25 23 0:22 / / rw - ext4 /dev/vda rw\n32 31 0:29 " + root +
              " /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
              "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  }
  [[nodiscard]] CpuQuota quota() const {
    return cpu_quota(root_.path()).value_or(CpuQuota{.cpus = 0});
  }
  [[nodiscard]] int cpus() const { return quota().cpus; }

  test::TemporaryFolder root_;
};

TEST_F(Machine, CountsKillsForMemoryInItsOwnGroup) {
  EXPECT_EQ(out_of_memory_kills(root_.path()), 0U);
  second_version("/slice/job");
  write("/sys/fs/cgroup/slice/memory.events", "low 0\noom 9\noom_kill 9\n");
  EXPECT_EQ(out_of_memory_kills(root_.path()), 0U);
  write("/sys/fs/cgroup/slice/job/memory.events", "low 0\noom 5\noom_kill 3\n");
  EXPECT_EQ(out_of_memory_kills(root_.path()), 3U);
}

TEST_F(Machine, CountsKillsForMemoryOnAll) {
  EXPECT_EQ(out_of_memory_kills_of_host(root_.path()), 0U);
  write("/proc/vmstat", "nr_free_pages 7\noom_kill 12\nballoon_inflate 3\n");
  EXPECT_EQ(out_of_memory_kills_of_host(root_.path()), 12U);
}

TEST_F(Machine, TellsTheLeastLimitOfMemoryOnTheWayUp) {
  EXPECT_FALSE(memory_limit(root_.path()));
  second_version("/slice/job");
  write("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  EXPECT_FALSE(memory_limit(root_.path()));
  write("/sys/fs/cgroup/slice/memory.max", "4096\n");
  ASSERT_TRUE(memory_limit(root_.path()));
  EXPECT_EQ(memory_limit(root_.path())->bytes, 4096U);
  EXPECT_EQ(memory_limit(root_.path())->file, root_.path() + "/sys/fs/cgroup/slice/memory.max");
  write("/sys/fs/cgroup/slice/job/memory.max", "1024\n");
  EXPECT_EQ(memory_limit(root_.path())->bytes, 1024U);

  write("/proc/self/cgroup", "3:memory:/job\n");
  write("/proc/self/mountinfo", "32 31 0:29 / /sys/memory rw - cgroup cgroup rw,memory\n");
  write("/sys/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(memory_limit(root_.path())) << "a number that means none";
  write("/sys/memory/job/memory.limit_in_bytes", "2048\n");
  EXPECT_EQ(memory_limit(root_.path())->bytes, 2048U);
}

TEST_F(Machine, WithoutCgroupsHasNoQuota) { EXPECT_EQ(cpus(), 0); }

TEST_F(Machine, OfTheSecondVersionTellsTheLeastOnTheWayUp) {
  second_version("/slice/job");
  write("/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cpus(), 0);
  write("/sys/fs/cgroup/slice/cpu.max", "350000 100000\n");
  EXPECT_EQ(cpus(), 3);
  write("/sys/fs/cgroup/slice/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpus(), 1);
  second_version("/");  // shows it at the mount
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpus(), 2);
}

TEST_F(Machine, OfTheFirstVersionTellsItsQuota) {
  first_version("/", "/job/step");
  quota_of_first_version("job/", "400000\n");
  quota_of_first_version("job/step/", "-1\n");
  EXPECT_EQ(cpus(), 4);
}

TEST_F(Machine, OfTheFirstVersionInAContainerShowsItsOwnGroupOnly) {
  first_version("/docker/1f", "/docker/1f");
  quota_of_first_version("", "250000\n");
  EXPECT_EQ(cpus(), 2);
}

TEST_F(Machine, TellsGroupsApart) {
  second_version("/a");
  write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  write("/sys/fs/cgroup/b/cpu.max", "200000 100000\n");
  const CpuQuota one = quota();
  second_version("/b");
  EXPECT_EQ(one.cpus + cpus(), 4);
  EXPECT_NE(one.group, quota().group);
}

}  // namespace
}  // namespace tutti::os
