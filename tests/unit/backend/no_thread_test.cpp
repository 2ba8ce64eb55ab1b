#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

#include <tutti/tutti.hpp>

#include "world_of_one.hpp"

// A process that may start no more threads.

namespace {
std::atomic<bool> no_more_threads{false};
}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  if (no_more_threads) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto kCreate = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return kCreate(thread, attributes, start, argument);
}

namespace tutti {
namespace {

TEST(NoThread, GroupsWorkAndEndWithoutAProgressThread) {
  std::atomic<int> remarks = 0;
  set_log_sink([&](LogLevel, std::string_view) { ++remarks; });
  std::atomic<int> called = 0;
  const auto use = [&] {
    ProcessGroup world = world_of_one();
    std::vector<int> got(1);
    Work work = world.irecv(got, 0);
    work.on_done({[](void* context, const Status& status) noexcept {
                    if (status.ok()) ++*static_cast<std::atomic<int>*>(context);
                  },
                  &called});
    std::vector<int> given{7};
    world.send(given, 0);
    work.wait();
    EXPECT_EQ(got[0], 7);
  };
  no_more_threads = true;
  use();  // and its end does not wait for a thread that there is not
  EXPECT_EQ(called, 1);
  EXPECT_EQ(remarks, 1) << "nobody was told";
  no_more_threads = false;
  use();
  EXPECT_EQ(called, 2);
  EXPECT_EQ(remarks, 1);
  set_log_sink({});
}

}  // namespace
}  // namespace tutti
