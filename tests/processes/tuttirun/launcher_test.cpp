#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

namespace {

using Clock = std::chrono::steady_clock;

TEST(Tuttirun, AnInheritedStorePortIsNotHandedOn) {
  const Ended run(0, shell("2", "test $TUTTI_STORE_PORT != 1 && \"" RANK_WORKER "\" exchange"),
                  {"TUTTI_STORE_PORT=1"});
  EXPECT_EQ(times_in(run.out, "met everybody twice"), 2);
}

TEST(Tuttirun, WorkersAreToldWhoTheyAre) {
  const Ended run(
      0, shell("3",
               "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
               "$TUTTI_AGENT_STORE ${MASTER_PORT:+port}"));
  EXPECT_THAT(lines_of(run.out),
              UnorderedElementsAre("0 0 3 3 0 127.0.0.1 1 port", "1 1 3 3 0 127.0.0.1 1 port",
                                   "2 2 3 3 0 127.0.0.1 1 port"));
  EXPECT_EQ(run.err, "");
}

TEST(Tuttirun, WorkersFindEachOther) {
  for (const char* workers : {"1", "2", "5"}) {
    const Ended run(0, {"--nproc_per_node", workers, RANK_WORKER, "exchange"});
    EXPECT_EQ(times_in(run.out, "met everybody twice"), std::stoi(workers));
  }
}

TEST(Tuttirun, WorkersMayBeScriptsThatJoinSeveralTimes) {
  const std::string worker = RANK_WORKER " exchange";
  const Ended run(0, shell("3", worker + " && " + worker + " && " + worker));
  EXPECT_EQ(times_in(run.out, "met everybody twice"), 9);
}

TEST(Tuttirun, TheSecretIsInNeitherArgumentsNorEnvironment) {
  const Ended run(
      0, shell("2",
               "secret=$(od -An -tx1 -v /proc/self/fd/${TUTTI_SECRET_FD%%:*} | tr -d ' \\n'); "
               "echo ${#secret}; "
               "raw=$(tr '\\0' '\\n' < /proc/$$/environ; tr '\\0' '\\n' < /proc/$PPID/environ; "
               "tr '\\0' '\\n' < /proc/$PPID/cmdline); "
               "case \"$raw\" in *$secret*) echo found;; *) echo hidden;; esac"));
  EXPECT_EQ(times_in(run.out, "64\n"), 2) << run.out;
  EXPECT_EQ(times_in(run.out, "hidden\n"), 2) << run.out;
}

TEST(Tuttirun, TheFirstFailureEndsAllAndIsTheExitCode) {
  const Ended run(7, shell("4", "if [ $RANK = 2 ]; then exit 7; fi; exec sleep 1000"));
  EXPECT_THAT(run.err,
              AllOf(ContainsRegex("rank 2 failed first: exit code 7 after [0-9]+\\.[0-9]"),
                    HasSubstr("exit code 7  <- first"), HasSubstr("SIGTERM  (ended by tuttirun)")));
  EXPECT_EQ(lines_of(run.err).size(), 2U + 4U);
}

TEST(Tuttirun, ASignalIsToldAndShiftsTheExitCode) {
  expect_told(128 + SIGKILL, HasSubstr("rank 1 failed first: SIGKILL"),
              shell("2", "if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep 1000"));
}

TEST(Tuttirun, WhoIgnoresSigtermIsKilledAfterTheGrace) {
  const tutti::test::TemporaryFolder folder;
  const auto start = Clock::now();
  const Ended run(3,
                  shell("2",
                        "if [ $RANK = 0 ]; then trap '' TERM; echo > $DEAF_FILE; "
                        "while :; do sleep 1000; done; fi; "
                        "until [ -e $DEAF_FILE ]; do sleep 0.01; done; exit 3",
                        {"--grace", "0.3"}),
                  {"DEAF_FILE=" + folder.path() + "/deaf"});
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_THAT(run.err, AllOf(HasSubstr("tuttirun: rank 0 has not ended within 0.3 s after SIGTERM, "
                                       "and is killed; --grace allows more time\n"),
                             HasSubstr("SIGKILL  (killed by tuttirun)")));
}

TEST(Tuttirun, AHangUpThatNohupIgnoresIsIgnored) {
  // The inner one gets both, and of signals that wait the one with the least number comes first.
  const std::string inner = std::string(TUTTIRUN) + " --nproc-per-node 1 bash -c " +
                            "'kill -HUP $PPID; kill -TERM $PPID; exec sleep 1000'";
  const Ended heard(128 + SIGHUP, shell("1", "exec " + inner));
  const Ended ignored(128 + SIGTERM, shell("1", "trap '' HUP; exec " + inner));
}

TEST(Tuttirun, WorkersMayNeedMoreDescriptorsThanAProcessGets) {
  // Each worker takes three of tuttirun's.
  const Words few = {"sh", "-c", "ulimit -Sn 60 && exec \"$@\"", "sh", TUTTIRUN};
  const Ended run(0, joined({few, shell("40", "ulimit -Sn")}));
  EXPECT_EQ(times_in(run.out, "60\n"), 40) << "the workers' own limit stays: " << run.out;
}

TEST(Tuttirun, ALimitOfDescriptorsIsNamedAndNothingElseIsBlamed) {
  for (const std::string limit : {"8", "10", "14", "24"}) {
    Tuttirun run(shell("1", "ulimit -n " + limit + "; exec " TUTTIRUN " --nproc-per-node 4 no.py"));
    EXPECT_NE(run.wait(), 0) << limit;
    EXPECT_THAT(run.err, AllOf(HasSubstr("Too many open files; allow this process more of them "
                                         "(ulimit -n)\n"),
                               Not(HasSubstr("port 0"))));
  }
}

TEST(Tuttirun, AStoppedWorkerIsEndedToo) {
  const tutti::test::TemporaryFolder folder;
  Tuttirun run(
      shell("2",
            "if [ $RANK = 0 ]; then echo $$ > $PID_FILE; kill -STOP $$; exec sleep 1000; fi; "
            "until grep -qs 'State:.T' /proc/$(cat $PID_FILE 2>/dev/null)/status; do :; done; "
            "exit 5",
            {"--grace", "20"}),
      {"PID_FILE=" + folder.path() + "/pid"});
  const auto start = Clock::now();
  EXPECT_EQ(run.wait(), 5);
  EXPECT_LT(Clock::now() - start, 15s) << "took SIGKILL";
}

TEST(Tuttirun, LinesOfEightWorkersAreNeverTorn) {
  const Ended run(0, shell("8",
                           "for i in {1..1000}; do printf 'rank %s ' $RANK; printf 'line %s ' $i; "
                           "printf 'to the end\\n'; done"));
  Words lines = lines_of(run.out);
  std::ranges::stable_sort(lines, {}, [](const std::string& line) { return line.substr(0, 6); });
  Words expected;  // those of each rank in their order
  for (int at = 0; at < 8'000; ++at) {
    expected.push_back("rank " + std::to_string(at / 1'000) + " line " +
                       std::to_string(at % 1'000 + 1) + " to the end");
  }
  EXPECT_EQ(lines, expected);
}

TEST(Tuttirun, LongLinesOfEightWorkersAreNeverTorn) {
  // Checked by awk, which reads them through a pipe as small as any.
  const std::string worker =
      "awk -v rank=$RANK 'BEGIN { s = sprintf(\"%4070s\", \"\"); gsub(/ /, \"x\", s); "
      "for (i = 1; i <= 10000; i++) printf \"%d %06d %s\\n\", rank, i, s; print \"done\" }'";
  const std::string check =
      "awk '$1 == \"[\" $2 \"]:\" && $3 == n[$2] + 1 && length($0) == length($1) + 4080 { n[$2]++; "
      "next } $2 == \"done\" { ended++; next } { bad++ } "
      "END { for (rank in n) good += n[rank] == 10000; print good + 0, ended + 0, bad + 0 }'";
  expect_printed("8 8 0\n",
                 shell("1", "set -o pipefail; \"" TUTTIRUN "\" --tag --nproc-per-node 8 bash -c "
                            "\"$WORKER\" | " +
                                check),
                 {"WORKER=" + worker});
}

TEST(Tuttirun, TagsStandBeforeEachLine) {
  const Ended run(0, shell("2", "echo one; echo two >&2; printf unfinished", {"--tag"}));
  EXPECT_THAT(lines_of(run.out),
              UnorderedElementsAre("[0]: one", "[0]: unfinished", "[1]: one", "[1]: unfinished"));
  EXPECT_THAT(run.err, AllOf(HasSubstr("[0]: two\n"), HasSubstr("[1]: two\n")));
}

TEST(Tuttirun, ContinuousIntegrationHasTagsUnlessThereIsOneWorker) {
  const auto tagged = AllOf(HasSubstr("[0]: one\n"), HasSubstr("[1]: one\n"));
  expect_printed(tagged, shell("2", "echo one"), {"CI=true"});
  expect_printed("one\none\n", shell("2", "echo one", {"--no-tag"}), {"CI=true"});
  expect_printed("one\n", shell("1", "echo one"), {"CI=true"});
  // A line that names its rank is not tagged.
  expect_printed(AllOf(tagged, Not(HasSubstr("rank"))),
                 shell("2", "echo \"[rank$RANK]: one\"", {"--tag"}));
}

TEST(Tuttirun, TracebacksOfRanksDoNotMix) {
  // Written in many pieces, with the other ranks' in between; only an error ends one.
  const Ended run(0,
                  shell("4",
                        "{ echo 'Traceback (most recent call last):'; for i in 1 2 3 4 5 6 7 8; do "
                        "echo \"  File \\\"x.py\\\", line $i, in rank$RANK\"; sleep 0.03; done; "
                        "echo \"ValueError: rank $RANK\"; } >&2"));
  std::size_t bytes = 0;
  for (const std::string rank : {"0", "1", "2", "3"}) {
    std::string whole = "Traceback (most recent call last):\n";
    for (const char line : std::string("12345678"))
      whole += std::string("  File \"x.py\", line ") + line + ", in rank" + rank + "\n";
    whole += "ValueError: rank " + rank + "\n";
    EXPECT_THAT(run.err, HasSubstr(whole));
    bytes += whole.size();
  }
  EXPECT_EQ(run.err.size(), bytes) << run.err;
}

TEST(Tuttirun, AnOnlyWorkersOutputDoesNotWaitForTheEndOfItsLine) {
  Tuttirun run(shell("1", "printf 'a prompt: '; exec sleep 1000"));
  run.read_until("a prompt: ", 1);
  run.expect_ended_by(SIGTERM);
}

TEST(Tuttirun, MuchOutputArrivesWhole) {
  const Ended run(0, shell("2", "head -c 20000000 /dev/zero | tr '\\0' x | fold -w 997; echo"));
  EXPECT_EQ(std::ranges::count(run.out, 'x'), 40000000);
}

TEST(Tuttirun, AReaderThatGoesAwayEndsTheWorkers) {
  const Ended run(0, shell("1", "set -o pipefail; \"" TUTTIRUN "\" --nproc-per-node 2 yes | "
                                "head -n 1; echo ${PIPESTATUS[0]}"));
  EXPECT_EQ(run.out, "y\n" + std::to_string(128 + SIGPIPE) + "\n");
  EXPECT_EQ(run.err, "") << "no failure of the program";
}

TEST(Tuttirun, OutputThatCannotBeWrittenIsAnError) {
  const Ended run(0,
                  shell("1", "\"" TUTTIRUN "\" --nproc-per-node 2 echo lost >/dev/full; echo $?"));
  EXPECT_EQ(run.out, "1\n");
  EXPECT_EQ(run.err, "tuttirun: cannot write the output of the workers: No space left on device\n");
}

/// A program of Python that says `answer` to SIGINT and SIGTERM. A trap of a shell would not do: it
/// waits where the signal comes just before the shell begins to wait.
std::string waits_for_signals(const std::string& answer, bool again) {
  return "import signal\n"
         "both = {signal.SIGINT, signal.SIGTERM}\n"
         "signal.pthread_sigmask(signal.SIG_BLOCK, both)\n"
         "print('ready')\n"
         "while True:\n"
         "    signal.sigwait(both)\n"
         "    print('" +
         answer + "')\n    " + (again ? "" : "break\n");
}

TEST(Tuttirun, InterruptIsPassedOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Tuttirun run({"--nproc-per-node", "3", "python3", "-c", waits_for_signals("got it", false)});
    run.read_until("ready", 3);
    run.expect_ended_by(signal);
    EXPECT_EQ(times_in(run.out, "got it"), 3) << run.out;
  }
}

TEST(Tuttirun, TheSecondInterruptKills) {
  Tuttirun run(
      {"--nproc-per-node", "2", "--grace", "60", "python3", "-c", waits_for_signals("no", true)});
  run.read_until("ready", 2);
  run.signal(SIGINT);
  run.read_until("no", 2);
  const auto start = Clock::now();
  run.expect_ended_by(SIGINT);
  EXPECT_LT(Clock::now() - start, 10s);
}

TEST(Tuttirun, NothingOutlivesAJobThatEndsWell) {
  const Subreaper subreaper;
  const std::string out = Ended(0, shell("2", "sleep 1000 & disown; echo started")).out;
  EXPECT_EQ(times_in(out, "started"), 2);
  EXPECT_TRUE(Subreaper::all_gone(Clock::now() + 20s));
}

TEST(Tuttirun, NothingOutlivesTheLaunchersDeath) {
  // Grandchildren, which the kernel does not tell of the launcher's death; some deaf to SIGTERM.
  Subreaper::expect_gone_after_death(
      shell("3",
            "sleep 1000 & (trap '' TERM; while :; do sleep 1000; done) & "
            "echo ready; while :; do sleep 1000; done"),
      3);
}

TEST(Tuttirun, WrongOptionsGiveOneLineWithAdvice) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{}, "no program given"},
      {{"--nproc-per-node", "0", "true"}, "from 1 to"},
      {{"--nproc-per-node", "four", "true"}, "\"four\""},
      {{"--nproc-per-nod", "4", "true"}, "did you mean --nproc-per-node?"},
      {{"--nproc", "4", "true"}, "did you mean --nproc-per-node?"},
      {{"--master_prot", "4", "true"}, "did you mean --master-port?"},
      {{"--wibble", "true"}, "tuttirun --help"},
      {{"--numa-binding", "node", "true"}, "torchrun has it, tuttirun does not"},
      {{"--nnodes", "1:4", "true"}, "a range is reserved"},
      {{"--on-loss", "shrink", "true"}, "this version has end only"},
      {{"--rdzv-backend", "etcd-v2", "true"}, "asks no etcd; take c10d"},
      {{"--rdzv-backend", "zookeeper", "true"}, "static or c10d"},
      {{"--rdzv-backend", "c10d", "--nnodes", "2", "true"}, "--rdzv-endpoint"},
      {{"--rdzv-endpoint", "127.0.0.1:1:2", "true"}, "brackets"},
      {{"--rdzv-endpoint", "127.0.0.1:wrong", "true"}, "the port in --rdzv-endpoint"},
      {{"--rdzv-endpoint", "127.0.0.1:29500", "--master-addr", "::1", "true"}, "different things"},
      {{"--rdzv-conf", "joint_timeout=3", "true"}, "joint_timeout=3"},
      {{"--rdzv-conf", "timeout=soon", "true"}, "number of seconds"},
      {{"--max-restarts", "-1", "true"}, "--max-restarts"},
      {{"--monitor-interval", "often", "true"}, "--monitor-interval"},
      {{"--start-method", "clone", "true"}, "spawn, fork or forkserver"},
      {{"--redirects", "4", "true"}, "from 0 to 3"},
      {{"--tee", "1:3", "true"}, "the local rank in --tee"},
      {{"--local-ranks-filter", "1", "true"}, "--local-ranks-filter"},
      {{"--log-dir", "/proc/none", "--tee", "3", "true"}, "--log-dir"},
      {{"--record", "/proc/none", "true"}, "give one that can be written as --record"},
      {{"--record", "/proc/sys", "true"}, "cannot make files in /proc/sys"},
      {{"-n"}, "--nproc-per-node needs a value; see tuttirun --help"},
      {{"--grace", "long", "true"},
       "--grace is \"long\"; it must be a number; see tuttirun --help"},
      {{"-m", "--no-python", "true"}, "excludes"},
      {{"--master-port", "70000", "true"}, "from 1 to 65535"},
      {{"--grace", "-1", "true"}, "--grace"},
      {{"--stdin", "1", "true"}, "from 0 to 0, the ranks of this job, or none"},
      {{"--nnodes", "2", "true"}, "--master-addr"},
      {{"--nnodes", "2", "--node-rank", "2", "--master-addr", "127.0.0.1", "true"}, "0 to 1"},
      {{"--nnodes", "2", "--standalone", "--master-addr", "127.0.0.1", "true"}, "--standalone"},
      {{"--master-addr", "224.0.0.1", "true"}, "not the address of a host"},
      {{"--secret-file", "/nonexistent/file", "true"}, "/nonexistent/file"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Ended run(2, arguments);
    EXPECT_THAT(run.err, HasSubstr(expected));
    EXPECT_EQ(lines_of(run.err).size(), 1U) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST(Tuttirun, AProgramThatCannotBeStartedIsNamed) {
  expect_told(127, HasSubstr("./no-such-program: No such file or directory"),
              {"--nproc-per-node", "2", "./no-such-program"});
  expect_told(127, HasSubstr("/proc: Permission denied; it is a folder"), {"/proc"});
}

TEST(Tuttirun, APortInUseIsNamed) {
  auto listener = tutti::os::listen_tcp(tutti::os::Address::parse("127.0.0.1", 0).value());
  const std::string port = std::to_string(tutti::os::local_address(listener->get())->port());
  expect_told(1,
              AllOf(HasSubstr("has port " + port), HasSubstr("another program"),
                    HasSubstr("--master-port, or none")),
              {"--master-port", port, "true"});
}

TEST(Tuttirun, APythonProgramIsRunWithPython) {
  const tutti::test::TemporaryFolder folder;
  const std::string path =
      folder.file("a.py", "import os, sys\nprint('python', os.environ['RANK'], sys.argv[1])\n");
  expect_printed(AllOf(HasSubstr("python 0 --tag\n"), HasSubstr("python 1 --tag\n")),
                 {"--nproc-per-node", "2", path, "--tag"});
}

/// tuttirun as the first process of a container.
class TuttirunInAContainer : public testing::Test {
 protected:
  void SetUp() override {
    if (words_.empty()) GTEST_SKIP() << "no pid namespace can be made here";
  }
  /// With a worker that runs a script.
  [[nodiscard]] Words job(const std::string& worker) const {
    return joined({words_, {TUTTIRUN, "--nproc-per-node", "1", "sh", "-c", worker}});
  }
  const Words words_ = tutti::test::own_pid_namespace();
};

TEST_F(TuttirunInAContainer, CollectsOrphans) {
  // The worker makes an orphan, which ends at once, and waits until it has been collected.
  const Ended run(
      7, job("orphan=$( (sh -c 'echo $$' &) ); i=0; while [ -e /proc/$orphan ]; do i=$((i+1)); "
             "[ $i -lt 200 ] || exit 9; sleep 0.05; done; echo collected; exit 7"));
  EXPECT_THAT(run.out, HasSubstr("collected"));
}

TEST_F(TuttirunInAContainer, HandsOnSignals) {
  Tuttirun run(
      job("trap 'echo asked; exit 5' TERM; grep -h NSpid /proc/1/status; echo ready; "
          "while true; do sleep 0.05; done"));
  run.read_until("ready", 1);
  const auto children = tutti::test::children_of(run.pid());  // of `unshare --fork`
  ASSERT_EQ(children.size(), 1U);
  EXPECT_EQ(kill(children.front(), SIGTERM), 0);
  EXPECT_NE(run.wait(), 0);
  EXPECT_THAT(run.out, HasSubstr("asked"));
}

TEST(Tuttirun, CollectsItsWorkersWhereTheEndsOfChildrenAreIgnored) {
  // As a program leaves it that has set SIGCHLD to SIG_IGN; a shell cannot be told so by `trap`.
  const char* const ignore =
      "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
      "os.execv(sys.argv[1], sys.argv[1:])";
  for (const Words& words : {Words(), tutti::test::own_pid_namespace()}) {
    expect_told(3, Not(HasSubstr("cannot watch")),  // too late for a worker that has ended
                joined({words,
                        {"python3", "-c", ignore, TUTTIRUN, "--nproc-per-node", "2"},
                        {"sh", "-c", "sleep 0.2; exit 3"}}));
  }
}

TEST(Tuttirun, HelpAndVersion) {
  expect_printed(AllOf(HasSubstr("--nproc-per-node"), HasSubstr("--secret-file")), {"--help"});
  expect_printed(HasSubstr("tuttirun 0."), {"--version"});
}

}  // namespace
