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

/// The guardian of a tuttirun; 0: none.
pid_t guardian_of(pid_t launcher) {
  const std::string pid = std::to_string(launcher);
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; children >> child;) {
    std::string name;
    std::ifstream("/proc/" + std::to_string(child) + "/comm") >> name;
    if (name == "tuttirun-guard") return child;
  }
  return 0;
}

class TuttirunRestart : public testing::Test {
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
  /// Both nodes run, then a worker of `failing` fails.
  void fail(Tuttirun& first, Tuttirun& second) const {
    first.read_until("ready", 2);
    second.read_until("ready", 2);
    gate.open_once();
  }

  const Gate gate{"fail"};
  const std::string port = std::to_string(free_port());
};

TEST_F(TuttirunRestart, AnInterruptOfANodeThatStillEndsItsWorkersEndsTheRestartedOne) {
  const auto rest = program(0, "$GROUP_RANK = 1");
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  second.read_until("told", 2);
  first.read_until("again", 2);
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 128 + SIGINT) << second.err;
  EXPECT_EQ(first.wait(), 128 + SIGINT) << first.err;
  EXPECT_THAT(first.err, HasSubstr("tuttirun on node 1 was ended by SIGINT"));
}

TEST_F(TuttirunRestart, SoDoesOneAfterAFailureOfTheNodesOwn) {
  const auto rest = program(1, "$GROUP_RANK$LOCAL_RANK = 11");
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  second.read_until("told", 1);
  first.read_until("again", 2);
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 9) << second.err;
  EXPECT_EQ(first.wait(), 128 + SIGINT) << first.err;
  EXPECT_THAT(first.err, HasSubstr("tuttirun on node 1 was ended by SIGINT"));
}

TEST_F(TuttirunRestart, AnInterruptOfTheServingNodeEndsTheOneThatWaitsForIt) {
  const auto rest = program(1, "$GROUP_RANK = 0");
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  first.read_until("told", 2);
  second.read_error_until("starting all workers again");
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(), 128 + SIGINT) << first.err;
  EXPECT_EQ(second.wait(), 128 + SIGINT) << second.err;
  EXPECT_THAT(second.err, HasSubstr("does not start its workers again: tuttirun on node 0 was "
                                    "ended by SIGINT"));
  EXPECT_EQ(Tuttirun::count(second.out, "again"), 0);
}

TEST_F(TuttirunRestart, AnInterruptOfTheOneThatWaitsEndsTheServingNode) {
  const Gate leave("leave");
  const auto rest = program_held_by(leave);
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  first.read_until("told", 2);
  second.read_error_until("starting all workers again");
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 128 + SIGINT) << second.err;
  // It hears of it while its own workers still end.
  first.read_error_until(
      "does not start its workers again: tuttirun on node 1 was ended by SIGINT");
  leave.open_once();
  leave.open_once();
  EXPECT_EQ(first.wait(), 128 + SIGINT) << first.err;
  EXPECT_EQ(Tuttirun::count(first.out, "again"), 0);
}

TEST_F(TuttirunRestart, AKilledLauncherEndsTheRestartedOther) {
  const auto rest = program(0, "$GROUP_RANK = 1");
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  second.read_until("told", 2);
  first.read_until("again", 2);
  second.signal(SIGKILL);
  EXPECT_EQ(second.wait(), 128 + SIGKILL);
  EXPECT_EQ(first.wait(), 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr("tuttirun on node 1 has ended without a good-bye"));
}

TEST_F(TuttirunRestart, AKilledServingLauncherEndsTheOneThatWaitsForIt) {
  const auto rest = program(1, "$GROUP_RANK = 0");
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  first.read_until("told", 2);
  second.read_error_until("starting all workers again");
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait(), 128 + SIGKILL);
  EXPECT_EQ(second.wait(), 1) << second.err;
  EXPECT_THAT(second.err, HasSubstr("tuttirun on node 0 cannot be reached"));
}

TEST_F(TuttirunRestart, AKilledLauncherIsNotRestartedWithout) {
  const auto rest = program(0, "$GROUP_RANK = none");
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  first.read_until("ready", 2);
  second.read_until("ready", 2);
  second.signal(SIGKILL);
  EXPECT_EQ(second.wait(), 128 + SIGKILL);
  EXPECT_EQ(first.wait(), 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr("tuttirun on node 1 has ended without a good-bye"));
  EXPECT_EQ(Tuttirun::count(first.out, "again"), 0);
}

TEST_F(TuttirunRestart, ANodeThatCannotStartAgainTellsTheOther) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "without descriptors UBSan cannot look whether memory can be read, and reports "
                  "an object of ours";
#endif
  const Gate leave("leave");
  const auto rest = program_held_by(leave);
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  first.read_until("told", 2);
  second.read_error_until("starting all workers again");
  // No descriptor is left for another store.
  const rlimit none{3, 3};
  ASSERT_EQ(prlimit(first.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  leave.open_once();
  leave.open_once();
  EXPECT_EQ(first.wait(), 127) << first.err;
  EXPECT_THAT(first.err, HasSubstr("cannot start the workers again"));
  EXPECT_EQ(second.wait(), 127) << second.err;
  EXPECT_THAT(second.err, HasSubstr("node 0 cannot start the workers again"));
}

TEST_F(TuttirunRestart, ANodeWhoseGuardianWasKilledTellsTheOther) {
  const Gate leave("leave");
  const auto rest = program_held_by(leave);
  Tuttirun first(node(0, port, rest));
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  first.read_until("told", 2);
  second.read_error_until("starting all workers again");
  const pid_t guardian = guardian_of(first.pid());
  ASSERT_GT(guardian, 0);
  auto end = tutti::os::open_pidfd(guardian);
  ASSERT_TRUE(end);
  ASSERT_EQ(kill(guardian, SIGKILL), 0);
  auto ended =
      tutti::os::wait_ready(end->get(), POLLIN, Tuttirun::Clock::now() + std::chrono::seconds(20));
  ASSERT_TRUE(ended.ok());
  ASSERT_TRUE(*ended);
  leave.open_once();
  leave.open_once();
  // No worker runs without one.
  EXPECT_EQ(first.wait(), 127) << first.err;
  EXPECT_EQ(second.wait(), 127) << second.err;
  EXPECT_EQ(Tuttirun::count(first.out, "again"), 0);
}

TEST_F(TuttirunRestart, ANodeThatMayNotRestartTellsTheOther) {
  auto rest = program(0, "$GROUP_RANK = none");
  Tuttirun first(node(0, port, rest));
  rest[1] = "0";
  Tuttirun second(node(1, port, rest));
  fail(first, second);
  EXPECT_EQ(second.wait(), 9) << second.err;
  EXPECT_EQ(first.wait(), 9) << first.err;
  EXPECT_THAT(first.err, HasSubstr("its --max-restarts is 0"));
}

}  // namespace
