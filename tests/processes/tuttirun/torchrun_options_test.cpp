// What torchrun's users know: its options, its variables, and its old ways.

#include <regex>
#include <set>

#include "support/temporary_folder.hpp"
#include "terminal_process.hpp"
#include "tuttirun_process.hpp"

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::UnorderedElementsAre;
using tutti::test::text_of;

namespace fs = std::filesystem;

namespace {

using Folder = tutti::test::TemporaryFolder;

/// The only thing in a folder.
fs::path only_one_in(const fs::path& folder) {
  const std::vector<fs::path> found{fs::directory_iterator(folder), fs::directory_iterator()};
  EXPECT_EQ(found.size(), 1U);
  return found.empty() ? fs::path() : found.front();
}

TEST(TorchrunOptions, WorkersGetTorchrunsVariables) {
  const Ended run(
      0, shell("2",
               "echo $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
               "$TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS "
               "$OMP_NUM_THREADS",
               {"--role", "trainer", "--rdzv_id", "job-7", "--max_restarts", "2"}));
  EXPECT_THAT(lines_of(run.out),
              UnorderedElementsAre("trainer 0 2 0 1 job-7 0 2 1", "trainer 1 2 0 1 job-7 0 2 1"));
}

// As YAML and the `read` of shells leave them in variables and in options that are made of these.
TEST(TorchrunOptions, BlanksAroundNumbersAreTaken) {
  expect_printed("2 1\n",
                 shell("2\n", "echo $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS",
                       {"--max-restarts", " 1", "--node-rank=0\t", "--monitor-interval", "0.5 ",
                        "--rdzv-conf", "join_timeout= inf ", "--local-ranks-filter", "1 "}),
                 {"PET_NNODES=1\r\n"});
  expect_told(2, HasSubstr("\"2 2\"; it must be a whole number"), shell("2 2", "true"));
}

TEST(TorchrunOptions, OmpNumThreadsIsSetAndToldToThoseWhoAsk) {
  const std::string tell = "echo ${OMP_NUM_THREADS-unset}";
  for (const auto& [workers, variable, told] : {std::array{"1", "OMP_NUM_THREADS=", "unset\n"},
                                                {"2", "OMP_NUM_THREADS=", "1\n1\n"},
                                                {"2", "OMP_NUM_THREADS=3", "3\n3\n"}}) {
    const Ended run(0, shell(workers, tell), {variable});
    EXPECT_EQ(run.out, told);
    EXPECT_EQ(run.err, "");
  }
  const Ended asked(0, shell("2", tell), {"OMP_NUM_THREADS=", "TUTTI_LOG_LEVEL=info"});
  EXPECT_EQ(times_in(asked.err, "OMP_NUM_THREADS"), 1);
}

TEST(TorchrunOptions, TheNumberOfWorkersHasMpirunsNamesToo) {
  for (const char* const name : {"-n", "-np"})  // the program's own -np stays as it is
    expect_printed("-np 3\n-np 3\n", {name, "2", "--grace", "5", "echo", "-np", "3"});
}

TEST(TorchrunOptions, OfARepeatedOptionTheLastCounts) {
  expect_printed("here\nhere\n", {"--nproc-per-node", "3", "--no-tag", "-n", "2", "--no-tag",
                                  "--grace=7", "--grace=5", "echo", "here"});
}

/// Options of more than one word with their values ("": it takes none), as may be given together.
struct Together {
  std::vector<std::pair<std::string, std::string>> options;
  Words program = {"echo", "fine"};
  std::string says = "fine\n";  ///< '?' where an option's dash or underscore stands
};

/// All that there are, for workers that run in this folder.
std::vector<Together> all_options(const Folder& folder) {
  const std::string secret = folder.file("secret", std::string(32, 's'));
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  return {
      {{{"--nproc-per-node", "1"},
        {"--node-rank", "0"},
        {"--max-restarts", "0"},
        {"--on-loss", "end"},
        {"--monitor-interval", "0.1"},
        {"--start-method", "fork"},
        {"--grace-on-signal", "1"},
        {"--signals-to-handle", "SIGTERM"},
        {"--master-addr", "127.0.0.1"},
        {"--master-port", std::to_string(free_port())},
        {"--rdzv-backend", "static"},
        {"--rdzv-conf", "timeout=30,join_timeout=20"},
        {"--rdzv-id", "a"},
        {"--local-addr", "127.0.0.1"},
        {"--local-ranks-filter", "0"},
        {"--log-dir", folder.path()},
        {"--secret-file", secret},
        {"--shutdown-timeout", "2"},
        {"--use-env", ""},
        {"--no-python", ""},
        {"--no-tag", ""},
        {"--own-store", ""}}},
      {{{"--rdzv-endpoint", "127.0.0.1:0"}}},
      {{{"--run-path", ""}}, {folder.file("plain", "print('fine')")}},
      {{{"--pass-local-rank", ""}}, {"echo", "fine"}, "--local?rank=0 fine\n"},
  };
}

std::string spelled(std::string text, char dash) {
  std::replace(text.begin() + 2, text.end(), '-', dash);
  return text;
}

TEST(TorchrunOptions, BothSpellingsAreTaken) {
  const Folder folder;
  for (const char dash : {'-', '_'}) {
    for (const auto& [options, program, says] : all_options(folder)) {
      Words arguments = {"--role", "x", "--standalone"};
      for (const auto& [name, value] : options) {
        arguments.push_back(spelled(name, dash));
        if (!value.empty()) arguments.push_back(value);
      }
      std::string expected = says;
      std::replace(expected.begin(), expected.end(), '?', dash);
      expect_printed(expected, joined({arguments, program}));
    }
  }
}

TEST(TorchrunOptions, NoneIsForgottenAbove) {
  const Folder folder;
  std::set<std::string> tried;
  for (const Together& together : all_options(folder))
    for (const auto& [name, value] : together.options)
      tried.insert({spelled(name, '-'), spelled(name, '_')});
  const Ended help(0, {"--help"});
  // In the lines of the options, not in what is said about them: these begin with two blanks.
  std::set<std::string> declared;
  const std::regex name("--[a-z]+[-_][a-z_-]+");
  for (const std::string& line : lines_of(help.out)) {
    if (!line.starts_with("  -")) continue;
    const std::string names = line.substr(2, line.find(' ', 2) - 2);
    for (std::sregex_iterator at(names.begin(), names.end(), name), end; at != end; ++at)
      declared.insert(at->str());
  }
  EXPECT_EQ(declared, tried);
}

TEST(TorchrunOptions, VariablesAreTaken) {
  expect_printed("2 y\n2 y\n", {"bash", "-c", "echo $WORLD_SIZE $ROLE_NAME"},
                 {"PET_NPROC_PER_NODE=2", "PET_ROLE=y", "PET_STANDALONE=1"});
}

TEST(TorchrunOptions, AutoMeansGpusAndElseCpus) {
  for (const auto& [text, visible, expected] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"auto", "0,1,2", "3"}, {"gpu", "1", "1"}, {"auto", "0,-1,2", "1"}}) {
    const Ended run(0, {"--nproc-per-node", text, "bash", "-c", "echo $WORLD_SIZE"},
                    {"CUDA_VISIBLE_DEVICES=" + visible});
    EXPECT_EQ(lines_of(run.out).front(), expected);
  }
  expect_told(2, HasSubstr("no NVIDIA GPU"), {"--nproc-per-node", "gpu", "true"},
              {"CUDA_VISIBLE_DEVICES=-1"});
  const Ended cpu(0, {"--nproc-per-node", "cpu", "bash", "-c", "echo $WORLD_SIZE"});
  expect_printed(cpu.out, {"--nproc-per-node", "auto", "bash", "-c", "echo $WORLD_SIZE"},
                 {"CUDA_VISIBLE_DEVICES=-1"});
}

TEST(TorchrunOptions, TheLocalRankIsPassedAsTheOptionsAreSpelled) {
  for (const auto& [option, first, second] :
       {std::array{"--nproc_per_node=2", "--local_rank=0 3", "--local_rank=1 3"},
        {"--nproc-per-node=2", "--local-rank=0 3", "--local-rank=1 3"}}) {
    const Ended run(0, {"--pass-local-rank", option, "echo", "3"});
    EXPECT_THAT(lines_of(run.out), UnorderedElementsAre(first, second));
  }
}

TEST(TorchrunOptions, UseEnvPassesNoLocalRank) {
  const Words script = {"bash", "-c", "echo \"$@\" $LOCAL_RANK", "name", "a"};
  for (const auto& [options, expected] : std::vector<std::pair<Words, std::string>>{
           {{}, "a 0\n"}, {{"--use-env"}, "a 0\n"}, {{"--pass-local-rank", "--use_env"}, "a 0\n"}})
    expect_printed(expected, joined({options, script}));
  expect_printed("--local_rank=0 first\n", {"--pass_local_rank", "--no-python", "echo", "first"});
}

TEST(TorchrunOptions, PythonIsTheOneThatIsNamed) {
  const Folder folder;
  const std::string other = folder.file("other", "#!/bin/sh\necho other \"$@\"\n", true);
  const std::string script = folder.file("script.py", "#!/bin/sh\necho itself \"$@\"\n", true);
  const std::string plain = folder.file("plain", "not executable");
  for (const std::string name : {"PYTHON_EXEC", "PYTHON"})
    expect_printed("other " + script + " x\n", {script, "x"}, {name + "=" + other});
  const Words python = {"PYTHON_EXEC=" + other};
  expect_printed("other -m package.module x\n", {"-m", "package.module", "x"}, python);
  expect_printed("itself x\n", {"--no-python", script, "x"}, python);
  expect_printed("other " + plain + " x\n", {"--run-path", plain, "x"}, python);
  expect_told(127, AllOf(HasSubstr("no-such-python"), HasSubstr("PYTHON_EXEC")), {script},
              {"PYTHON_EXEC=no-such-python"});
  expect_told(127, HasSubstr("make it executable"), {plain});
}

TEST(TorchrunOptions, RestartsStartAllWorkersAgain) {
  const Folder folder;
  // Each start must find a store where nobody has been yet.
  const Ended run(0,
                  shell("3",
                        "echo start $TORCHELASTIC_RESTART_COUNT $RANK; " RANK_WORKER
                        " exchange || exit 9; echo \"$TUTTI_JOB $MASTER_PORT\" >> $FOLDER/$RANK; "
                        "if [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ]; then exit 7; fi; "
                        "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then kill -KILL $$; fi; "
                        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exec sleep 1000; fi",
                        {"--max-restarts", "3"}),
                  {"FOLDER=" + folder.path()});
  for (int restart = 0; restart < 3; ++restart)
    EXPECT_EQ(times_in(run.out, "start " + std::to_string(restart)), 3) << run.out;
  EXPECT_THAT(run.err, AllOf(HasSubstr("rank 1 failed first: exit code 7"),
                             HasSubstr("failed first: SIGKILL"), HasSubstr("(1 of 3 restarts)"),
                             HasSubstr("(2 of 3 restarts)"), Not(HasSubstr("(3 of 3 restarts)"))));
  const Words jobs = lines_of(text_of(folder.path() + "/1"));
  EXPECT_GE(jobs.size(), 2U);
  EXPECT_NE(jobs.front(), jobs.back());
}

TEST(TorchrunOptions, RestartsEnd) {
  // With the code of the last failure.
  const Ended run(6,
                  shell("2", "exit $((4 + TORCHELASTIC_RESTART_COUNT))", {"--max-restarts", "2"}));
  EXPECT_EQ(times_in(run.err, "failed first"), 3);
}

TEST(TorchrunOptions, ARestartUsesTheGivenPortAgain) {
  const std::string port = std::to_string(free_port());
  const Ended run(0, shell("2",
                           "echo $MASTER_PORT; \"" RANK_WORKER "\" exchange && "
                           "exit $((1 - TORCHELASTIC_RESTART_COUNT))",
                           {"--max-restarts", "1", "--master-port", port}));
  EXPECT_EQ(times_in(run.out, port + "\n"), 4) << run.out;
}

TEST(TorchrunOptions, AProgramMayServeAStoreOfItsOwn) {
  const Folder folder;
  const std::string script =
      folder.file("serve.py",
                  "import os, socket, time\n"
                  "assert os.environ['TUTTI_STORE_PORT'] != os.environ['MASTER_PORT']\n"
                  "where = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
                  "if os.environ['RANK'] == '0':\n"
                  "    with socket.create_server(where) as server:\n"
                  "        server.settimeout(20)\n"
                  "        server.accept()[0].sendall(b'hello')\n"
                  "else:\n"
                  "    deadline = time.monotonic() + 20\n"
                  "    while True:\n"
                  "        try:\n"
                  "            peer = socket.create_connection(where, timeout=20)\n"
                  "            break\n"
                  "        except ConnectionRefusedError:\n"
                  "            assert time.monotonic() < deadline\n"
                  "    print(peer.recv(5))\n");
  const std::string port = std::to_string(free_port());
  for (const Words& given : {Words{}, {"--master-port", port}, {"--own-store"}}) {
    expect_printed("b'hello'\n", joined({{"--nproc-per-node", "2"}, given, {script}}));
  }
}

TEST(TorchrunOptions, AnInterruptIsNoReasonToRestart) {
  Tuttirun run(shell("2", "echo ready; exec sleep 1000", {"--max-restarts", "5"}));
  run.read_until("ready", 2);
  run.expect_ended_by(SIGINT);
  EXPECT_EQ(times_in(run.out, "ready"), 2);
}

TEST(TorchrunOptions, NothingOutlivesTheLaunchersDeathAfterARestart) {
  Subreaper::expect_gone_after_death(
      shell(
          "2",
          "sleep 1000 & if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then exit 1; fi; echo ready; wait",
          {"--max-restarts", "1"}),
      2);
}

/// Output in files of a folder.
class TorchrunLogs : public testing::Test {
 protected:
  /// In the only folder of a job that lies there.
  [[nodiscard]] std::string log(const std::string& name, const std::string& in = "") const {
    return text_of(only_one_in(folder.path() + in) / "attempt_0" / name);
  }
  const Folder folder;
};

TEST_F(TorchrunLogs, RedirectedAndCopiedOutputIsInFiles) {
  const Ended run(0, shell("2", "echo out $RANK; echo err $RANK >&2",
                           {"--log-dir", folder.path(), "--redirects", "0:3,1:2", "-t", "1:1",
                            "--rdzv-id", "my/job"}));
  EXPECT_EQ(run.out, "out 1\n");
  EXPECT_THAT(only_one_in(folder.path()).filename().string(),
              MatchesRegex("my_job_.+_node0_rank0-1_......"));
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(log(rank + "/stdout.log"), "out " + rank + "\n");
    EXPECT_EQ(log(rank + "/stderr.log"), "err " + rank + "\n");
  }
}

TEST_F(TorchrunLogs, AFailureNamesTheFiles) {
  const Ended run(3, shell("1", "echo why >&2; exit 3",
                           {"--log-dir", folder.path(), "-r", "2", "--max-restarts", "1"}));
  for (const char* attempt : {"attempt_0", "attempt_1"}) {
    const fs::path file = only_one_in(folder.path()) / attempt / "0/stderr.log";
    EXPECT_EQ(text_of(file), "why\n");
    EXPECT_EQ(times_in(run.err, "its stderr is in " + file.string()), 1);
  }
}

TEST_F(TorchrunLogs, AFolderAloneKeepsACopyOfAll) {
  const Ended run(0, shell("2", "echo out $RANK; echo err $RANK >&2",
                           {"--log_dir", folder.path() + "/new/one", "--tag"}));
  EXPECT_THAT(lines_of(run.out), UnorderedElementsAre("[0]: out 0", "[1]: out 1"));
  EXPECT_EQ(log("1/stdout.log", "/new/one"), "out 1\n") << "no tags in files";
  EXPECT_EQ(log("0/stderr.log", "/new/one"), "err 0\n");
}

TEST_F(TorchrunLogs, RedirectingWithoutAFolderTellsWhere) {
  const Ended run(0, shell("1", "echo out", {"-r", "3"}), {"TMPDIR=" + folder.path()});
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr(only_one_in(folder.path()).string()));
  EXPECT_EQ(log("0/stdout.log"), "out\n");
}

TEST_F(TorchrunLogs, TheFilterShowsSomeRanksOnly) {
  const Ended run(0,
                  shell("4", "echo rank $RANK",
                        {"--local-ranks-filter", "1,3", "--tee", "1", "--log-dir", folder.path()}));
  EXPECT_THAT(lines_of(run.out), UnorderedElementsAre("rank 1", "rank 3"));
  EXPECT_EQ(log("0/stdout.log"), "rank 0\n");
}

TEST(TorchrunOptions, OnATerminalLinesAreTagged) {
  // Its input and its errors are elsewhere.
  AtTerminal run({"sh", "-c", "exec \"" TUTTIRUN "\" -n 2 echo hello </dev/null 2>/dev/null"});
  run.expect_end(0);
  EXPECT_THAT(lines_of(run.screen), UnorderedElementsAre("[0]: hello\r", "[1]: hello\r"));
}

}  // namespace
