// Several nodes, all on this host.

#include <sys/stat.h>

#include <filesystem>

#include <tutti/store.hpp>

#include "os/host.hpp"
#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class TuttirunNodes : public TwoNodes {
 protected:
  /// A secret of this letter only, in a file.
  [[nodiscard]] std::string secret_file(char letter = 's') const {
    std::string path = folder_.file(std::string("secret_") + letter, std::string(32, letter));
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  const tutti::test::TemporaryFolder folder_;
};

const Words kExchange = {RANK_WORKER, "exchange"};
std::string node_name(int number) {
  return "node " + std::to_string(number) + " (" + tutti::os::host_name() + ")";
}

const Words kRest = {"bash", "-c", "echo ready; exec sleep 1000"};

TEST_F(TuttirunNodes, WorkersOfTwoNodesFindEachOther) {
  const std::string secret = secret_file();
  for (const Words& options :
       {Words(), Words{"--secret-file", secret}, Words{"--secret-file", secret, "--tls"}}) {
    start(joined({options, kExchange}));
    expect_ends(0);
    EXPECT_EQ(times_in(out(), "met everybody twice"), 4);
    EXPECT_EQ(first().err, "") << "nothing warns on loopback";
  }
}

TEST_F(TuttirunNodes, BothSidesTellOfAnotherSecretAndWhereEachLies) {
  const std::string a = secret_file('a');
  const std::string b = secret_file('b');
  start({"--secret-file", a, "sleep", "1000"}, {"--secret-file", b, "true"});
  EXPECT_EQ(second().wait(), 1) << second().err;
  EXPECT_THAT(second().err, AllOf(HasSubstr("it has another secret"),
                                  HasSubstr("it is that in " + a + ", and on this host"),
                                  HasSubstr("it is that in " + b + ";")));
  first().read_error_until("which has another secret than this process (that in " + a + ")");
  first().expect_ended_by(SIGTERM);
}

TEST_F(TuttirunNodes, OtherSettingsOfANodeAreToldToAll) {
  for (const std::string number : {"--nproc-per-node", "--nnodes"}) {
    Words other = node(1, port, {"sleep", "1000"});
    *(std::ranges::find(other, number) + 1) = "3";
    begin(node(0, port, {"sleep", "1000"}), other);
    expect_ends(1);
    for (const Tuttirun* one : {first_.get(), second_.get()}) {
      EXPECT_THAT(one->err, AllOf(HasSubstr(number + " 3"), HasSubstr(number + " 2"),
                                  HasSubstr("give all nodes the same")));
    }
  }
}

// Two jobs, one node of each: the same number of nodes and workers, at the port that both take.
TEST_F(TuttirunNodes, NodesThatStartOtherProgramsAreNotOneWorld) {
  const Words other = {"bash", "-c", "exec \"$0\" exchange", RANK_WORKER};
  start(kExchange, other);
  expect_ends(1);
  // Arguments may hold secrets, so only their digest is told.
  const std::string settings = "--nnodes 2 --nproc-per-node 2 ";
  const std::string digest = " and arguments with the digest [0-9a-f]{16}";
  const std::string ours = settings + RANK_WORKER + digest;
  const std::string theirs = settings + "bash" + digest;
  // Either of them may have been first.
  const auto objection = [](int node, const std::string& its, const std::string& first) {
    const auto name = [](int number) { return "node " + std::to_string(number) + " [(][^)]*[)]"; };
    return testing::ContainsRegex(name(node) + " was started with " + its + ", but it is " + first +
                                  " on " + name(1 - node) + "; give all nodes the same");
  };
  for (const std::string& err : {first().err, second().err}) {
    EXPECT_THAT(err, AnyOf(objection(0, ours, theirs), objection(1, theirs, ours)));
    EXPECT_THAT(err, HasSubstr("; give all nodes the same, and each job a port of its own; only "
                               "nodes of a job with a name (--rdzv-id) may have other programs or "
                               "arguments"));
  }
  start(joined({{"--rdzv-id", "job-8"}, kExchange}), joined({{"--rdzv-id", "job-8"}, other}));
  expect_ends(0);
}

TEST_F(TuttirunNodes, AJobThatRunsIsNotDisturbedByAnother) {
  start(kRest);
  read_until("ready", 2);
  const Ended serving(1, node(0, port, {"true"}));
  EXPECT_THAT(serving.err, HasSubstr("; another job has port " + port + " (ss "));
  Words more = node(2, port, {"true"});
  *(std::ranges::find(more, "--nnodes") + 1) = "3";
  const Ended one_more(1, more);
  EXPECT_THAT(one_more.err,
              AllOf(HasSubstr("another job has this address and port: --nnodes 2 --nproc-per-node "
                              "2 bash and arguments with the digest "),
                    HasSubstr(", and all its nodes have come; if they are another job's, give each "
                              "job a port of its own")));
  first().signal(SIGINT);
  expect_ends(128 + SIGINT);
}

/// Both sides of a refusal at once, and what node 0 says when its time is over.
struct Refused {
  const char* name;
  Words of_first;
  Words of_second;
  const char* says_second;
  const char* says_first;
};
class TuttirunRefuses : public TwoNodes, public testing::WithParamInterface<Refused> {};

TEST_P(TuttirunRefuses, AndNode0SaysSo) {
  const auto& [name, of_first, of_second, says_second, says_first] = GetParam();
  const std::string refused = "warning: the store at 127.0.0.1:" + port + " has refused 127.0.0.1:";
  // A busy machine may start the second too late for the shorter time.
  for (const char* const most : {"1", "10"}) {
    start(joined({of_first, {"--rdzv-conf", std::string("join_timeout=") + most}, kRest}),
          joined({of_second, kRest}));
    expect_ends(1);
    if (first().err.find(refused) < first().err.find("has not come")) break;
  }
  EXPECT_THAT(second().err, HasSubstr("cannot join the job: cannot use the store at 127.0.0.1:" +
                                      port + ": " + says_second));
  EXPECT_THAT(first().err,
              AllOf(HasSubstr(refused), HasSubstr(says_first),
                    HasSubstr("and --secret-file; the store at 127.0.0.1:" + port + " has refused"),
                    HasSubstr("; node 0 is host " + tutti::os::host_name() +
                              ", as its --node-rank is 0, the default\n")));
}

INSTANTIATE_TEST_SUITE_P(
    , TuttirunRefuses,
    testing::Values(
        Refused{"AnotherName",
                {"--rdzv-id", "a"},
                {"--rdzv-id", "b"},
                "it belongs to another job, or another start of this one",
                ", which belongs to another job, or another start of this one; give each job a "
                "port of its own, and all processes of a job the same name (--rdzv-id, TUTTI_JOB)"},
        Refused{"NoEncryption",
                {"--tls"},
                {},
                "it encrypts its connections and this process does not",
                ": one of the two encrypts its connections and the other does not"}),
    [](const auto& one) { return std::string(one.param.name); });

// As on two hosts where a name means the loopback on each.
TEST_F(TuttirunNodes, ANodeThatHasTakenItselfForTheServerSaysWhy) {
  const Ended run(1, {"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                      "localhost:" + port, "--rdzv-conf", "join_timeout=0.3", "true"});
  EXPECT_THAT(run.err, HasSubstr(", as localhost is its own address there ("));
}

TEST_F(TuttirunNodes, EncryptionNeedsASecretThatIsTheSameEverywhere) {
  Tuttirun several(node(0, port, {"--tls", "true"}), {"TUTTI_INSECURE=1"});
  EXPECT_NE(several.wait(), 0);
  EXPECT_THAT(several.err, HasSubstr("TUTTI_TLS needs a secret"));
  const Ended one(0, {"--nproc-per-node", "2", "--tls", "bash", "-c", "echo tls $TUTTI_TLS"});
  EXPECT_EQ(times_in(one.out, "tls 1"), 2);
}

TEST_F(TuttirunNodes, AFailureOnOneNodeEndsTheOther) {
  // Nobody reads what node 1 prints, so its tuttirun reads no more when the worker fails; and a
  // child of the worker keeps its stderr open.
  const std::string pid = "\"" + folder_.at("pid").string() + "\"";
  start({"bash", "-c",
         "case $RANK in 2) echo $$ > " + pid + "; exec yes;; 3) ;; *) exec sleep 1000;; esac; " +
             "until [ -s " + pid + " ]; do sleep 0.01; done; written=none; " +
             "until [ \"$written\" = \"$(grep wchar /proc/$(cat " + pid + ")/io)\" ]; do " +
             "written=$(grep wchar /proc/$(cat " + pid + ")/io); sleep 0.2; done; " +
             "sleep 60 & echo no data >&2; exit 9"});
  expect_ends(9);
  EXPECT_THAT(first().err, HasSubstr("rank 3 on node 1 (" + tutti::os::host_name() +
                                     ") failed first: exit code 9: its last line "
                                     "on stderr: no data"));
}

// A worker may end over a failure on another node before its tuttirun has heard of that.
TEST_F(TuttirunNodes, AConsequenceOnAnotherNodeIsNotTakenForTheFirstFailure) {
  const std::string go = folder_.at("go").string();
  start({"bash", "-c",
         "echo ready $$; until [ -e \"" + go +
             "\" ]; do sleep 0.01; done; exit $((9 - 6 * "
             "GROUP_RANK))"});
  read_until("ready");
  second().signal(SIGSTOP);
  std::ofstream(go).flush();
  first().read_error_until("failed first: exit code 9");
  const auto deadline = Tuttirun::Clock::now() + 20s;
  for (const std::string& line : lines_of(second().out)) {
    const pid_t worker = std::stoi(line.substr(line.find(' ')));
    while (!has_ended(worker)) ASSERT_LT(Tuttirun::Clock::now(), deadline);
  }
  second().signal(SIGCONT);
  EXPECT_EQ(second().wait(), 9) << second().err;
  EXPECT_THAT(second().err,
              HasSubstr("on node 0 (" + tutti::os::host_name() + ") failed first: exit code 9"));
  EXPECT_EQ(first().wait(), 9) << first().err;
}

TEST_F(TuttirunNodes, AllNodesStartTheirWorkersAgainTogether) {
  // The last worker fails twice after all have met; each time all are told a new rendezvous.
  start({"--max-restarts", "2", "bash", "-c",
         "\"" RANK_WORKER "\" exchange && echo attempt $TORCHELASTIC_RESTART_COUNT $RANK && "
         "{ [ $RANK != 3 ] || exit $((2 - TORCHELASTIC_RESTART_COUNT)); }"});
  expect_ends(0);
  for (const char* const rank : {"0", "1", "2", "3"})
    EXPECT_EQ(times_in(out(), std::string("attempt 2 ") + rank + "\n"), 1) << out();
  EXPECT_EQ(times_in(out(), "attempt 0 3\n"), 1) << out();
  for (const Tuttirun* const one : {first_.get(), second_.get()})
    EXPECT_THAT(one->err, HasSubstr("starting all workers again (2 of 2 restarts)"));
}

TEST_F(TuttirunNodes, TheLastRestartIsTheLast) {
  start({"--max-restarts", "1", "bash", "-c",
         "if [ $RANK = 2 ]; then echo attempt; exit 7; fi; exec sleep 1000"});
  expect_ends(7);
  EXPECT_THAT(first().err, HasSubstr("rank 2 on node 1 (" + tutti::os::host_name() +
                                     ") failed first: exit code 7"));
  EXPECT_EQ(times_in(second().out, "attempt"), 2) << second().out;
}

TEST_F(TuttirunNodes, ANodeThatNeverComesIsMissedAfterARestart) {
  Tuttirun run(node(0, port,
                    {"--max-restarts", "3", "--rdzv-conf", "join_timeout=2", "bash", "-c",
                     "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 9; exec sleep 1000"}));
  EXPECT_EQ(run.wait(), 1) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("starting all workers again (1 of 3"),
                             HasSubstr("node 1 of 2 has not come within 2 s")));
}

TEST_F(TuttirunNodes, AnInterruptOnOneNodeEndsAllThoughRestartsAreLeft) {
  start(joined({{"--max-restarts", "5"}, kRest}));
  read_until("ready");
  second().signal(SIGINT);
  expect_ends(128 + SIGINT);
  EXPECT_EQ(times_in(first().out, "ready"), 2) << first().out;
}

TEST_F(TuttirunNodes, TheNodeThatServesWaitsForTheOthers) {
  start({"bash", "-c", "[ $GROUP_RANK = 0 ] || read -t 0.5 line < <(sleep 10); exit 0"});
  expect_ends(0);
}

TEST_F(TuttirunNodes, TheDeathOfTheServingNodeEndsTheOther) {
  start(kRest);
  read_until("ready");
  first().expect_ended_by(SIGKILL);
  EXPECT_NE(second().wait(), 0);
  EXPECT_THAT(second().err, HasSubstr("node 0"));
}

// A process that reaches the store of a job without a secret may write there, not to the terminal.
TEST_F(TuttirunNodes, WhatANodeIsToldIsPrintedInPlainText) {
  start(kRest);
  read_until("ready");
  const auto store = tutti::make_tcp_store(
      {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(std::stoi(port))});
  store->set("tuttirun/verdict", "9 \x1b]0;mine\x07 all is well\r\ntuttirun: fine");
  expect_ends(9);
  for (const std::string& err : {first().err, second().err}) {
    EXPECT_THAT(err, HasSubstr(R"(\x1b]0;mine\x07 all is well\x0d\x0atuttirun: fine)"));
    EXPECT_THAT(err, Not(HasSubstr("\x1b")));
  }
}

Words c10d(const std::string& port, const Words& rest) {
  return joined({{"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "job-7"},
                 {"--rdzv-endpoint", "127.0.0.1:" + port},
                 rest});
}

TEST_F(TuttirunNodes, TheStoreNumbersTheNodes) {
  const Words rest = {"--nproc-per-node", "2", "bash", "-c",
                      "echo $GROUP_RANK $RANK $TUTTI_JOB $TORCHELASTIC_RUN_ID; \"" RANK_WORKER
                      "\" exchange"};
  begin(c10d(port, rest), c10d(port, rest));
  expect_ends(0);
  EXPECT_EQ(times_in(out(), "met everybody twice"), 4);
  for (const char* line : {"0 0 ", "0 1 ", "1 2 ", "1 3 "})
    EXPECT_EQ(times_in(out(), line + std::string("job-7 job-7\n")), 1) << out();
}

TEST_F(TuttirunNodes, TheProgramHasThePortBeside) {
  start({"bash", "-c", "echo $TUTTI_STORE_PORT $((MASTER_PORT - TUTTI_STORE_PORT))"});
  expect_ends(0);
  EXPECT_EQ(times_in(out(), port + " 1\n"), 4);
}

TEST_F(TuttirunNodes, ANodeTooManyIsTurnedAway) {
  for (const bool numbered : {true, false}) {
    const Words last = numbered ? node(1, port, kRest) : c10d(port, kRest);
    begin(numbered ? node(0, port, kRest) : last, last);
    read_until("ready", 1);
    expect_told(
        1, HasSubstr(numbered ? "--node-rank 1 has come already" : "2 nodes have come already"),
        last);
    first().signal(SIGINT);
    expect_ends(128 + SIGINT);
  }
}

// Nobody listens at the store's port, or a program that accepts no connection.
TEST_F(TuttirunNodes, ANodeThatWaitsForTheStoreEndsAtOnceOnASignal) {
  auto loopback = tutti::os::Address::parse("127.0.0.1", 0);
  auto deaf = tutti::os::listen_tcp(*loopback);
  ASSERT_TRUE(deaf) << deaf.status().message();
  const std::string taken = std::to_string(tutti::os::local_address(deaf->get())->port());
  for (const int signal : {SIGTERM, SIGINT}) {
    auto shortest = Tuttirun::Clock::duration::max();
    for (const std::string& at : {port, taken, port}) {
      Tuttirun run(c10d(at, {"--rdzv-conf", "is_host=false", "true"}));
      // It has nothing to say while it waits; its own signal mask tells that it listens.
      const std::string process = std::to_string(run.pid());
      const auto deadline = Tuttirun::Clock::now() + 20s;
      while (tutti::test::status_of(process, "SigBlk").ends_with('0'))
        ASSERT_LT(Tuttirun::Clock::now(), deadline);
      const auto told = Tuttirun::Clock::now();
      run.expect_ended_by(signal);
      shortest = std::min(shortest, Tuttirun::Clock::now() - told);
    }
    EXPECT_LT(shortest, 1s) << "the shortest: others may have been slow to run";
  }
}

TEST_F(TuttirunNodes, ANodeThatDoesNotComeIsNamedInTime) {
  for (const Words& program : {Words{"true"}, Words{"sleep", "1000"}}) {
    expect_told(1, HasSubstr("node 1 of 2 has not come within 1 s"),
                node(0, std::to_string(free_port()),
                     joined({{"--rdzv-conf", "join_timeout=0.3"}, program})));
  }
}

TEST_F(TuttirunNodes, Node0EndsAtOnceOnASignalThoughANodeHasNotCome) {
  for (const int signal : {SIGTERM, SIGINT}) {
    auto shortest = Tuttirun::Clock::duration::max();
    for (int i = 0; i < 3; ++i) {
      Tuttirun run(node(0, port, kRest));
      run.read_until("ready", 2);
      const auto told = Tuttirun::Clock::now();
      run.expect_ended_by(signal);
      shortest = std::min(shortest, Tuttirun::Clock::now() - told);
    }
    EXPECT_LT(shortest, 700ms) << "the shortest: others may have been slow to run";
  }
}

TEST_F(TuttirunNodes, ARankOfAnotherNodeThatIsTheCauseHasALineWithItsNode) {
  const std::string go = folder_.at("go").string();
  start({"bash", "-c",
         "echo ready; [ $RANK = 0 ] || exec sleep 1000; until [ -e " + go +
             " ]; do sleep 0.02; done; printf 'Traceback (most recent call last):\nTimeoutError: "
             "group world, barrier() timed out after 5 s (timeout 5 s): rank 1 (global rank 3) on "
             "host-b, pid 7 is stopped\n' >&2; exit 1"});
  read_until("ready", 2);
  std::ofstream(go).flush();
  expect_ends(1);
  EXPECT_THAT(
      first().err,
      AllOf(HasSubstr(", because of rank 3\n"),
            testing::ContainsRegex("tuttirun:      0  [^\n]*  exit code 1\n"),
            HasSubstr("tuttirun:      3  on node 1 (host-b): see the output there  <- first\n")));
}

TEST_F(TuttirunNodes, ALongStartIsLoggedWithTheNodesAndRanksThatAreMissing) {
  const Words soon = {"TUTTI_STALL_WARNING=0.2"};
  const Words program = {RANK_WORKER, "init", "env", "-", "-", "60", "1"};
  const std::string at = "the store at 127.0.0.1:" + port;
  second_ = std::make_unique<Tuttirun>(node(1, port, program), soon);
  second().read_error_until("tutti: warning: tuttirun has waited for ");
  second().read_error_until(": " + at + " cannot be reached (cannot connect to 127.0.0.1:" + port +
                            ": Connection refused); start tuttirun there, too. It goes on");
  second_.reset();
  first_ = std::make_unique<Tuttirun>(node(0, port, program), soon);
  first().read_error_until(
      ": node 1 of 2 has not come; start tuttirun there, too. It goes on waiting; the next line "
      "in ");
  first().read_error_until(": ranks 2, 3 have not joined at " + at + "; the others are on ");
  EXPECT_THAT(first().err, HasSubstr("tuttirun on " + node_name(0) + " has waited for "));
  second_ = std::make_unique<Tuttirun>(node(1, port, program));
  expect_ends(0);
}

TEST_F(TuttirunNodes, NobodyWhoServesIsAnErrorInTime) {
  expect_told(1, HasSubstr("cannot join the job"),
              c10d(port, {"--rdzv-conf", "is_host=0,join_timeout=0.3", "true"}));
}

TEST_F(TuttirunNodes, FoldersOfLogsOnASharedDiskNameTheirHostNodeAndRanks) {
  for (const bool numbered : {true, false}) {
    const std::string name = numbered ? "static" : "c10d";
    const Words rest = {"--log-dir", folder_.at(name).string(), "-r", "1", "bash",
                        "-c",        "echo I am $RANK"};
    const Words two = joined({{"--nproc-per-node", "2"}, rest});
    numbered ? start(rest) : begin(c10d(port, two), c10d(port, two));
    expect_ends(0);
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.at(name)))
      for (const std::string rank : {"0", "1"}) {
        const std::string folder = entry.path().filename().string();
        found.push_back(folder.substr(0, folder.size() - 6) + rank + ": " +
                        tutti::test::text_of(entry.path() / "attempt_0" / rank / "stdout.log"));
      }
    const std::string job = numbered ? "none_" : "job-7_";
    std::string host = job + tutti::os::host_name();
    std::ranges::replace(host, '.', '_');
    EXPECT_THAT(found, testing::UnorderedElementsAre(host + "_node0_rank0-1_0: I am 0\n",
                                                     host + "_node0_rank0-1_1: I am 1\n",
                                                     host + "_node1_rank2-3_0: I am 2\n",
                                                     host + "_node1_rank2-3_1: I am 3\n"));
  }
}

}  // namespace
