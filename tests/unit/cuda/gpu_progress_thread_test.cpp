#include "cuda/gpu_progress_thread.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <future>

namespace tutti::cuda {
namespace {

/// Tells once which signals the thread of the passes blocks.
class Asks final : public Progressable {
 public:
  Progress make_progress(std::vector<Due>& /*due*/) override {
    if (!asked_) {
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocks.set_value(sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1);
    }
    asked_ = true;
    return Progress::idle;
  }
  std::promise<bool> blocks;

 private:
  bool asked_ = false;
};

TEST(GpuProgressThread, TheThreadGetsNoSignals) {
  const auto asks = std::make_shared<Asks>();
  std::future<bool> blocks = asks->blocks.get_future();
  GpuProgressThread passes;
  passes.add(asks);
  passes.wake();
  EXPECT_TRUE(blocks.get());
}

}  // namespace
}  // namespace tutti::cuda
