#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <thread>

#include <tutti/tutti.hpp>

#include "world_of_one.hpp"

// Functions of libc are replaced here: a process may start no more threads, or the sleep of one of
// its threads is held at the door.

namespace {

std::atomic<bool> no_more_threads{false};

thread_local bool is_late = false;   // its first sleep is held at the door
thread_local bool is_early = false;  // its sleep after the wake opens that door
std::atomic<bool> at_the_door{false};
std::atomic<bool> has_slept{false};  // the early one, for the first time
std::atomic<bool> was_woken{false};
std::atomic<bool> door{false};
std::atomic<int> late_outcome{-1};  // errno of the sleep that was held

bool is_sleep(long number, long operation) {
  // Of a word that other processes may wake: the doorbell.
  return number == SYS_futex && operation == FUTEX_WAIT;
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  if (no_more_threads) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto kCreate = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return kCreate(thread, attributes, start, argument);
}

extern "C" long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  using Call = long (*)(long, long, long, long, long, long, long);
  static const auto kCall = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "syscall"));
  const bool held = is_late && is_sleep(number, a[1]) && !at_the_door.exchange(true);
  if (held) {
    at_the_door.notify_all();
    door.wait(false);
  }
  if (is_early && is_sleep(number, a[1])) {
    if (was_woken && !door.exchange(true)) door.notify_all();
    if (!has_slept.exchange(true)) has_slept.notify_all();
  }
  const long result = kCall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (held) {
    const int error = errno;
    late_outcome = result == 0 ? 0 : error;
    errno = error;
  }
  return result;
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
    work.on_done({[](void* context, const Outcome& status) noexcept {
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

// Threads of one rank that wait at the same time sleep on one word. One that was about to sleep
// when it was woken must not sleep because another has gone to sleep again meanwhile.
TEST(SeveralCallers, OneThatIsAboutToSleepDoesNotSleepThroughItsWake) {
  ProcessGroup world = world_of_one();
  std::vector<int> first(1);
  std::vector<int> second(1);
  std::thread early([&] {
    Work work = world.irecv(first, 0, {.tag = 1});
    is_early = true;
    work.wait();
  });
  has_slept.wait(false);
  std::thread late([&] {
    Work work = world.irecv(second, 0, {.tag = 2});
    is_late = true;
    work.wait();
  });
  at_the_door.wait(false);
  std::vector<int> given{7};
  world.send(given, 0, {.tag = 2});
  was_woken = true;
  late.join();
  EXPECT_EQ(second[0], 7);
  // Its word has changed: not 0 (woken by another), not ETIMEDOUT (after 20 ms).
  EXPECT_EQ(late_outcome, EAGAIN);
  world.send(given, 0, {.tag = 1});
  early.join();
  EXPECT_EQ(first[0], 7);
}

}  // namespace
}  // namespace tutti
