// Ranks that are bound to CPUs, as launchers do it.

#include <sched.h>

#include <mutex>

#include "support/called_back.hpp"
#include "support/programs.hpp"
#include "unit/backend/world_of_one.hpp"

namespace tutti {
namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void bind_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) throw std::runtime_error("cannot be bound");
}

/// Two ranks on these CPUs start; an error where one does not wait as `expected` says.
void start_ranks_on(int first, int second, const std::string& expected) {
  spawn(
      [&](int rank) {
        bind_to(rank == 0 ? first : second);
        std::mutex mutex;
        std::string told;
        set_log_sink(
            [&](LogLevel, std::string_view text) {
              const std::lock_guard lock(mutex);
              told.append(text).push_back('\n');
            },
            LogLevel::debug);
        ProcessGroup world = init_process_group();
        std::vector<float> values(2, static_cast<float>(rank));
        world.all_reduce(values).wait();
        set_log_sink({});
        const std::lock_guard lock(mutex);
        if (told.find(expected) == std::string::npos)
          throw std::runtime_error("no '" + expected + "' in: " + told);
      },
      2);
}

TEST(BoundRanks, WithACpuEachSpin) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  start_ranks_on(cpus[0], cpus[1], "waits spin, 2 ranks of this host have 2 CPUs");
}

TEST(BoundRanks, OnOneCpuYield) {
  const int cpu = allowed_cpus().front();
  start_ranks_on(cpu, cpu, "waits yield, 2 ranks of this host have 1 CPU");
}

/// Of a process or one of its threads, "self/task/7".
std::string cpus_of(const std::string& task) { return test::status_of(task, "Cpus_allowed_list"); }

std::string cpus_of_thread(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string task = "self/task/" + entry.path().filename().string();
    if (test::status_of(task, "Name") == "\t" + name) return cpus_of(task);
  }
  return "there is none";
}

TEST(BoundRanks, ProgressThreadRunsWhereTheProcessMay) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU";
  std::thread([&] {
    bind_to(cpus[0]);
    ProcessGroup world = world_of_one();
    std::vector<int> got(1);
    Work work = world.irecv(got, 0);
    test::Heard heard;
    // A callback runs on the progress thread, which so has begun.
    work.on_done(heard.callback());
    std::vector<int> given{7};
    world.send(given, 0);
    ASSERT_NO_FATAL_FAILURE(heard.wait());
    EXPECT_EQ(cpus_of_thread("tutti-progress"), cpus_of("self"));
    EXPECT_NE(cpus_of("thread-self"), cpus_of("self"));
    work.wait();
  }).join();
}

}  // namespace
}  // namespace tutti
