// What jobs that were killed have left goes, and nothing else.

#include "store/file_sweep.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include <tutti/store.hpp>

#include "os/fd.hpp"
#include "store/file_locks.hpp"
#include "support/temporary_folder.hpp"
#include "unit/child.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;

namespace tutti::store {
namespace {

namespace fs = std::filesystem;

class FileSweep : public testing::Test {
 protected:
  static constexpr const char* kBegin = "job-7-";
  /// Of the store of a job.
  [[nodiscard]] std::string name(int job = 0) const {
    return folder_.at(kBegin + std::string(15, '0') + std::to_string(job)).string();
  }
  static std::shared_ptr<Store> open(const std::string& path, int users = 1) {
    return make_file_store(
        {.path = path, .users = users, .linger = 0ms, .fresh = true, .own_only = true});
  }
  /// The file of a job that was killed.
  static void leave(const std::string& path) {
    const pid_t child = test::start_child([&] {
      const auto mine = open(path);
      ::raise(SIGKILL);
    });
    ASSERT_EQ(test::end_of(child), -SIGKILL);
    ASSERT_TRUE(fs::exists(path));
  }
  void sweep() const { sweep_files(folder_.path(), kBegin); }

  const test::TemporaryFolder folder_;
};

TEST_F(FileSweep, RemovesWhatAKilledJobHasLeft) {
  leave(name());
  sweep();
  EXPECT_FALSE(fs::exists(name()));
  std::ofstream(name()).flush();  // killed when it had just made it
  sweep();
  EXPECT_FALSE(fs::exists(name()));
}

TEST_F(FileSweep, LeavesTheFileOfALivingJobHoweverOldItIs) {
  const auto store = open(name());
  fs::last_write_time(name(), fs::file_time_type::clock::now() - 24h * 365);
  sweep();
  EXPECT_TRUE(fs::exists(name()));
  store->set("key", "value");
  EXPECT_EQ(open(name())->get("key"), "value");
}

TEST_F(FileSweep, LeavesTheFileThatAJobIsAboutToUse) {
  leave(name());
  os::Fd joining(::open(name().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(try_lock(joining.get(), kTurnAt, F_WRLCK).value());
  sweep();
  EXPECT_TRUE(fs::exists(name()));
  joining.reset();
  sweep();
  EXPECT_FALSE(fs::exists(name()));
}

TEST_F(FileSweep, LeavesWhatIsNotOfThisUsersJobs) {
  const std::string elsewhere = folder_.at("elsewhere").string();
  leave(elsewhere);
  leave(folder_.at("job-77-" + std::string(16, '0')).string());
  leave(folder_.at(kBegin + std::string(15, '0')).string());
  leave(folder_.at(kBegin + std::string(15, '0') + "x").string());
  fs::create_symlink(elsewhere, name(1));
  fs::create_directory(name(2));
  ASSERT_EQ(mkfifo(name(3).c_str(), 0600), 0);
  std::ofstream(name(4)) << "notes of mine";
  if (geteuid() == 0) {
    leave(name(5));
    ASSERT_EQ(chown(name(5).c_str(), 12345, 12345), 0);
  }
  const auto count = [&] {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  };
  const auto before = count();
  sweep();
  EXPECT_EQ(count(), before);
  sweep_files(folder_.at("missing").string(), kBegin);
}

/// Each of them opens the file, or makes it anew, at any moment of the sweep.
TEST_F(FileSweep, JobsThatStartMeanwhileMeet) {
  std::atomic<bool> over = false;
  std::jthread sweeping([&] {
    while (!over) sweep();
  });
  test::in_threads(2, [&](int rank) {
    for (int round = 0; round < 50; ++round) {
      const std::string number = std::to_string(round);
      const auto store = open(name(), 2);
      store->set(number + std::to_string(rank), number);
      EXPECT_EQ(store->get(number + std::to_string(1 - rank), 20s), number);
      store->add(number + "met", 1);
      while (store->add(number + "met", 0) < 2) std::this_thread::yield();
    }
  });
  over = true;
  sweeping.join();
  sweep();
  EXPECT_FALSE(fs::exists(name()));
}

}  // namespace
}  // namespace tutti::store
