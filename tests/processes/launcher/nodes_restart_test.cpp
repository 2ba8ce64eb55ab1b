// Two nodes, one of which goes between a worker's failure and the restart: the other must not start
// again and wait for it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "tuttirun_process.hpp"

using testing::HasSubstr;

namespace {

/// Holds up workers that read a line from it.
class Gate {
 public:
  explicit Gate(const std::string& name)
      : path_(testing::TempDir() + "tuttirun_gate_" + name + std::to_string(getpid())) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    fd_ = tutti::os::Fd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(fd_.valid());
  }
  ~Gate() { unlink(path_.c_str()); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] std::string pass() const { return "read line < \"" + path_ + "\""; }
  /// Lets one worker pass.
  void open_once() const { EXPECT_EQ(write(fd_.get(), "\n", 1), 1); }

 private:
  std::string path_;
  tutti::os::Fd fd_;
};

/// The child of a tuttirun that bears the reaper's name now; 0: none does.
pid_t named_reaper_of(pid_t launcher) {
  const std::string pid = std::to_string(launcher);
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; children >> child;) {
    std::string name;
    std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
    if (name == "tuttirun-guard") return child;
  }
  return 0;
}

/// The reaper of a tuttirun; 0: there is none. It takes its name when it first runs, which may be
/// after the workers that were started later; and the kernel may leave children out of the list
/// while one ends.
pid_t reaper_of(pid_t launcher) {
  const auto deadline = Tuttirun::Clock::now() + std::chrono::seconds(20);
  pid_t reaper = named_reaper_of(launcher);
  while (reaper == 0 && Tuttirun::Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    reaper = named_reaper_of(launcher);
  }
  return reaper;
}

class TuttirunRestart : public TwoNodes {
 protected:
  /// Worker 0 of node `failing` fails when the gate is opened. Of the workers that run then, those
  /// for which `lingers` is true say "told" when they are asked to end, and do not. The restarted
  /// ones say "again" and wait.
  [[nodiscard]] std::vector<std::string> program(int failing, const std::string& lingers) const {
    return {"--max-restarts",
            "5",
            "--grace",
            "60",
            "bash",
            "-c",
            "if [ $TORCHELASTIC_RESTART_COUNT != 0 ]; then echo again; exec sleep 1000; fi; "
            "if [ $GROUP_RANK$LOCAL_RANK = " +
                std::to_string(failing) + "0 ]; then echo ready; " + gate.pass() +
                "; exit 9; fi; if [ " + lingers +
                " ]; then trap 'echo told' TERM; trap 'exit 0' INT; echo ready; "
                "while :; do sleep 1; done; fi; echo ready; exec sleep 1000"};
  }
  /// Worker 0 of node 1 fails when the gate is opened. Those of node 0 say "told" when they are
  /// asked to end, and do when `leave` is opened.
  [[nodiscard]] std::vector<std::string> program_held_by(const Gate& leave) const {
    return {"--max-restarts",
            "5",
            "--grace",
            "60",
            "bash",
            "-c",
            "if [ $TORCHELASTIC_RESTART_COUNT != 0 ]; then echo again; exec sleep 1000; fi; "
            "if [ $GROUP_RANK$LOCAL_RANK = 10 ]; then echo ready; " +
                gate.pass() + "; exit 9; fi; if [ $GROUP_RANK = 0 ]; then trap 'echo told; " +
                leave.pass() + "; exit 0' TERM; echo ready; while :; do sleep 1; done; fi; " +
                "echo ready; exec sleep 1000"};
  }
  /// Starts both nodes with these options behind those that say which node it is; all workers run.
  void start_all(const std::vector<std::string>& rest_0, const std::vector<std::string>& rest_1) {
    start(rest_0, rest_1);
    read_until("ready");
  }
  void start_all(const std::vector<std::string>& rest) { start_all(rest, rest); }
  /// The worker fails that waits for it. Then `told` workers of node 1 are still ending, and node 0
  /// has started again.
  void fail_and_restart_node_0(const std::vector<std::string>& rest, int told) {
    start_all(rest);
    gate.open_once();
    second().read_until("told", told);
    first().read_until("again", 2);
  }
  /// The worker fails that waits for it. Then both workers of node 0 are still ending, and node 1
  /// waits for it to start again.
  void fail_while_node_0_is_busy() {
    gate.open_once();
    first().read_until("told", 2);
    second().read_error_until("starting all workers again");
  }
  void fail_while_node_0_is_busy(const std::vector<std::string>& rest) {
    start_all(rest);
    fail_while_node_0_is_busy();
  }

  const Gate gate{"fail"};
};

TEST_F(TuttirunRestart, AnInterruptOfANodeThatStillEndsItsWorkersEndsTheRestartedOne) {
  fail_and_restart_node_0(program(0, "$GROUP_RANK = 1"), 2);
  second().signal(SIGINT);
  EXPECT_EQ(second().wait(), 128 + SIGINT) << second().err;
  EXPECT_EQ(first().wait(), 128 + SIGINT) << first().err;
  EXPECT_THAT(first().err, HasSubstr("tuttirun on node 1 was ended by SIGINT"));
}

TEST_F(TuttirunRestart, SoDoesOneAfterAFailureOfTheNodesOwn) {
  fail_and_restart_node_0(program(1, "$GROUP_RANK$LOCAL_RANK = 11"), 1);
  second().signal(SIGINT);
  EXPECT_EQ(second().wait(), 9) << second().err;
  EXPECT_EQ(first().wait(), 128 + SIGINT) << first().err;
  EXPECT_THAT(first().err, HasSubstr("tuttirun on node 1 was ended by SIGINT"));
}

TEST_F(TuttirunRestart, AnInterruptOfTheServingNodeEndsTheOneThatWaitsForIt) {
  fail_while_node_0_is_busy(program(1, "$GROUP_RANK = 0"));
  first().signal(SIGINT);
  EXPECT_EQ(first().wait(), 128 + SIGINT) << first().err;
  EXPECT_EQ(second().wait(), 128 + SIGINT) << second().err;
  EXPECT_THAT(second().err, HasSubstr("does not start its workers again: tuttirun on node 0 was "
                                      "ended by SIGINT"));
  EXPECT_EQ(Tuttirun::count(second().out, "again"), 0);
}

TEST_F(TuttirunRestart, AnInterruptOfTheOneThatWaitsEndsTheServingNode) {
  const Gate leave("leave");
  fail_while_node_0_is_busy(program_held_by(leave));
  second().signal(SIGINT);
  EXPECT_EQ(second().wait(), 128 + SIGINT) << second().err;
  // It hears of it while its own workers still end.
  first().read_error_until(
      "does not start its workers again: tuttirun on node 1 was ended by SIGINT");
  leave.open_once();
  leave.open_once();
  EXPECT_EQ(first().wait(), 128 + SIGINT) << first().err;
  EXPECT_EQ(Tuttirun::count(first().out, "again"), 0);
}

TEST_F(TuttirunRestart, AKilledLauncherEndsTheRestartedOther) {
  fail_and_restart_node_0(program(0, "$GROUP_RANK = 1"), 2);
  second().signal(SIGKILL);
  EXPECT_EQ(second().wait(), 128 + SIGKILL);
  EXPECT_EQ(first().wait(), 1) << first().err;
  EXPECT_THAT(first().err, HasSubstr("tuttirun on node 1 has ended unexpectedly"));
}

TEST_F(TuttirunRestart, AKilledServingLauncherEndsTheOneThatWaitsForIt) {
  fail_while_node_0_is_busy(program(1, "$GROUP_RANK = 0"));
  first().signal(SIGKILL);
  EXPECT_EQ(first().wait(), 128 + SIGKILL);
  EXPECT_EQ(second().wait(), 1) << second().err;
  EXPECT_THAT(second().err, HasSubstr("tuttirun on node 0 cannot be reached"));
}

TEST_F(TuttirunRestart, AKilledLauncherIsNotRestartedWithout) {
  start_all(program(0, "$GROUP_RANK = none"));
  second().signal(SIGKILL);
  EXPECT_EQ(second().wait(), 128 + SIGKILL);
  EXPECT_EQ(first().wait(), 1) << first().err;
  EXPECT_THAT(first().err, HasSubstr("tuttirun on node 1 has ended unexpectedly"));
  EXPECT_EQ(Tuttirun::count(first().out, "again"), 0);
}

TEST_F(TuttirunRestart, AStoppedServingLauncherIsWaitedForNoLongerThanSaid) {
  const Gate leave("leave");
  const auto rest = program_held_by(leave);
  std::vector<std::string> impatient = rest;
  impatient[3] = "0.5";  // its grace; its own workers end at once
  impatient.insert(impatient.begin(), {"--rdzv-conf", "join_timeout=2"});
  start_all(rest, impatient);
  fail_while_node_0_is_busy();
  const auto begin = Tuttirun::Clock::now();
  first().signal(SIGSTOP);
  // What it has to tell the stopped one's store, it tries for some seconds more.
  EXPECT_EQ(second().wait(), 127) << second().err;
  EXPECT_GE(Tuttirun::Clock::now() - begin, std::chrono::seconds(2));
  EXPECT_THAT(second().err,
              HasSubstr("node 0 has not sent the port of the workers' store within 3 s; "
                        "is it stopped"));
  EXPECT_EQ(Tuttirun::count(second().out, "again"), 0);
  // And the stopped one does not start again without the other.
  first().signal(SIGCONT);
  first().read_error_until("node 0 does not start its workers again");
  leave.open_once();
  leave.open_once();
  EXPECT_EQ(first().wait(), 127) << first().err;
  EXPECT_THAT(first().err, HasSubstr("node 0 does not start its workers again: node 1 cannot start "
                                     "the workers again"));
  EXPECT_EQ(Tuttirun::count(first().out, "again"), 0);
}

TEST_F(TuttirunRestart, ANodeThatCannotStartAgainTellsTheOther) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "without descriptors UBSan cannot look whether memory can be read, and reports "
                  "an object of ours";
#endif
  const Gate leave("leave");
  fail_while_node_0_is_busy(program_held_by(leave));
  // No descriptor is left for another store.
  const rlimit none{3, 3};
  ASSERT_EQ(prlimit(first().pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  leave.open_once();
  leave.open_once();
  EXPECT_EQ(first().wait(), 127) << first().err;
  EXPECT_THAT(first().err, HasSubstr("cannot start the workers again"));
  EXPECT_EQ(second().wait(), 127) << second().err;
  EXPECT_THAT(second().err, HasSubstr("node 0 cannot start the workers again"));
}

TEST_F(TuttirunRestart, ANodeWhoseReaperWasKilledTellsTheOther) {
  const Gate leave("leave");
  fail_while_node_0_is_busy(program_held_by(leave));
  const pid_t reaper = reaper_of(first().pid());
  ASSERT_GT(reaper, 0);
  auto end = tutti::os::open_pidfd(reaper);
  ASSERT_TRUE(end);
  ASSERT_EQ(kill(reaper, SIGKILL), 0);
  auto ended =
      tutti::os::wait_ready(end->get(), POLLIN, Tuttirun::Clock::now() + std::chrono::seconds(20));
  ASSERT_TRUE(ended.ok());
  ASSERT_TRUE(*ended);
  leave.open_once();
  leave.open_once();
  // No worker runs without one.
  EXPECT_EQ(first().wait(), 127) << first().err;
  EXPECT_EQ(second().wait(), 127) << second().err;
  EXPECT_EQ(Tuttirun::count(first().out, "again"), 0);
}

TEST_F(TuttirunRestart, ANodeThatMayNotRestartTellsTheOther) {
  const auto rest = program(0, "$GROUP_RANK = none");
  auto never = rest;
  never[1] = "0";
  start_all(rest, never);
  gate.open_once();
  EXPECT_EQ(second().wait(), 9) << second().err;
  EXPECT_EQ(first().wait(), 9) << first().err;
  EXPECT_THAT(first().err, HasSubstr("its --max-restarts is 0"));
}

}  // namespace
