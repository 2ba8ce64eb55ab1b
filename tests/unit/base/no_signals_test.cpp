#include "base/no_signals.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

namespace tutti::base {
namespace {

/// True if this thread blocks the signal.
bool blocks(int signal) {
  sigset_t mask;
  EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  return sigismember(&mask, signal) == 1;
}

TEST(NoSignals, AThreadThatIsStartedMeanwhileBlocksThemForEver) {
  ASSERT_FALSE(blocks(SIGINT));
  bool first = false;
  std::thread thread;
  {
    const NoSignals no_signals;
    EXPECT_TRUE(blocks(SIGINT));
    thread = std::thread([&] { first = blocks(SIGINT) && blocks(SIGTERM) && blocks(SIGUSR1); });
  }
  EXPECT_FALSE(blocks(SIGINT)) << "the caller has its own mask again";
  thread.join();
  EXPECT_TRUE(first);
  std::thread([] { EXPECT_FALSE(blocks(SIGINT)); }).join();
}

}  // namespace
}  // namespace tutti::base
