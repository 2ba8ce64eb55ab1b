#include "support/temporary_folder.hpp"
#include "support/variable.hpp"
#include "terminal_process.hpp"
#include "tuttirun_process.hpp"

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

constexpr const char* kControlC = "\x03";
constexpr const char* kControlD = "\x04";
constexpr const char* kControlZ = "\x1a";

/// Workers that run a script, see `shell`.
Words tuttirun(const std::string& workers, const std::string& script, const Words& options = {}) {
  return joined({{TUTTIRUN}, shell(workers, script, options)});
}

/// A shell with job control that goes on to the next command when a job stops.
Words job_control(const std::string& script) {
  return {"bash", "-c", std::string("set -m; tuttirun='") + TUTTIRUN + "'\n" + script};
}

/// A file that is not there yet; the programs that wait for it find its path in GO_FILE.
class GoFile {
  const tutti::test::TemporaryFolder folder_;
  const tutti::test::Variable variable_{"GO_FILE", folder_.at("go")};
};

TEST(TuttirunAtATerminal, Rank0OrTheOneThatIsNamedReadsWhatIsTyped) {
  for (const int reader : {0, 1}) {
    AtTerminal run(
        tuttirun("3", "echo ready; read line; echo rank $RANK got \"<$line>\" of $TUTTI_STDIN",
                 reader == 0 ? Words() : Words{"--stdin", "1"}));
    run.answer("ready", "hello\n", 3);
    run.expect_end(0);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(run.screen,
                  HasSubstr("rank " + std::to_string(rank) + " got " +
                            (rank == reader ? "<hello>" : "<>") + " of " + std::to_string(reader)));
    }
  }
}

TEST(TuttirunAtATerminal, NobodyReadsWhereThatIsAskedFor) {
  for (const char* workers : {"1", "2"}) {
    AtTerminal run(
        tuttirun(workers, "read line; echo got \"<$line>\" of $TUTTI_STDIN", {"--stdin", "none"}));
    run.expect_end(0);
    EXPECT_EQ(times_in(run.screen, "got <> of none"), std::stoi(workers)) << run.screen;
  }
}

TEST(TuttirunAtATerminal, TheEndOfTheInputIsHandedOn) {
  AtTerminal run(tuttirun("2", "echo ready; echo \"rank $RANK <$(cat)>\""));
  run.answer("ready", "one\ntwo\n", 2);
  run.type(kControlD);
  run.expect_end(0, AllOf(HasSubstr("rank 0 <one"), HasSubstr("two>")));
}

TEST(TuttirunAtATerminal, AWorkerThatDoesNotReadIsNotWaitedFor) {
  AtTerminal run(tuttirun("2", "exec <&-; echo ready; while :; do sleep 0.02; done"));
  run.answer("ready", "nobody wants it\n", 2);
  run.type(kControlC);
  run.expect_end(128 + SIGINT);
}

TEST(TuttirunAtATerminal, ControlCEndsTheWholeJob) {
  AtTerminal run(tuttirun("3", "echo ready; while :; do sleep 0.02; done"));
  run.answer("ready", kControlC, 3);
  run.expect_end(128 + SIGINT, HasSubstr("tuttirun: ended by SIGINT"));
}

TEST(TuttirunAtATerminal, AJobStopsAndGoesOn) {
  for (const char* workers : {"1", "2"}) {
    // The worker says whether its processes run; a stopped job says nothing.
    AtTerminal run(job_control(std::string("$tuttirun -n ") + workers +
                               " bash -c 'echo ready; read line; echo \"got <$line>\"'\n"
                               "echo \"shell: $?\"; fg >/dev/null; echo \"end: $?\""));
    run.answer("ready", kControlZ, std::stoi(workers));
    run.answer("shell: 148", "typed later\n");
    run.expect_end(0, AllOf(HasSubstr("got <typed later>"), HasSubstr("end: 0")));
  }
}

TEST(TuttirunAtATerminal, AStoppedJobStopsItsWorkers) {
  AtTerminal run(job_control(
      "$tuttirun -n 2 bash -c 'echo \"pid=$$.\"; while :; do sleep 0.02; done'\n"
      // They are told to stop before tuttirun does, but may take a moment for it.
      "echo \"shell: $?\"; read pids; "
      "until [ $(grep -hc 'T (stopped)' $(printf '/proc/%s/status ' $pids) | grep -c 1) = 2 ]; "
      "do sleep 0.02; done; "
      // bg, since a wait for a job that the shell takes to be stopped ends at once.
      "echo looked; bg; kill %1; wait -f %1; echo \"end: $?\""));
  std::string pids;
  for (int worker = 0; worker < 2; ++worker) {
    run.read_until("pid=");
    run.read_until(".");
  }
  for (std::size_t at = 0; (at = run.screen.find("pid=", at)) != std::string::npos; ++at)
    pids += run.screen.substr(at + 4, run.screen.find('.', at) - at - 4) + " ";
  run.type(kControlZ);
  run.answer("shell: 148", pids + "\n");
  run.read_until("looked");
  run.expect_end(0, HasSubstr("end: 143"));
}

TEST(TuttirunAtATerminal, AJobInTheBackgroundIsNotStoppedByReading) {
  for (const char* workers : {"1", "2"}) {
    AtTerminal run(job_control(std::string("$tuttirun -n ") + workers +
                               " bash -c 'echo ready; read line; echo \"got <$line>\"' &\n"
                               "read line; echo \"the shell has read $line\"; jobs; fg >/dev/null; "
                               "echo \"end: $?\""));
    run.answer("ready", "its own\n", std::stoi(workers));
    run.read_until("the shell has read its own");
    run.answer("Running", "the job's\n");
    run.expect_end(0, AllOf(HasSubstr("got <the job's>"), HasSubstr("end: 0")));
  }
}

TEST(TuttirunAtATerminal, AnOnlyProcessHasTheTerminalToItself) {
  AtTerminal run(tuttirun(
      "1",
      "test -t 0 && test -t 1 && test -t 2 && stty size && stty -echo && read -p 'name: ' line "
      "&& echo && echo \"<$line>\""));
  run.read_until("24 80");
  run.answer("name: ", "secret\n");
  run.expect_end(0);
  EXPECT_EQ(times_in(run.screen, "secret"), 1) << "echoed: " << run.screen;
  EXPECT_THAT(run.screen, HasSubstr("<secret>"));
}

TEST(TuttirunAtATerminal, AnOnlyProcessThatIsRestartedHasItAgain) {
  AtTerminal run(tuttirun("1",
                          "read line; echo \"<$line>\"; exit $((1 - TORCHELASTIC_RESTART_COUNT))",
                          {"--max-restarts", "1"}));
  run.type("one\n");
  run.answer("<one>", "two\n");
  run.expect_end(0, HasSubstr("<two>"));
}

TEST(TuttirunAtATerminal, ControlCIsThatOfAnOnlyProcess) {
  // A program that lives on, as a debugger does at its prompt. A signal that comes as bash begins
  // to read is heard only behind the line.
  AtTerminal lives(
      tuttirun("1",
               "trap 'heard=yes' INT; echo ready; until [ $heard ]; do sleep 0.02; done; "
               "echo heard; read line; exit 7"));
  lives.answer("ready", kControlC);
  lives.answer("heard", "\n");
  lives.expect_end(7);

  AtTerminal ends(
      tuttirun("1", "echo ready; while :; do sleep 0.02; done", {"--max-restarts", "3"}));
  ends.answer("ready", kControlC);
  ends.expect_end(128 + SIGINT,
                  AllOf(HasSubstr("tuttirun: ended by SIGINT"), Not(HasSubstr("again"))));
}

TEST(TuttirunAtATerminal, ControlCEndsAScript) {
  // Its shell gets the signal, and ends if the program that it waits for was ended by it, too.
  for (const char* workers : {"1", "2"}) {
    AtTerminal script({"bash", "-c",
                       std::string(TUTTIRUN) + " -n " + workers +
                           " sh -c 'echo ready; while :; do sleep 0.02; done'; echo not reached"});
    script.answer("ready", kControlC, std::stoi(workers));
    script.expect_end(128 + SIGINT, Not(HasSubstr("not reached")));
  }
}

TEST(TuttirunAtATerminal, OneThatDoesNotControlItIsRead) {
  AtTerminal run({"setsid", "--wait", TUTTIRUN, "-n", "1", "bash", "-c",
                  "echo ready; read line; echo \"got <$line>\""});
  run.answer("ready", "hello\n");
  run.expect_end(0, HasSubstr("got <hello>"));
}

TEST(TuttirunAtATerminal, ControlZStopsAScript) {
  AtTerminal run(
      job_control("export tuttirun; bash -c '$tuttirun -n 1 bash -c \"echo ready; read line; echo "
                  "got \\$line\"; "
                  "echo \"script: $?\"'\necho \"shell: $?\"; fg >/dev/null; echo \"end: $?\""));
  run.answer("ready", kControlZ);
  run.answer("shell: 148", "more\n");
  run.expect_end(0, AllOf(HasSubstr("got more"), HasSubstr("script: 0"), HasSubstr("end: 0")));
}

TEST(TuttirunAtATerminal, AScriptReadsOnAfterAProcessThatCannotBeStarted) {
  AtTerminal run(
      job_control("export tuttirun; bash -c '$tuttirun -n 1 ./no_such_program; echo next; "
                  "read line; echo \"script <$line>\"'\necho \"shell: $?\""));
  run.answer("next", "hello\n");
  run.expect_end(0, AllOf(HasSubstr("script <hello>"), HasSubstr("shell: 0")));
}

TEST(TuttirunAtATerminal, AnOnlyProcessReadsWhenItIsInTheForegroundAgain) {
  // It runs in the background until the shell gives it the terminal, and reads only then.
  const GoFile go;
  AtTerminal run(
      job_control("$tuttirun -n 1 bash -c 'trap \"echo again $((40 + 2))\" CONT; echo ready; "
                  "until [ -e $GO_FILE ]; do sleep 0.02; done; read line; echo \"got <$line>\"'\n"
                  "bg; job=$(jobs -p); read line\n"
                  "(until read -a stat </proc/$$/stat; [ ${stat[7]} = $job ]; do sleep 0.02; done; "
                  "echo > $GO_FILE) &\n"
                  "fg %1 >/dev/null; echo \"end: $?\""));
  run.answer("ready", kControlZ);
  run.answer("again 42", "\n");
  run.type("hello\n");
  run.expect_end(0, AllOf(HasSubstr("got <hello>"), HasSubstr("end: 0")));
}

TEST(TuttirunAtATerminal, AScriptReadsOnAfterTheLaunchersDeath) {
  // A script that reads before the terminal is its group's again is stopped, and continued then;
  // but the shell above may have seen the stop. And a worker that waits in a read may take the next
  // line as long as it lives. So this script waits for both. Not every init collects the worker.
  const GoFile go;
  AtTerminal run(job_control(
      "export tuttirun; bash -c '$tuttirun -n 1 bash -c \"echo \\$\\$ >$GO_FILE; kill -KILL "
      "\\$PPID; read line\"; ended() { ! read -a of </proc/$1/stat || [ ${of[2]} = Z ]; }; "
      "until read -a stat </proc/$$/stat; [ ${stat[7]} = ${stat[4]} ] && ended $(cat $GO_FILE); "
      "do sleep 0.02; done; echo next; read line; echo \"script <$line>\"'\n"
      "echo \"shell: $?\""));
  run.answer("next", "hello\n");
  run.expect_end(0, AllOf(HasSubstr("script <hello>"), HasSubstr("shell: 0")));
}

TEST(TuttirunAtATerminal, ARankOfSeveralThatUsesTheTerminalItselfIsEnded) {
  AtTerminal run(
      tuttirun("2", "[ $RANK = 0 ] && read line </dev/tty; while :; do sleep 0.02; done"));
  run.expect_end(128 + SIGKILL, HasSubstr("tuttirun: rank 0 used /dev/tty"));
}

TEST(TuttirunAtATerminal, OnlyASignalOfTheTerminalIsPassedToTheScript) {
  // A worker in the background has not got it from there.
  const GoFile go;
  AtTerminal run(job_control(
      "export tuttirun; bash -c 'trap \"echo heard \\$((40 + 2))\" INT; "
      "$tuttirun -n 1 bash -c \"echo ready; until [ -e $GO_FILE ]; do sleep 0.02; done; "
      "kill -INT \\$\\$\"; echo \"script: $?\"'\n"
      "bg >/dev/null; echo > $GO_FILE; wait; echo \"end: $?\""));
  run.answer("ready", kControlZ);
  run.expect_end(0, AllOf(HasSubstr("script: 130"), Not(HasSubstr("heard 42"))));
}

TEST(TuttirunAtATerminal, APromptAppearsAndIsAnswered) {
  AtTerminal run(tuttirun(
      "2", "if [ $RANK = 0 ]; then printf 'your name: '; read line; echo \"hello $line\"; fi"));
  run.answer("[0]: your name: ", "Ann\n");
  run.expect_end(0, HasSubstr("your name: Ann\r\n[0]: hello Ann\r\n"));
}

TEST(TuttirunAtATerminal, BarsMoveBelowWholeLines) {
  // Each rank shows a bar and waits for the file that says go on; rank 0's is answered by hand.
  const GoFile go;
  AtTerminal run(tuttirun(
      "2",
      "printf '\\r10%%'; printf '\\r20%%'; [ $RANK = 0 ] && { read line; echo > $GO_FILE; }; "
      "until [ -e $GO_FILE ]; do sleep 0.02; done; printf '\\r100%%\\n'"));
  run.read_until("[1]: 20%\r\n[0]: 20%");
  EXPECT_EQ(times_in(run.screen, "10%"), 0) << run.screen;
  run.type("\n");
  run.expect_end(0, AllOf(HasSubstr("[0]: 100%\r\n"), HasSubstr("[1]: 100%\r\n")));
}

TEST(TuttirunAtATerminal, WorkersAreToldItsSize) {
  AtTerminal run(tuttirun("2", "echo $COLUMNS $LINES"));
  run.expect_end(0);
  EXPECT_EQ(times_in(run.screen, "75 24"), 2) << run.screen;
}

TEST(TuttirunAtATerminal, WithoutOneTheInputIsThatOfTheFirstRankOrTheOneThatIsNamed) {
  const std::string job = std::string("echo hello | \"") + TUTTIRUN +
                          "\" -n 2 $OPTIONS sh -c 'read line; echo \"$RANK <$line>\"'";
  for (const auto& [options, of_0, of_1] : {std::array{"", "0 <hello>", "1 <>"},
                                            {"--stdin 1", "0 <>", "1 <hello>"},
                                            {"--stdin none", "0 <>", "1 <>"}}) {
    expect_printed(AllOf(HasSubstr(of_0), HasSubstr(of_1)), {"-n", "1", "bash", "-c", job},
                   {std::string("OPTIONS=") + options});
  }
}

}  // namespace
