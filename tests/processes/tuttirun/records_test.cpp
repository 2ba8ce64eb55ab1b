#include <sys/stat.h>

#include <span>

#include "record/record.hpp"
#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

// What is left of the flight recorders of a job's ranks.
namespace tutti::record {
namespace {

namespace fs = std::filesystem;

using Folder = test::TemporaryFolder;
using testing::HasSubstr;

Record record_in(const fs::path& folder, int rank) {
  const std::string text = test::text_of(folder / ("rank-" + std::to_string(rank) + ".record"));
  auto record = read_record(std::as_bytes(std::span(text)));
  EXPECT_TRUE(record.ok()) << record.status().message();
  return record.ok() ? *record : Record();
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Records, OfARankThatWasKilledAndOfThoseThatWaitedForIt) {
  const Folder folder;
  const fs::path to = folder.at("records");
  expect_told(128 + SIGKILL, HasSubstr("what each rank did last: tutti trace " + to.string()),
              {"-n", "4", "--record", to.string(), RANK_WORKER, "die"});
  for (int rank = 0; rank < 4; ++rank) {
    const Record record = record_in(to, rank);
    EXPECT_EQ(record.rank, rank);
    EXPECT_EQ(record.size, 4);
    EXPECT_EQ(record.groups.front().name, "world");
    // The others may not have come to the fourth when they were ended.
    ASSERT_GE(record.operations.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(record.operations[i].kind, Kind::barrier);
      EXPECT_EQ(record.operations[i].seq, i + 1);
      // The launcher may end the others before these have seen that the third one is over.
      if (rank == 1 || i < 2) {
        EXPECT_EQ(record.operations[i].state, EntryState::done);
      }
    }
    if (rank == 1) {
      EXPECT_EQ(record.operations.size(), 3U);
    }
  }
}

TEST(Records, InTemporaryFoldersGoAfterSevenDays) {
  const Folder folder;
  const auto make = [&](const std::string& name, int days, const char* file = "rank-0.record") {
    const fs::path path = folder.at(name);
    fs::create_directory(path);
    std::ofstream(path / file) << "old";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24) * days);
  };
  make("tuttirun_record_aaaaaa", 8);
  make("tuttirun_record_bbbbbb", 6);
  make("tuttirun_record_cccccc", 8, "notes");
  make("other_record_dddddd", 8);
  fs::create_directory_symlink(folder.at("other_record_dddddd"),
                               folder.at("tuttirun_record_eeeeee"));
  const Ended well(0, {"-n", "1", "true"}, {"TMPDIR=" + folder.path()});
  EXPECT_FALSE(fs::exists(folder.at("tuttirun_record_aaaaaa")));
  for (const char* const kept :
       {"tuttirun_record_bbbbbb/rank-0.record", "tuttirun_record_cccccc/notes",
        "other_record_dddddd/rank-0.record", "tuttirun_record_eeeeee"})
    EXPECT_TRUE(fs::exists(folder.at(kept))) << kept;
  EXPECT_EQ(files_in(folder.path()), 4U) << "a job that ends well leaves nothing";
}

TEST(Records, OfAJobThatEndsWellWhereTheyAreWanted) {
  const Folder folder;
  const Ended run(0, {"-n", "2", "--record", folder.path(), RANK_WORKER, "latency", "2000"});
  EXPECT_EQ(record_in(folder.path(), 1).operations.size(), kEntries - 1U);
}

TEST(Records, OfAJobThatASignalEndsWhereTheyAreWanted) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Folder folder;
    Tuttirun run({"-n", "2", "--record", folder.path(), RANK_WORKER, "rest_until_told"});
    run.read_until("there", 2);
    run.expect_ended_by(signal);
    EXPECT_EQ(files_in(folder.path()), 2U) << run.err;
    EXPECT_EQ(record_in(folder.path(), 1).operations.size(), 1U);
  }
}

TEST(Records, OfAJobThatASecondSignalKills) {
  const Folder folder;
  Tuttirun run({"-n", "2", "--record", folder.path(), "bash", "-c",
                "trap '' INT TERM; " RANK_WORKER " rest_until_told"});
  run.read_until("there", 2);
  // Two that are the same may be taken for one.
  run.signal(SIGINT);
  run.signal(SIGTERM);
  EXPECT_NE(run.wait(), 0) << run.err;
  EXPECT_EQ(files_in(folder.path()), 2U) << run.err;
}

TEST(Records, OfANodeWhoseJobFailsOnAnotherNode) {
  const Folder first;
  const Folder second;
  const std::string port = std::to_string(free_port());
  const std::vector<std::string> program = {RANK_WORKER, "die"};  // rank 1 does
  Tuttirun failing(node(0, port, program), {"TMPDIR=" + first.path()});
  Tuttirun other(node(1, port, program), {"TMPDIR=" + second.path()});
  EXPECT_NE(other.wait(), 0);
  EXPECT_NE(failing.wait(), 0);
  for (const Folder* const folder : {&first, &second}) {
    ASSERT_EQ(files_in(folder->path()), 1U) << failing.err << other.err;
    EXPECT_EQ(files_in(fs::directory_iterator(folder->path())->path()), 2U);
  }
}

TEST(Records, OfAJobThatASignalEndsAreNotMadeOnAnyNode) {
  const Folder first;
  const Folder second;
  const std::string port = std::to_string(free_port());
  const std::vector<std::string> program = {RANK_WORKER, "rest_until_told"};
  Tuttirun told(node(0, port, program), {"TMPDIR=" + first.path()});
  Tuttirun other(node(1, port, program), {"TMPDIR=" + second.path()});
  told.read_until("there", 2);
  other.read_until("there", 2);
  told.signal(SIGTERM);
  EXPECT_EQ(other.wait(), 128 + SIGTERM) << other.err;
  EXPECT_EQ(told.wait(), 128 + SIGTERM) << told.err;
  EXPECT_EQ(files_in(first.path()), 0U) << told.err;
  EXPECT_EQ(files_in(second.path()), 0U) << other.err;
}

TEST(Records, OfAFailedJobGoToATemporaryFolder) {
  const Folder folder;
  const Ended run(128 + SIGKILL, {"-n", "2", RANK_WORKER, "die"}, {"TMPDIR=" + folder.path()});
  ASSERT_EQ(files_in(folder.path()), 1U);
  EXPECT_EQ(files_in(fs::directory_iterator(folder.path())->path()), 2U);
}

TEST(Records, TakeThePlaceOfWhateverIsThere) {
  const Folder folder;
  const std::string victim = folder.file("victim", "not ours");
  const fs::path to = folder.at("records");
  fs::create_directory(to);
  EXPECT_EQ(::mkfifo((to / "rank-0.record").c_str(), 0666), 0);
  fs::create_symlink(victim, to / "rank-1.record");
  fs::create_hard_link(victim, to / "rank-2.record");
  const Ended run(0, {"-n", "3", "--record", to.string(), RANK_WORKER, "latency", "10"});
  for (int rank = 0; rank < 3; ++rank) {
    const fs::path file = to / ("rank-" + std::to_string(rank) + ".record");
    ASSERT_TRUE(fs::is_regular_file(fs::symlink_status(file))) << file << run.err;
    EXPECT_EQ(record_in(to, rank).rank, rank) << run.err;
  }
  EXPECT_EQ(files_in(to), 3U);
  EXPECT_EQ(test::text_of(victim), "not ours");
}

TEST(Records, InAFolderOfAllWhereAnotherUserHasMadeOneAreAnError) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  const Folder folder;
  EXPECT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  const std::string theirs = folder.file("rank-0.record", "root's");
  EXPECT_EQ(::chmod(theirs.c_str(), 0666), 0);
  const std::string as_another =
      "import os, sys; os.setgroups([]); os.setgid(54321); os.setuid(54321); "
      "os.execv(sys.argv[1], sys.argv[1:])";
  expect_told(0,
              HasSubstr("tuttirun: cannot replace " + theirs +
                        ", which may belong to another user: Operation not permitted"),
              {"python3", "-c", as_another, TUTTIRUN, "-n", "2", "--record", folder.path(),
               RANK_WORKER, "latency", "10"},
              {"HOME=/nonexistent"});
  EXPECT_EQ(fs::file_size(theirs), 6U);
}

TEST(Records, AreNotMadeWhereNobodyUsesThem) {
  const Folder folder;
  const std::string to = "TMPDIR=" + folder.path();
  const Ended other(3, {"-n", "2", "sh", "-c", "exit 3"}, {to});
  const Ended off(128 + SIGKILL, {"-n", "2", RANK_WORKER, "die"},
                  {to, "TUTTI_FLIGHT_RECORDER=off"});
  EXPECT_EQ(files_in(folder.path()), 0U);
}

}  // namespace
}  // namespace tutti::record
