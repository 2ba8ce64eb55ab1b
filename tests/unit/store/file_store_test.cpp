// Promises of the file store alone: processes that are killed, files that others have left.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include "store/log.hpp"
#include "support/temporary_folder.hpp"
#include "unit/child.hpp"
#include "unit/group/error_text.hpp"
#include "unit/in_threads.hpp"
#include "unit/os/limit.hpp"
#include "unit/os/pipe.hpp"

using namespace std::chrono_literals;
using testing::HasSubstr;
using tutti::Store;
using tutti::os::Fd;
using tutti::test::end_of;
using tutti::test::in_threads;
using tutti::test::start_child;
using tutti::test::text_of;
using namespace tutti::store;

namespace {

namespace fs = std::filesystem;

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string change(const std::string& key, const std::string& value) {
  return as_text(encode_change({.op = Op::set, .keys = {key}, .values = {value}}));
}

TEST(StoreLog, EveryRecordComesBack) {
  Request request{.op = Op::multi_set, .keys = {"a", "b"}, .values = {"1", ""}};
  const auto bytes = encode_change(request);
  const auto record = parse_record(bytes, {}).value();
  ASSERT_TRUE(record && record->change);
  EXPECT_EQ(record->bytes, bytes.size());
  EXPECT_EQ(record->change->keys, request.keys);
  EXPECT_EQ(record->change->values, request.values);
  const auto arrival = parse_record(encode_arrival(), {}).value();
  EXPECT_TRUE(arrival && !arrival->change);
  request.op = Op::wait;
  request.values.clear();
  EXPECT_FALSE(parse_record(encode_change(request), {})) << "that is no change";
}

// The layout of docs/design/file-store.md, byte by byte.
TEST(StoreLog, TheLayoutIsFrozen) {
  EXPECT_EQ(as_text(log_head()), "tuttifs\x01");
  EXPECT_EQ(as_text(encode_arrival()), std::string("\x01\0\0\0\x45\x60\x0c\x07\x02", 9));
  const std::string set = change("k", "v");
  EXPECT_EQ(set.substr(0, 4), std::string("\x2f\0\0\0", 4));
  EXPECT_EQ(set[8], '\x01');
  EXPECT_EQ(set.size(), 8U + 0x2f);
}

class FileStoreTest : public testing::Test {
 protected:
  [[nodiscard]] std::shared_ptr<Store> open(std::optional<int> users = {},
                                            bool fresh = false) const {
    return tutti::make_file_store(
        {.path = path, .users = users, .linger = 0ms, .fresh = fresh, .timeout = 10s});
  }
  /// As file:// opens it.
  [[nodiscard]] std::shared_ptr<Store> open_own(const std::string& where) const {
    return tutti::make_file_store(
        {.path = where, .linger = 0ms, .fresh = true, .own_only = true, .timeout = 10s});
  }
  [[nodiscard]] std::string refusal(const std::string& where) const {
    return text_of<tutti::StoreError>([&] { (void)open_own(where); });
  }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  [[nodiscard]] bool there() const { return access(path.c_str(), F_OK) == 0; }
  /// Keeps others from `bytes` of the file, 0: all of it, until it is closed.
  [[nodiscard]] Fd locked(off_t begin = 0, off_t bytes = 0) const {
    Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_start = begin;
    lock.l_len = bytes;
    EXPECT_EQ(fcntl(fd.get(), F_OFD_SETLK, &lock), 0);
    return fd;
  }

  tutti::test::TemporaryFolder folder_;
  const std::string path = folder_.at("store").string();
};

TEST_F(FileStoreTest, EndsNoProcessWhoseFilesAreTooLarge) {
  const auto store = open();
  store->set("small", "s");
  const std::string what = text_of<tutti::StoreError>([&] {
    const tutti::test::SoftLimit few(RLIMIT_FSIZE, 4096);
    store->set("large", std::string(8192, 'x'));
  });
  EXPECT_THAT(what, HasSubstr("File too large"));
  store->set("large", "l");  // what was half written is gone
  EXPECT_EQ(store->get("small") + store->get("large"), "sl");
}

TEST_F(FileStoreTest, OthersSeeWhatOneHasSet) {
  auto one = open();
  auto other = open();
  one->set("k", "v");
  EXPECT_EQ(other->get("k"), "v");
  const std::jthread late([&] { one->set("late", "here"); });
  EXPECT_EQ(other->get("late", 10s), "here");
  EXPECT_THAT(one->describe(), HasSubstr(path));
}

TEST_F(FileStoreTest, ProcessesAtOnceLoseNothing) {
  constexpr int kProcesses = 4;
  constexpr int kEach = 50;
  auto store = open();
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(start_child([&] {
      auto mine = open();
      for (int i = 0; i < kEach; ++i) {
        mine->add("sum", 1);
        mine->append("log", ".");
        mine->queue_push("q", std::to_string(i));
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(store->add("sum", 0), kProcesses * kEach);
  EXPECT_EQ(store->get("log").size(), static_cast<std::size_t>(kProcesses * kEach));
  EXPECT_EQ(store->queue_len("q"), kProcesses * kEach);
}

TEST_F(FileStoreTest, KilledProcessesLeaveNothingHalfDone) {
  auto store = open();
  for (int round = 0; round < 20; ++round) {
    const std::string done = "done " + std::to_string(round);
    const pid_t child = start_child([&] {
      auto mine = open();
      mine->set(done, "");
      while (true) {
        mine->add("sum", 1);
        mine->multi_set(std::vector<Store::KeyValue>{{"a", std::to_string(mine->add("n", 1))},
                                                     {"b", std::string(100'000, 'b')}});
      }
    });
    store->wait(done, 10s);
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 5));
    kill(child, SIGKILL);
    EXPECT_EQ(end_of(child), -SIGKILL);
    store->add("sum", 1, 5s);
    EXPECT_EQ(store->check("b") ? store->get("b").size() : 100'000U, 100'000U);
  }
  EXPECT_EQ(open()->list_keys(), store->list_keys()) << "a new reader sees the same";
}

TEST_F(FileStoreTest, ATornRecordIsDropped) {
  const std::string whole = as_text(log_head()) + change("kept", "1");
  const std::string last = change("torn", std::string(50, 'x'));
  for (std::size_t size = 0; size < last.size(); ++size) {
    write(whole + last.substr(0, size));
    auto store = open();
    EXPECT_EQ(store->get("kept"), "1");
    EXPECT_FALSE(store->check("torn")) << size;
    store->set("after", "2");
    EXPECT_EQ(open()->get("after"), "2");
  }
  write(whole + last);
  EXPECT_TRUE(open()->check("torn"));
  // Its length is there, its content is not, as after a loss of power.
  write(whole + last.substr(0, 8) + std::string(last.size() - 8, '\0'));
  EXPECT_FALSE(open()->check("torn"));
  write(whole + std::string(4096, '\0'));
  EXPECT_EQ(open()->num_keys(), 1);
}

TEST_F(FileStoreTest, ATornHeadIsBegunAnew) {
  const std::string head = as_text(log_head());
  for (std::size_t size = 0; size < head.size(); ++size) {
    write(head.substr(0, size));
    open()->set("k", "v");
    EXPECT_EQ(open()->get("k"), "v") << size;
  }
}

TEST_F(FileStoreTest, DamageIsToldAndNotTakenForData) {
  const std::string head = as_text(log_head());
  std::string bytes = head + change("a", "1") + change("b", "2");
  bytes[head.size() + 30] ^= 1;
  write(bytes);
  EXPECT_THAT(text_of<tutti::StoreError>([&] { (void)open(); }),
              testing::AllOf(HasSubstr(path), HasSubstr("damaged at byte 8")));
}

TEST_F(FileStoreTest, AForeignFileIsLeftAlone) {
  write("My thesis, chapter 1");
  EXPECT_THROW(open(), tutti::StoreError);
  EXPECT_THROW(open({}, true), tutti::StoreError);
  EXPECT_EQ(content(), "My thesis, chapter 1");
  std::string next = as_text(log_head());
  ++next.back();
  write(next);
  EXPECT_THAT(text_of<tutti::StoreError>([&] { (void)open({}, true); }),
              HasSubstr("was made by another version of tutti"));
  EXPECT_EQ(content(), next);
}

TEST_F(FileStoreTest, WhatCannotBeOpenedIsNamed) {
  for (const char* bad : {"/nonexistent/folder/file", "/dev/null", "/tmp"}) {
    EXPECT_THAT(text_of<tutti::StoreError>(
                    [&] { (void)tutti::make_file_store({.path = bad, .timeout = 1s}); }),
                HasSubstr(bad));
  }
  EXPECT_THROW(tutti::make_file_store({.path = ""}), tutti::InvalidArgument);
  EXPECT_THROW(tutti::make_file_store({.path = path, .users = 0}), tutti::InvalidArgument);
}

TEST_F(FileStoreTest, IsClosedToOtherUsers) {
  auto store = open();
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600));
}

TEST_F(FileStoreTest, TheLastUserRemovesTheFile) {
  auto one = open(2);
  one.reset();
  EXPECT_TRUE(there()) << "one is still to come";
  auto two = open(2);
  auto three = open(2);
  two.reset();
  EXPECT_TRUE(there()) << "one is still busy";
  three.reset();
  EXPECT_FALSE(there());
  open()->set("k", "v");
  EXPECT_TRUE(there()) << "nobody said how many come";
}

TEST_F(FileStoreTest, OfThoseWhoLeaveAtOnceOneIsTheLast) {
  for (int round = 0; round < 200; ++round) {
    std::vector<std::shared_ptr<Store>> stores{open(3), open(3), open(3)};
    in_threads(3, [&](int i) { stores[static_cast<std::size_t>(i)].reset(); });
    ASSERT_FALSE(there()) << "round " << round;
  }
}

TEST_F(FileStoreTest, WhoLeavesEarlyWaitsForTheOthersALittle) {
  auto one = tutti::make_file_store({.path = path, .users = 2, .linger = 10s, .fresh = true});
  one->set("why", "I give up");
  std::thread leaving([&] { one.reset(); });
  auto late = open(2, true);
  EXPECT_EQ(late->get("why"), "I give up");
  leaving.join();
  late.reset();
  EXPECT_FALSE(there());
  auto alone = tutti::make_file_store({.path = path, .users = 2, .linger = 50ms});
  const auto start = std::chrono::steady_clock::now();
  alone.reset();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
}

TEST_F(FileStoreTest, WhoLeavesDoesNotWaitForWhoIsTooLate) {
  const auto start = std::chrono::steady_clock::now();
  auto one = tutti::make_file_store(
      {.path = path, .users = 2, .linger = 20s, .come_within = 100ms, .fresh = true});
  one.reset();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_THROW(tutti::make_file_store({.path = path, .come_within = -1ms}), tutti::InvalidArgument);
}

TEST_F(FileStoreTest, AKilledUserDoesNotKeepTheFile) {
  auto one = open(2);
  const pid_t child = start_child([&] {
    auto mine = open(2);
    mine->set("came", "");
    raise(SIGKILL);
  });
  one->wait("came", 10s);
  EXPECT_EQ(end_of(child), -SIGKILL);
  one.reset();
  EXPECT_FALSE(there());
}

TEST_F(FileStoreTest, AFreshStartForgetsARunThatWasKilled) {
  const pid_t child = start_child([&] {
    open(2)->set("old", "");
    auto mine = open(2);
    raise(SIGKILL);
  });
  EXPECT_EQ(end_of(child), -SIGKILL);
  ASSERT_TRUE(there());
  EXPECT_TRUE(open()->check("old")) << "who does not ask for it keeps what is there";
  auto one = open({}, true);
  EXPECT_FALSE(one->check("old"));
  one->set("new", "");
  EXPECT_TRUE(open({}, true)->check("new")) << "of a run that lives";
}

TEST_F(FileStoreTest, AFileThatIsRemovedIsNoticed) {
  auto store = open();
  store->set("k", "v");
  unlink(path.c_str());
  EXPECT_THAT(text_of<tutti::StoreError>([&] { (void)store->get("never", 5s); }),
              HasSubstr("removed"));
}

TEST_F(FileStoreTest, AStoppedWriterIsATimeBoundError) {
  auto store = open();
  store->set("k", "v");
  store.reset();
  Fd writer = locked();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(tutti::make_file_store({.path = path, .timeout = 100ms}), tutti::TimeoutError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  writer.reset();
  EXPECT_EQ(open()->get("k"), "v");
}

TEST_F(FileStoreTest, LookingDoesNotLetTheFileGrow) {
  auto store = open();
  store->set("k", "v");
  store->add("n", 1);
  const std::size_t before = content().size();
  store->compare_set("k", "other", "x");
  store->compare_set("absent", "other", "x");
  store->delete_key("absent");
  EXPECT_EQ(store->add("n", 0), 1);
  EXPECT_EQ(store->queue_try_pop("q"), std::nullopt);
  EXPECT_THROW(store->get("absent", 20ms), tutti::TimeoutError);
  EXPECT_EQ(content().size(), before);
}

TEST_F(FileStoreTest, AKilledUsersForkedHelperKeepsNothingAlive) {
  tutti::test::Pipe told;
  tutti::test::Pipe hold;
  const pid_t user = start_child([&] {
    auto mine = open();
    mine->set("left", "behind");
    hold.write.reset();
    const pid_t helper = fork();
    char byte = 0;
    if (helper == 0) {
      // It says so itself: until it runs, nothing of it can have closed the file.
      if (::write(told.write.get(), &byte, 1) != 1) _exit(2);
      while (read(hold.read.get(), &byte, 1) < 0) {  // until the test lets go
      }
      _exit(0);
    }
    while (true) pause();
  });
  char byte = 0;
  ASSERT_EQ(read(told.read.get(), &byte, 1), 1);
  kill(user, SIGKILL);
  EXPECT_EQ(end_of(user), -SIGKILL);
  auto next = open({}, true);
  EXPECT_FALSE(next->check("left")) << "what a killed run left was taken for a run's that lives";
}

TEST_F(FileStoreTest, AForkedChildIsToldToOpenItsOwn) {
  auto store = open();
  store->set("k", "v");
  const pid_t child = start_child([&] {
    const auto told = text_of<tutti::Error>([&] { (void)store->get("k"); });
    if (told.find("forked") == std::string::npos) _exit(4);
    if (open({}, false)->get("k") != "v") _exit(5);
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_EQ(store->get("k"), "v");
}

TEST_F(FileStoreTest, AThreadDoesNotWaitBehindAnotherBeyondItsOwnTime) {
  auto store = open();
  store->set("k", "v");
  Fd writer = locked(off_t{1} << 60, 1);  // a process that stands still while it writes
  std::atomic<bool> first_done{false};
  store->set_timeout(60s);
  std::jthread first([&] {
    store->set("first", "1");
    first_done = true;
  });
  std::string told;
  while (told.find("another thread") == std::string::npos) {  // until the first waits for the file
    told = text_of<tutti::TimeoutError>([&] { (void)store->get("never", 150ms); });
    ASSERT_NE(told, "no error") << "there is no such key";
  }
  EXPECT_FALSE(first_done);
  writer.reset();
  first.join();
  EXPECT_EQ(store->get("first"), "1");
}

TEST_F(FileStoreTest, OneThatOthersMayReadIsMadeAnew) {
  write("");
  fs::permissions(path, fs::perms(0666));
  const Fd held(::open(path.c_str(), O_RDWR | O_CLOEXEC));  // as by somebody who came before
  const auto store = open_own(path);
  store->set("key", "known to nobody else");
  EXPECT_FALSE(store->derive_secret("drawn").empty());
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0600));
  EXPECT_EQ(lseek(held.get(), 0, SEEK_END), 0) << "who has it open reads along";
  EXPECT_EQ(open_own(path)->get("key"), "known to nobody else");
}

TEST_F(FileStoreTest, OneThatOthersMayReplaceIsRefused) {
  const std::string other = path + "_other";
  fs::create_symlink(other, path);
  EXPECT_THAT(refusal(path), HasSubstr("is a symbolic link"));
  EXPECT_FALSE(fs::exists(other)) << "the link was followed";
  const std::string folder = path + "_folder";
  const std::string file = folder + "/file";
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms(0777));
  EXPECT_THAT(refusal(file),
              testing::AllOf(HasSubstr("others may replace it (mode 0777)"), HasSubstr("go-w")));
  fs::permissions(folder, fs::perms(01777));
  EXPECT_EQ(refusal(file), "no error") << "in such a folder nobody takes another's";
  if (getuid() == 0) {
    fs::permissions(folder, fs::perms(0755));
    ASSERT_EQ(chown(folder.c_str(), 54321, 54321), 0);
    EXPECT_THAT(refusal(file), HasSubstr("a folder that belongs to user 54321"));
    ASSERT_EQ(chown(folder.c_str(), 0, 0), 0);
    ASSERT_EQ(chown(file.c_str(), 54321, 54321), 0);
    EXPECT_THAT(refusal(file), HasSubstr("belongs to user 54321"));
  }
}

}  // namespace
