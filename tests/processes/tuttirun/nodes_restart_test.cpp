// A node goes between a worker's failure and the restart: the other must not start again alone.

#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "os/host.hpp"
#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {

/// Holds up workers that read a line from it.
class Gate {
 public:
  Gate() {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    fd_ = tutti::os::Fd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(fd_.valid());
  }
  [[nodiscard]] std::string pass() const { return "read line < \"" + path_ + "\""; }
  /// Lets one worker pass.
  void open_once() const { EXPECT_EQ(write(fd_.get(), "\n", 1), 1); }

 private:
  const tutti::test::TemporaryFolder folder_;
  const std::string path_ = folder_.at("gate").string();
  tutti::os::Fd fd_;
};

/// The reaper of a tuttirun; 0: there is none. It takes its name when it first runs, maybe after
/// the workers; and the kernel may leave children out of the list while one ends.
pid_t reaper_of(pid_t launcher) {
  const auto deadline = Tuttirun::Clock::now() + 20s;
  while (Tuttirun::Clock::now() < deadline) {
    for (const pid_t child : tutti::test::children_of(launcher))
      if (tutti::test::status_of(std::to_string(child), "Name") == "\ttuttirun-guard") return child;
    std::this_thread::sleep_for(1ms);
  }
  return 0;
}

class TuttirunRestart : public TwoNodes {
 protected:
  /// Worker 0 of node `failing` fails when the gate is opened; the others go on with `script`. The
  /// restarted ones say "again" and wait.
  [[nodiscard]] Words failing(int failing, const std::string& script) const {
    return joined(
        {{"--max-restarts", "5", "--grace", "60", "bash", "-c"},
         {"if [ $TORCHELASTIC_RESTART_COUNT != 0 ]; then echo again; exec sleep 1000; fi; "
          "if [ $GROUP_RANK$LOCAL_RANK = " +
          std::to_string(failing) + "0 ]; then echo ready; " + gate.pass() + "; exit 9; fi; " +
          script + "echo ready; exec sleep 1000"}});
  }
  /// ... Those for which `lingers` is true say "told" when they are asked to end, and do not.
  [[nodiscard]] Words program(int node, const std::string& lingers) const {
    return failing(node, "if [ " + lingers +
                             " ]; then trap 'echo told' TERM; trap 'exit 0' INT; echo ready; "
                             "while :; do sleep 1; done; fi; ");
  }
  /// Starts both nodes with these options behind those that say which node it is; all workers run.
  void start_all(const Words& rest_0, const Words& rest_1) {
    start(rest_0, rest_1);
    read_until("ready");
  }
  /// Both workers of node 0 are still ending then, and node 1 waits for it to start again.
  void fail_while_node_0_is_busy() {
    gate.open_once();
    first().read_until("told", 2);
    second().read_error_until("starting all workers again");
  }

  const Gate gate;
};

/// A node gets a signal at such a time, and ends with one of these codes as the other does.
struct End {
  const char* name;
  int failing;
  std::string lingers;
  int told;  ///< workers of node 1 that are still ending when node 0 has started again; -1: it
             ///< waits
  int node;
  int signal;
  int of_first;
  int of_second;
  std::string says;  ///< the other node
  bool fails = true;
};
class TuttirunRestartEnds : public TuttirunRestart, public testing::WithParamInterface<End> {};

TEST_P(TuttirunRestartEnds, WithTheOtherNode) {
  const auto& [name, failing, lingers, told, node, signal, of_first, of_second, says, fails] =
      GetParam();
  start_all(program(failing, lingers), program(failing, lingers));
  if (told >= 0) {
    gate.open_once();
    second().read_until("told", told);
    first().read_until("again", 2);
  } else if (fails) {
    fail_while_node_0_is_busy();
  }
  (node == 0 ? first() : second()).signal(signal);
  expect_ends(of_first, of_second);
  const Tuttirun& other = node == 0 ? second() : first();
  EXPECT_THAT(other.err, HasSubstr(says));
  if (told < 0) {
    EXPECT_EQ(times_in(other.out, "again"), 0);
  }
}

const std::string kHost = " (" + tutti::os::host_name() + ") ";
const std::string kInterrupted = "tuttirun on node 1" + kHost + "was ended by SIGINT";
const std::string kGone = "tuttirun on node 1" + kHost + "has ended unexpectedly";
INSTANTIATE_TEST_SUITE_P(
    , TuttirunRestartEnds,
    testing::Values(
        End{"InterruptWhileItEndsItsWorkers", 0, "$GROUP_RANK = 1", 2, 1, SIGINT, 128 + SIGINT,
            128 + SIGINT, kInterrupted},
        End{"InterruptAfterAFailureOfItsOwn", 1, "$GROUP_RANK$LOCAL_RANK = 11", 1, 1, SIGINT,
            128 + SIGINT, 9, kInterrupted},
        End{"InterruptOfTheServingNode", 1, "$GROUP_RANK = 0", -1, 0, SIGINT, 128 + SIGINT,
            128 + SIGINT,
            "does not start its workers again: tuttirun on node 0" + kHost + "was ended by SIGINT"},
        End{"KilledLauncher", 0, "$GROUP_RANK = 1", 2, 1, SIGKILL, 1, 128 + SIGKILL, kGone},
        End{"KilledServingLauncher", 1, "$GROUP_RANK = 0", -1, 0, SIGKILL, 128 + SIGKILL, 1,
            "tuttirun on node 0 cannot be reached"},
        End{"KilledLauncherWithoutAFailure", 0, "$GROUP_RANK = none", -1, 1, SIGKILL, 1,
            128 + SIGKILL, kGone, false}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(TuttirunRestart, ANodeThatMayNotRestartTellsTheOther) {
  const auto rest = program(0, "$GROUP_RANK = none");
  auto never = rest;
  never[1] = "0";
  start_all(rest, never);
  gate.open_once();
  expect_ends(9);
  EXPECT_THAT(first().err, HasSubstr("its --max-restarts is 0"));
}

/// Worker 0 of node 1 has failed. Those of node 0 are asked to end, and do when told.
class TuttirunRestartHeldUp : public TuttirunRestart {
 protected:
  /// `options`: more for node 1, which then ends its own workers at once.
  void start_and_fail(const Words& options = {}) {
    const Words rest =
        failing(1, "if [ $GROUP_RANK = 0 ]; then trap 'echo told; " + leave.pass() +
                       "; exit 0' TERM; echo ready; while :; do sleep 1; done; fi; ");
    Words of_second = joined({options, rest});
    if (!options.empty()) of_second[options.size() + 3] = "0.5";  // its grace
    start_all(rest, of_second);
    fail_while_node_0_is_busy();
  }
  void let_both_leave() const {
    leave.open_once();
    leave.open_once();
  }
  const Gate leave;
};

TEST_F(TuttirunRestartHeldUp, AnInterruptOfTheOneThatWaitsEndsTheServingNode) {
  start_and_fail();
  second().expect_ended_by(SIGINT);
  // It hears of it while its own workers still end.
  first().read_error_until("does not start its workers again: tuttirun on node 1" + kHost +
                           "was ended by SIGINT");
  let_both_leave();
  EXPECT_EQ(first().wait(), 128 + SIGINT) << first().err;
  EXPECT_EQ(times_in(first().out, "again"), 0);
}

TEST_F(TuttirunRestartHeldUp, AStoppedServingLauncherIsWaitedForNoLongerThanSaid) {
  start_and_fail({"--rdzv-conf", "join_timeout=2"});
  const auto begin = Tuttirun::Clock::now();
  first().signal(SIGSTOP);
  // What it has to tell the stopped one's store, it tries for some seconds more.
  EXPECT_EQ(second().wait(), 127) << second().err;
  EXPECT_GE(Tuttirun::Clock::now() - begin, 2s);
  EXPECT_THAT(second().err, HasSubstr("node 0 has not sent the port of the workers' store within "
                                      "3 s; is it stopped"));
  // And the stopped one does not start again without the other.
  first().signal(SIGCONT);
  first().read_error_until("node 0" + kHost + "does not start its workers again");
  let_both_leave();
  EXPECT_EQ(first().wait(), 127) << first().err;
  EXPECT_THAT(first().err,
              HasSubstr("node 0" + kHost + "does not start its workers again: node 1" + kHost +
                        "cannot start "
                        "the workers again"));
  EXPECT_EQ(times_in(out(), "again"), 0);
}

TEST_F(TuttirunRestartHeldUp, ANodeThatCannotStartAgainTellsTheOther) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "without descriptors UBSan cannot look whether memory can be read, and reports "
                  "an object of ours";
#endif
  start_and_fail();
  // No descriptor is left for another store.
  const rlimit none{3, 3};
  ASSERT_EQ(prlimit(first().pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  let_both_leave();
  expect_ends(127);
  EXPECT_THAT(first().err, HasSubstr("cannot start the workers again"));
  EXPECT_THAT(second().err, HasSubstr("node 0" + kHost + "cannot start the workers again"));
}

TEST_F(TuttirunRestartHeldUp, ANodeWhoseReaperWasKilledTellsTheOther) {
  start_and_fail();
  const pid_t reaper = reaper_of(first().pid());
  ASSERT_GT(reaper, 0);
  auto end = tutti::os::open_pidfd(reaper);
  ASSERT_TRUE(end);
  ASSERT_EQ(kill(reaper, SIGKILL), 0);
  auto ended = tutti::os::wait_ready(end->get(), POLLIN, Tuttirun::Clock::now() + 20s);
  ASSERT_TRUE(ended.ok() && *ended);
  let_both_leave();
  expect_ends(127);  // no worker runs without one
  EXPECT_EQ(times_in(first().out, "again"), 0);
}

}  // namespace
