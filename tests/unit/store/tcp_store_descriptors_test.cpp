// A server whose process may open few files or start no thread.

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "os/descriptors.hpp"
#include "served.hpp"
#include "unit/child.hpp"
#include "unit/os/limit.hpp"
#include "unit/os/pipe.hpp"

namespace {

std::atomic<bool> no_threads{false};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  if (no_threads) return EAGAIN;
  static auto* const real =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}

namespace tutti::store {
namespace {

using namespace std::chrono_literals;

/// Opens so many files at once; whether it could.
bool can_open(int files) {
  std::vector<os::Fd> open;
  for (int i = 0; i < files; ++i) {
    open.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!open.back().valid()) return false;
  }
  return true;
}

TEST(TcpStoreDescriptors, PendingConnectionsLeaveSomeToTheProgram) {
  test::Pipe ports;
  test::Pipe gone;
  const pid_t child = test::start_child([&] {
    gone.write.reset();
    const rlimit few{200, 200};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(90);
    auto server = serve();
    const std::uint16_t port = server->address().port();
    std::vector<os::Fd> files;  // the program goes on after it has begun to serve
    for (int i = 0; i < 60; ++i) files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (::write(ports.write.get(), &port, sizeof(port)) != sizeof(port)) _exit(1);
    for (int i = 0; i < 60; ++i) {
      if (!can_open(40)) _exit(2);
      std::this_thread::sleep_for(10ms);
    }
    // Those who wait come in when the others have gone.
    char byte = 0;
    if (::write(ports.write.get(), &port, sizeof(port)) != sizeof(port)) _exit(3);
    (void)!::read(gone.read.get(), &byte, 1);
    join(port)->set("still", "served");
    _exit(testing::Test::HasFailure() ? 4 : 0);
  });
  std::uint16_t port = 0;
  ASSERT_EQ(::read(ports.read.get(), &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  ASSERT_TRUE(os::ensure_descriptors(500, "this test"));
  std::vector<os::Fd> pending;
  for (int i = 0; i < 300; ++i) {
    auto fd = os::connect_tcp(loopback(port), Clock::now() + 5s);
    ASSERT_TRUE(fd) << i;
    pending.push_back(std::move(fd).value());
  }
  ports.write.reset();
  EXPECT_EQ(::read(ports.read.get(), &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  pending.clear();
  gone.write.reset();
  EXPECT_EQ(test::end_of(child), 0);
}

TEST(TcpStoreDescriptors, ASoftLimitIsRaisedForTheUsersOfTheStore) {
  const pid_t child = test::start_child([] {
    const test::SoftLimit few(RLIMIT_NOFILE, 100);
    auto server = serve({.address = loopback(), .users = 80});
    std::vector<os::Fd> users;
    for (int i = 0; i < 80 && !testing::Test::HasFailure(); ++i)
      users.push_back(dial_and_prove(*server));
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(test::end_of(child), 0);
}

TEST(TcpStoreThread, WithoutOneThereIsAnErrorAndSignalsStillCome) {
  no_threads = true;
  const auto server = TcpServer::start({.address = loopback()});
  no_threads = false;
  EXPECT_EQ(server.status().code(), Errc::resource);
  EXPECT_THAT(server.status().message(), testing::HasSubstr("cannot start a thread for the store"));
  sigset_t blocked;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 0);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

}  // namespace
}  // namespace tutti::store
