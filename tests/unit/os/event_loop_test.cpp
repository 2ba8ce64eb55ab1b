#include "os/event_loop.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "unit/os/pipe.hpp"

using namespace std::chrono_literals;
using tutti::os::EventLoop;
using tutti::os::Fd;

namespace {

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

struct WatchedPipe : tutti::test::Pipe {
  void fill() const { EXPECT_EQ(::write(write.get(), "x", 1), 1); }
};

class EventLoopTest : public testing::Test {
 protected:
  std::unique_ptr<EventLoop> loop = EventLoop::create().value();
  WatchedPipe one;
  WatchedPipe two;
  int calls = 0;
};

TEST_F(EventLoopTest, CallsWhatIsReady) {
  ASSERT_TRUE(loop->add(one.read.get(), EPOLLIN, [&](std::uint32_t events) {
    EXPECT_TRUE(events & EPOLLIN);
    ++calls;
  }));
  ASSERT_TRUE(loop->add(two.read.get(), EPOLLIN, [&](std::uint32_t) { FAIL(); }));
  one.fill();
  EXPECT_TRUE(loop->run_once(in(5s)));
  EXPECT_TRUE(loop->run_once(in(5s)));
  EXPECT_EQ(calls, 2) << "level-triggered";
  ASSERT_TRUE(loop->modify(one.read.get(), 0));
  EXPECT_TRUE(loop->run_once(in(1ms)));
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(loop->modify(12345, EPOLLIN));
  EXPECT_FALSE(loop->add(-1, EPOLLIN, {}));
}

TEST_F(EventLoopTest, EndsAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(loop->run_once(start + 20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  EXPECT_TRUE(loop->run_once(start)) << "a deadline of the past";
}

TEST_F(EventLoopTest, WakeEndsTheWaitFromAnotherThread) {
  const std::jthread waker([&] { loop->wake(); });
  EXPECT_TRUE(loop->run_once(std::nullopt));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(loop->run_once(start + 10ms));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 10ms) << "a wake counts once";
}

TEST_F(EventLoopTest, ACallbackMayRemoveItselfAndOthers) {
  one.fill();
  two.fill();
  const auto remove_both = [&](std::uint32_t) {
    ++calls;
    loop->remove(one.read.get());
    loop->remove(two.read.get());
  };
  ASSERT_TRUE(loop->add(one.read.get(), EPOLLIN, remove_both));
  ASSERT_TRUE(loop->add(two.read.get(), EPOLLIN, remove_both));
  EXPECT_TRUE(loop->run_once(in(5s)));
  EXPECT_EQ(calls, 1) << "both were ready, the first removed the second";
}

TEST_F(EventLoopTest, ANumberGivenOutAgainIsAnotherDescriptor) {
  one.fill();
  two.fill();
  const int first_number = one.read.get();
  const int second_number = two.read.get();
  std::vector<Fd> again;
  std::vector<Fd> silent_writers;
  // Whoever is called first closes both and lets the kernel give the numbers out again.
  const auto replace = [&](std::uint32_t) {
    ++calls;
    for (Fd* fd : {&one.read, &two.read}) {
      loop->remove(fd->get());
      fd->reset();
    }
    for (int i = 0; i < 2; ++i) {
      again.emplace_back(dup(STDIN_FILENO));
      EXPECT_THAT(again.back().get(), testing::AnyOf(first_number, second_number));
    }
    WatchedPipe unrelated;
    ASSERT_EQ(dup2(unrelated.read.get(), first_number), first_number);
    ASSERT_EQ(dup2(unrelated.read.get(), second_number), second_number);
    for (const int number : {first_number, second_number})
      ASSERT_TRUE(loop->add(number, EPOLLIN, [](std::uint32_t) { FAIL() << "not ready"; }));
    silent_writers.push_back(std::move(unrelated.write));
  };
  ASSERT_TRUE(loop->add(one.read.get(), EPOLLIN, replace));
  ASSERT_TRUE(loop->add(two.read.get(), EPOLLIN, replace));
  EXPECT_TRUE(loop->run_once(in(5s)));
  EXPECT_EQ(calls, 1);
}

}  // namespace
