// Signals that somebody sends to tuttirun.

#include "os/host.hpp"
#include "tuttirun_process.hpp"

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace {

constexpr const char* kRests = RANK_WORKER " rest_until_told";

void expect_goes_on_after_usr1(const Words& arguments, const Words& environment = {}) {
  Tuttirun run(arguments, environment);
  run.read_until("there", 2);
  run.signal(SIGUSR1);
  EXPECT_EQ(run.wait(), 0) << run.out << run.err;
}

TEST(Signals, UsrOneGoesToTheRanksAndTheJobGoesOn) {
  expect_goes_on_after_usr1({"-n", "2", RANK_WORKER, "rest_until_told"});
}

TEST(Signals, GoToTheRankBehindAWrapperAndToNobodyElse) {
  // The shells and the helper would die of it.
  const std::string script = std::string("sleep 1000 & helper=$!; bash -c 'bash -c \"") + kRests +
                             "; exit \\$?\"; exit $?'; code=$?; kill $helper && exit $code";
  expect_goes_on_after_usr1(shell("2", script));
  // Also a rank in a session of its own.
  expect_goes_on_after_usr1(shell("2", std::string("setsid --wait ") + kRests + "; exit $?"));
}

TEST(Signals, GoToEachRankOfAWorker) {
  const std::string script = std::string("for RANK in 0 1; do RANK=$RANK WORLD_SIZE=2 ") + kRests +
                             " & ranks+=\" $!\"; done; for one in $ranks; do wait $one || exit 9; "
                             "done";
  expect_goes_on_after_usr1(shell("1", script));
}

TEST(Signals, GoToTheRankInAPidNamespaceOfItsOwn) {
  const Words unshare = tutti::test::own_pid_namespace();
  if (unshare.empty()) GTEST_SKIP() << "no pid namespace can be made here";
  expect_goes_on_after_usr1(
      joined({{"--no-python", "-n", "2"}, unshare, {RANK_WORKER, "rest_until_told"}}));
}

TEST(Signals, GoToTheRankWithoutFlightRecorder) {
  expect_goes_on_after_usr1(shell("2", std::string(kRests) + "; exit $?"),
                            {"TUTTI_FLIGHT_RECORDER=off"});
}

TEST(Signals, EachThatEndsNothingIsHandedOn) {
  Tuttirun run({"-n", "2", "python3", "-c",
                "import signal\n"
                "all = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, "
                "signal.SIGTERM}\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, all)\n"
                "print('ready')\n"
                "while (got := signal.sigwait(all)) != signal.SIGTERM: print('got', got.name)\n"});
  run.read_until("ready", 2);
  const std::pair<int, const char*> all[] = {{SIGUSR1, "got SIGUSR1"},
                                             {SIGUSR2, "got SIGUSR2"},
                                             {SIGWINCH, "got SIGWINCH"},
                                             {SIGCONT, "got SIGCONT"}};
  for (const auto& [signal, told] : all) {
    run.signal(signal);
    run.read_until(told, 2);
  }
  run.expect_ended_by(SIGTERM);
}

TEST(Signals, ThatAreNamedEndTheJob) {
  for (const char* const option :
       {"--signals-to-handle=SIGTERM,SIGUSR1", "--signals_to_handle= SIGUSR1 "}) {
    Tuttirun run(shell("2", "trap '' USR2; echo ready; exec sleep 1000", {option}));
    run.read_until("ready", 2);
    run.signal(SIGUSR2);  // handed on
    run.expect_ended_by(SIGUSR1);
    EXPECT_THAT(run.err, HasSubstr("tuttirun: ended by SIGUSR1"));
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"SIGTREM", "\"SIGTREM\" is the name of no signal"},
      {"SIGTERM,,SIGINT", "\"\" is the name of no signal"},
      {"15", "\"15\" is the name of no signal"},
      {"SIGKILL", "\"SIGKILL\" is a signal that cannot end the job"},
      {"SIGCHLD", "\"SIGCHLD\" is a signal that cannot end the job"}};
  for (const auto& [names, text] : wrong)
    expect_told(2, HasSubstr(text), {"--signals-to-handle", names, "true"});
}

/// A worker that hears SIGTERM twice, and its helper, which hears it once.
constexpr const char* kWithHelper =
    "import os, signal, time\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
    "if os.fork() == 0:\n"
    "    signal.sigwait({signal.SIGTERM}); print('helper', time.monotonic(), flush=True); "
    "os._exit(0)\n"
    "print('ready', flush=True)\n"
    "signal.sigwait({signal.SIGTERM}); print('worker', flush=True)\n"
    "signal.sigwait({signal.SIGTERM}); os.wait(); print('again', flush=True)\n";

TEST(Signals, HelpersAreAskedWhenTheGraceIsOver) {
  Tuttirun run(
      {"-n", "1", "--grace-on-signal", "0.5", "--grace", "60", "python3", "-c", kWithHelper});
  run.read_until("ready", 1);
  const auto start = Tuttirun::Clock::now();
  run.expect_ended_by(SIGTERM);
  EXPECT_THAT(run.out, MatchesRegex("ready\nworker\nhelper [0-9.]+\nagain\n"));
  const std::chrono::duration<double> asked(std::stod(run.out.substr(run.out.find("helper ") + 7)));
  EXPECT_GE(asked, start.time_since_epoch() + 500ms);  // both clocks are CLOCK_MONOTONIC
}

TEST(Signals, AWorkerHasTheLongerGrace) {
  // More than the grace after a failure, for the worker and what it has started.
  const std::string script =
      "import signal, subprocess, sys\n"
      "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
      "unblock = lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})\n"
      "helper = subprocess.Popen([sys.executable, '-c', 'import time; input(); time.sleep(1)'], "
      "stdin=subprocess.PIPE, preexec_fn=unblock)\n"
      "print('ready', flush=True)\n"
      "signal.sigwait({signal.SIGTERM})\n"
      "helper.communicate(b'now\\n')\n"
      "print('written', helper.returncode)\n";
  Tuttirun run({"-n", "2", "--grace", "0.2", "python3", "-c", script});
  run.read_until("ready", 2);
  run.expect_ended_by(SIGTERM);
  EXPECT_EQ(times_in(run.out, "written 0\n"), 2) << run.out << run.err;
}

TEST_F(TwoNodes, ASignalToOneGivesTheRanksOfBothTheLongerGrace) {
  const std::string script =
      "import signal, time\n"
      "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
      "print('ready', flush=True)\n"
      "signal.sigwait({signal.SIGTERM}); time.sleep(1); print('written')\n";
  start({"--grace", "0.2", "python3", "-c", script});
  read_until("ready");
  second().signal(SIGTERM);
  expect_ends(128 + SIGTERM);
  EXPECT_EQ(times_in(out(), "written\n"), 4) << out() << first().err;
  EXPECT_THAT(first().err, HasSubstr("tuttirun on node 1 (" + tutti::os::host_name() +
                                     ") was ended by SIGTERM"));
}

TEST(Signals, RanksThatAreKilledAfterASignalAreTold) {
  Tuttirun run(shell("2", "trap '' INT; echo ready; while :; do sleep 0.02; done",
                     {"--grace-on-signal", "0.2", "--grace", "0.1"}));
  run.read_until("ready", 2);
  run.expect_ended_by(SIGINT);
  EXPECT_THAT(run.err,
              HasSubstr("tuttirun: ranks 0, 1 have not ended within 0.3 s after SIGINT, and "
                        "are killed; --grace-on-signal and --grace allow more time\n"));
}

}  // namespace
