#include "support/limited_cgroup.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace {

/// Each worker writes `words` to stderr as an error; when all have done so, it goes on to `end`.
/// Once a rank may end and the others get SIGTERM, nothing here is a $(command): bash 5.2 fails to
/// read its trap when the signal comes while it reads one.
std::string tell_error(const std::string& words, const std::string& end) {
  return "trap 'exit 1' TERM; echo 'Traceback (most recent call last):' >&2; "
         "echo '  File \"train.py\", line 42, in main' >&2; "
         "echo \"" +
         words +
         "\" >&2; echo > $TOLD_FOLDER/$RANK; "
         "until set -- $TOLD_FOLDER/*; [ $# = $WORLD_SIZE ]; do sleep 0.02; done; " +
         end;
}

class TuttirunErrors : public testing::Test {
 protected:
  const tutti::test::TemporaryFolder own_;
  const std::string& folder_ = own_.path();
  const Words environment_ = {"TOLD_FOLDER=" + folder_};
};

TEST_F(TuttirunErrors, AWorkerThatWasKilledIsTheCauseOfThoseThatEndedWithIt) {
  Tuttirun run(shell("3",
                     "echo ready $RANK $$; until [ -e $TOLD_FOLDER/$RANK ]; do sleep 0.01; done; "
                     "[ $RANK != 1 ] || kill -KILL $$; exit 3"),
               environment_);
  run.read_until("ready", 3);
  run.signal(SIGSTOP);  // it looks when all have ended
  const auto deadline = Tuttirun::Clock::now() + std::chrono::seconds(20);
  for (const std::string rank : {"0", "1", "2"}) {
    std::ofstream(folder_ + "/" + rank).flush();
    const std::size_t at = run.out.find("ready " + rank + " ");
    ASSERT_NE(at, std::string::npos) << run.out;
    const pid_t worker = std::stoi(run.out.substr(at + 8));
    while (!has_ended(worker)) ASSERT_LT(Tuttirun::Clock::now(), deadline);
  }
  run.signal(SIGCONT);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_THAT(run.err, HasSubstr("rank 1 failed first"));
}

TEST_F(TuttirunErrors, AKillForLackOfMemoryIsSaid) {
  if (tutti::test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const tutti::test::LimitedCgroup group("memory",
                                         {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
                                         {"memory.max", "memory.swap.max"}, 64 << 20);
  if (group.folder().empty()) GTEST_SKIP() << "no cgroup can be made here";
  const std::string wait = "[ $RANK = 0 ] && exec sleep 60; ";
  const std::string use = "python3 -c 'bytearray(1 << 27)'";
  // By itself, and as the child of a wrapper.
  for (const std::string& script : {wait + "exec " + use, wait + use + "; exit $?"}) {
    const Ended run(128 + SIGKILL, joined({group.entering(), {TUTTIRUN}, shell("2", script)}));
    EXPECT_THAT(run.err, HasSubstr("rank 1: the kernel has killed a process of this cgroup because "
                                   "its memory is used up (oom_kill in memory.events): its limit "
                                   "is 64 MiB (" +
                                   group.folder() + "/memory."));
    EXPECT_THAT(run.err, HasSubstr("); raise it (docker run --memory, limits.memory of Kubernetes, "
                                   "sbatch --mem, MemoryMax of systemd), or start fewer workers on "
                                   "the host\n"));
    EXPECT_THAT(run.err, HasSubstr("rank 1 failed first: "));
  }
  // In a cgroup that only the worker enters.
  expect_told(
      128 + SIGKILL,
      HasSubstr("rank 1: the kernel has killed a process of this host because memory is used "
                "up (oom_kill in /proc/vmstat), perhaps this one: start fewer workers on the "
                "host, or raise the limit of the container or cgroup that this worker runs "
                "in\n"),
      shell("2", wait + "echo $$ > $GROUP/cgroup.procs; exec " + use), {"GROUP=" + group.folder()});
}

TEST_F(TuttirunErrors, TheSameErrorIsToldOnceWithItsRanks) {
  const std::string script =
      tell_error("ValueError: my bug", "[ $RANK = 0 ] && exit 1; while :; do sleep 0.02; done");
  for (const char* redirect : {"0", "2"}) {
    expect_told(1, HasSubstr("tuttirun: ranks 0-3: ValueError: my bug (train.py:42)\n"),
                shell("4", script, {"-r", redirect}), environment_);
    for (int rank = 0; rank < 4; ++rank) unlink((folder_ + "/" + std::to_string(rank)).c_str());
  }
}

TEST_F(TuttirunErrors, TheCauseIsToldThoughItsConsequencesEndFirst) {
  // As where a rank's process still ends while the others have heard of it.
  expect_told(1,
              HasSubstr("tuttirun: rank 1: ValueError: my bug (train.py:42)\n"
                        "tuttirun: 2 ranks: lost rank 1 (0, 2)\n"
                        "tuttirun: rank 2 failed first: exit code 1"),
              shell("3", tell_error("$([ $RANK = 1 ] && echo ValueError: my bug || "
                                    "echo NetworkError: group \\'world\\': lost rank 1 on node-1)",
                                    "[ $RANK = 2 ] && exit 1; [ $RANK = 1 ] && trap - TERM; "
                                    "while :; do sleep 0.02; done")),
              environment_);
}

/// Of a rank whose error blames another one.
std::string blaming(const std::string& rank, const std::string& told) {
  return "[ $RANK = " + rank +
         " ] && { printf 'Traceback (most recent call last):\nTimeoutError: " +
         "group world, operation 1 barrier() timed out after 5 s (timeout 5 s): " + told +
         "\n' >&2; exit 1; }; ";
}

TEST_F(TuttirunErrors, TheMarkIsAtTheRankThatTheErrorBlames) {
  // One that does not run, one that has ended well, one of another node, and none.
  expect_told(
      1,
      AllOf(ContainsRegex("rank 0 failed first: exit code 1 after [^\n]*, because of rank 2\n"),
            ContainsRegex("  0  [^\n]*  exit code 1\n"),
            ContainsRegex("  2  [^\n]*  SIGTERM  \\(ended by tuttirun\\)  <- first\n")),
      shell("3", blaming("0", "rank 2 on node-1, pid 7 is stopped") + "exec sleep 1000"));
  const std::string left =
      "[ $RANK = 1 ] && { echo $$ > $TOLD_FOLDER/1; exit 0; }; [ $RANK = 2 ] && exec sleep 1000; "
      "until grep -q ') Z ' /proc/$(cat $TOLD_FOLDER/1)/stat; do sleep 0.02; done 2>/dev/null; ";
  expect_told(1, ContainsRegex("  1  [^\n]*  exit code 0  <- first\n"),
              shell("3", left + blaming("0", "rank 1 on node-1, pid 7 has left")), environment_);
  expect_told(1, AllOf(HasSubstr(", because of rank 9\n"), Not(HasSubstr("<- first"))),
              shell("2", blaming("0", "rank 9 on node-2, pid 7 is stopped") + "exec sleep 1000"));
  expect_told(
      1, AllOf(Not(HasSubstr("because of")), ContainsRegex("  0  [^\n]*  exit code 1  <- first\n")),
      shell("2", blaming("0", "no rank has sent it") + "exec sleep 1000"));
}

TEST_F(TuttirunErrors, TheMarkFollowsTheErrorsOfThoseThatAreBlamed) {
  // The last one blames the first again, or nobody.
  for (const bool mutual : {false, true}) {
    const std::string last = mutual ? "3" : "2";
    const std::string script = tell_error(
        "$([ $RANK = " + last +
            " ] && echo ValueError: my bug || "
            "echo 'TimeoutError: timed out (timeout 5 s): rank '$(((RANK + 1) % 3))' on n, pid 7')",
        "[ $RANK = 0 ] && exit 1; while :; do sleep 0.02; done");
    const auto named = HasSubstr(", because of rank 2\n");
    expect_told(1, mutual ? testing::Matcher<std::string>(Not(HasSubstr("because of"))) : named,
                shell("3", script), environment_);
    for (int rank = 0; rank < 3; ++rank) unlink((folder_ + "/" + std::to_string(rank)).c_str());
  }
}

TEST_F(TuttirunErrors, TheRankThatIsTheCauseIsInALongTable) {
  const std::string last =
      "[ $RANK = 34 ] && { trap '' TERM; echo > $TOLD_FOLDER/34; while :; do sleep 1; done; }; "
      "[ $RANK = 0 ] && until [ -e $TOLD_FOLDER/34 ]; do sleep 0.02; done; ";
  expect_told(
      1, AllOf(ContainsRegex(" 34 [^\n]*  <- first\n"), ContainsRegex("and [0-9]+ more\n")),
      shell("35", last + blaming("0", "rank 34 on node-1, pid 7 is stopped") + "exec sleep 1000",
            {"--grace", "1"}),
      environment_);
}

TEST_F(TuttirunErrors, AnErrorThatAWorkerHasHandledIsNotTheCause) {
  const std::vector<std::array<std::string, 2>> ends = {
      {"exit 3", "its last line on stderr: epoch 9; last error, earlier: "},
      {"kill -KILL $$", "last error, earlier: "}};
  for (const auto& [end, told] : ends) {
    Tuttirun run(shell("2",
                       "[ $RANK = 0 ] && exec sleep 1000; "
                       "printf 'Traceback (most recent call last):\n  File \"old.py\", line 4, "
                       "in f\nZeroDivisionError: x\nepoch 9\n' >&2; " +
                           end));
    EXPECT_NE(run.wait(), 0);
    EXPECT_THAT(run.err,
                HasSubstr("tuttirun: rank 1: " + told + "ZeroDivisionError: x (old.py:4)\n"));
  }
}

TEST_F(TuttirunErrors, WithoutAnExceptionTheLastLineIsTold) {
  expect_told(2, HasSubstr("tuttirun: rank 1: its last line on stderr: usage: wrong option\n"),
              shell("2", "[ $RANK = 0 ] && exec sleep 1000; echo usage: wrong option >&2; exit 2"));
}

}  // namespace
