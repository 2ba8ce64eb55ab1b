#include <sys/stat.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "command_run.hpp"
#include "os/handed_memory.hpp"
#include "record/flight_recorder.hpp"
#include "record/record.hpp"
#include "support/variable.hpp"

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

namespace fs = std::filesystem;
using tutti::test::Words;

class TraceCommand : public testing::Test {
 protected:
  /// It ends with this code, and says that.
  static void expect_said(int code, const testing::Matcher<std::string>& said,
                          const Words& arguments, const Words& command = {TUTTI_CLI}) {
    const auto answer = tutti::test::answer_of(tutti::test::joined({command, arguments}));
    EXPECT_EQ(answer.code, code) << answer.text;
    EXPECT_THAT(answer.text, said);
  }
  /// A record of one barrier, which is open for so long; negative: of none.
  void write_record(int rank, int size = 2,
                    std::chrono::milliseconds open_for = std::chrono::milliseconds(0)) const {
    using namespace tutti::record;
    auto fd = FlightRecorder::make_memory();
    const tutti::test::Variable given("TUTTI_RECORD_FD", tutti::os::name_handed(*fd).value());
    const auto recorder = std::move(FlightRecorder::make(rank, size, "node-1").value());
    tutti::Collective barrier;
    barrier.kind = tutti::Kind::barrier;
    const auto group = recorder->add_group(1, "world", rank, size);
    if (open_for.count() >= 0) recorder->called(group, 1, barrier, EntryState::running);
    std::this_thread::sleep_for(open_for);  // the time is what is told
    const auto mapping = std::move(tutti::os::map_shared(*fd, kRecordBytes, false).value());
    const auto bytes = copy_record({mapping.data(), mapping.size()});
    std::ofstream file(folder_ / ("rank-" + std::to_string(rank) + ".record"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  const tutti::test::TemporaryFolder own_;
  const fs::path folder_ = own_.path();
  const Words merge_ = {"trace", own_.path(), "-o", (folder_ / "job.json").string()};
};

TEST_F(TraceCommand, MergesTheRanksOfAFolder) {
  write_record(1);
  write_record(0);
  expect_said(0, HasSubstr("job.json: 2 operations of 2 of 2 ranks; open it in"), merge_);
  const auto trace = nlohmann::json::parse(tutti::test::text_of(folder_ / "job.json"));
  int slices = 0;
  for (const auto& event : trace["traceEvents"]) slices += event["ph"] == "X" ? 1 : 0;
  EXPECT_EQ(slices, 2);
}

TEST_F(TraceCommand, TellsForHowLongOthersHaveWaitedForARank) {
  write_record(0, 2, std::chrono::milliseconds(150));
  write_record(1, 2, std::chrono::milliseconds(-1));
  expect_said(0, testing::ContainsRegex("\nothers waited [0-9.]+ s for rank 1 on node-1\n"),
              merge_);
}

TEST_F(TraceCommand, LeavesTheRanksOfAnOlderAndLargerJob) {
  for (const int rank : {0, 1, 2}) write_record(rank, 3);
  for (const int rank : {0, 1}) write_record(rank, 2);
  expect_said(0,
              AllOf(HasSubstr("1 of the 3 records are of an older job of another size: left out\n"),
                    HasSubstr("2 operations of 2 of 2 ranks;")),
              merge_);
}

TEST_F(TraceCommand, IsNeitherHeldUpNorFooledByFilesOfOthers) {
  write_record(0);
  EXPECT_EQ(::mkfifo((folder_ / "rank-1.record").c_str(), 0666), 0);
  fs::create_directory(folder_ / "rank-2.record");
  fs::create_symlink("/dev/tty", folder_ / "rank-3.record");
  std::ofstream(folder_ / "\x1b[31m\n.record") << "no record";
  const auto plain = Not(HasSubstr("\x1b"));
  expect_said(0,
              AllOf(plain, HasSubstr("rank-1.record: is not a regular file\n"),
                    HasSubstr("rank-2.record: is not a regular file\n"),
                    HasSubstr("rank-3.record: "), HasSubstr("\\x1b[31m\\x0a.record: a record has "),
                    HasSubstr("1 operations of 1 of 2 ranks")),
              merge_);
  expect_said(1, AllOf(plain, HasSubstr("\\x1b[31m: No such file or directory")),
              {"trace", (folder_ / "\x1b[31m").string()});
}

// How all commands answer to a wrong line.
TEST_F(TraceCommand, AWrongLineIsAnsweredInOneLine) {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{},
       "tutti: no command given; there are version, doctor, explain, status, trace, bench; see "
       "tutti "
       "--help"},
      {{"statsu"}, "tutti: there is no command \"statsu\"; did you mean status? see tutti --help"},
      {{"--verison"}, "tutti: unknown option --verison; did you mean --version? see tutti --help"},
      {{"trace"}, "tutti trace: folder is required; see tutti trace --help"},
      {{"trace", "a", "b"}, "tutti trace: \"b\" is one argument too many; see tutti trace --help"},
      {{"trace", "a", "--ouput", "b"},
       "tutti trace: unknown option --ouput; did you mean --output? see tutti trace --help"},
      {{"trace", "a", "-o"}, "tutti trace: --output needs a value; see tutti trace --help"},
      {{"bench", "--factor", "many"},
       "tutti bench: --factor is \"many\"; it must be a number; see tutti bench --help"},
      {{"doctor", "--ranks", "0"},
       "tutti doctor: --ranks: Value 0 not in range 1 to 65536; see tutti doctor --help"},
  };
  for (const auto& [line, answer] : cases) expect_said(2, answer + "\n", line);
}

TEST_F(TraceCommand, EachCommandTellsTheVersion) {
  const auto version = tutti::test::answer_of({TUTTI_CLI, "--version"});
  ASSERT_EQ(version.code, 0);
  for (const char* command : {"version", "doctor", "status", "trace", "bench"})
    expect_said(0, version.text, {command, "--version"});
}

TEST_F(TraceCommand, OutputThatCannotBeWrittenIsAnError) {
  expect_said(1, "tutti: cannot write to standard output\n", {"version"},
              {"/bin/sh", "-c", "exec \"$0\" \"$@\" >/dev/full", TUTTI_CLI});
}

TEST_F(TraceCommand, AFileOfBenchThatCannotBeLookedAtCannotBeWritten) {
  const std::string name(300, 'x');
  expect_said(1, "tutti: cannot write " + name + "\n", {"bench", "--html", name});
}

TEST_F(TraceCommand, TellsWhatItCannotRead) {
  expect_said(1, HasSubstr("no record of a rank in "), {"trace", folder_.string()});
  std::ofstream(folder_ / "rank-0.record") << "nothing of the kind";
  expect_said(1, HasSubstr("rank-0.record: a record has 69632 bytes, and not 19"),
              {"trace", folder_.string()});
}

}  // namespace
