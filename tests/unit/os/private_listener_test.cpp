#include "os/private_listener.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "os/background_closer.hpp"
#include "os/socket.hpp"
#include "unit/child.hpp"

namespace tutti::os {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kAnother = 54324;
constexpr const char* kName = "listener-test";

void become(uid_t user) {
  if (::setgid(user) != 0 || ::setuid(user) != 0) _exit(10);
}

TEST(PrivateListener, IsReachedByThisUserOnlyAndLeavesNothing) {
  std::string path;
  {
    const PrivateListener listener = PrivateListener::open(kName).value();
    EXPECT_FALSE(listener.folder_id().empty());
    path = listener.path_of(kName);
    EXPECT_TRUE(is_of_this_user(connect_unix(path).value().get()));
    if (::geteuid() == 0) {
      const int end = test::end_of(test::start_child([&] {
        become(kAnother);
        _exit(connect_unix(path).status().code() == Errc::refused ? 0 : 1);
      }));
      EXPECT_EQ(end, 0) << "another user can connect";
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(connect_unix(path).status().code(), Errc::refused);
}

// Each removes the folder, if no other has a file there.
TEST(PrivateListener, StaysInItsFolderWhileOthersComeAndGo) {
  const std::string usual = PrivateListener::open(kName).value().path_of("");
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, name = kName + std::to_string(number)] {
      for (int i = 0; i < 500; ++i) {
        auto listener = PrivateListener::open(name);
        ASSERT_TRUE(listener) << listener.status().message();
        ASSERT_EQ(listener->path_of(""), usual);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PrivateListener, TakesNoFolderThatAnotherUserHasMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  const std::string name = "/tutti-ranks-" + std::to_string(kAnother);
  const std::string folder = "/dev/shm" + name;
  std::filesystem::create_directory(folder);  // of root, and open to all
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  const int end = test::end_of(test::start_child([&] {
    become(kAnother);
    Result<PrivateListener> listener = PrivateListener::open(kName);
    if (!listener) _exit(1);
    const bool elsewhere = listener->path_of(kName).starts_with("/tmp/");
    listener->close();
    // Nor where both are taken, but there is a name that the other cannot know.
    const std::string other = "/tmp" + name;
    if (::symlink("/", other.c_str()) != 0) _exit(3);
    const bool refused = !PrivateListener::open(kName);
    listener = PrivateListener::open(kName, "secret");
    const bool hidden = listener && listener->path_of(kName).starts_with(other + "-secret/");
    if (listener) listener->close();
    (void)::unlink(other.c_str());
    _exit(elsewhere && refused && hidden ? 0 : 2);
  }));
  EXPECT_EQ(end, 0);
  EXPECT_TRUE(std::filesystem::remove(folder));
}

TEST(PrivateListener, SweepsFilesOfTheDeadAndNoOthers) {
  PrivateListener listener = PrivateListener::open(kName).value();
  const std::string dead = listener.path_of("dead-of-test");
  const std::string young = listener.path_of("young-of-test.new");
  const std::string file = listener.path_of("file-of-test");
  const std::string old = listener.path_of("old-of-test.new");
  const std::string own = listener.path_of(kName);
  for (const std::string& path : {dead, young, old}) (void)listen_unix(path).value();  // and closed
  std::ofstream(file) << "a key, for example";
  const std::array<timespec, 2> long_ago{timespec{1, 0}, timespec{1, 0}};
  for (const std::string& path : {old, file, own})
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago.data(), 0), 0);
  listener.sweep();
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::remove(young));
  EXPECT_TRUE(std::filesystem::remove(file));
  EXPECT_TRUE(connect_unix(own)) << "of a process that lives";
}

/// A TCP socket whose last close blocks for so many seconds, with the end that does not read.
std::pair<Fd, Fd> lingering(int blocks_for) {
  Fd server = listen_tcp(Address::parse("127.0.0.1", 0).value()).value();
  const Address address = local_address(server.get()).value();
  Fd client = connect_tcp(address, std::chrono::steady_clock::now() + 10s).value();
  const std::vector<std::byte> much(1 << 20);
  while (send_some(client.get(), much).value() > 0) {
  }
  const linger slow{1, blocks_for};
  EXPECT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &slow, sizeof slow), 0);
  return {std::move(client), std::move(server)};
}

TEST(BackgroundCloser, IsNotBlockedByWhatLiesInAQueue) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd theirs(ends[0]);
  auto [given, server] = lingering(2);
  const auto soon = std::chrono::steady_clock::now() + 10s;
  ASSERT_TRUE(
      send_fds(theirs.get(), std::array{given.get()}, std::as_bytes(std::span("x", 1)), soon));
  given.reset();  // does not block: the queue has it
  const auto begin = std::chrono::steady_clock::now();
  BackgroundCloser closer;
  closer.close(Fd(ends[1]));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  while (closer.waiting() > 0 && std::chrono::steady_clock::now() < soon) ::poll(nullptr, 0, 10);
  EXPECT_EQ(closer.waiting(), 0U);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 1s)
      << "the close did not block: tests nothing";
}

}  // namespace
}  // namespace tutti::os
