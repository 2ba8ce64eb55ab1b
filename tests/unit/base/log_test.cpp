#include "base/log.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace tutti::base {
namespace {

std::string printed_by(const std::function<void()>& what) {
  testing::internal::CaptureStderr();
  what();
  return testing::internal::GetCapturedStderr();
}

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_sink({}); }
};

TEST_F(Log, WithoutASinkWhatMattersGoesToStandardError) {
  EXPECT_EQ(printed_by([] {
              log(Level::info, "nothing much");
              log(Level::warning, "look here");
              log(Level::error, "and here");
              log(Level::off, "never");
            }),
            "tutti: warning: look here\ntutti: error: and here\n");
  set_log_level(Level::debug);
  EXPECT_EQ(printed_by([] { log(Level::info, "this was asked for"); }),
            "tutti: info: this was asked for\n");
  EXPECT_TRUE(is_logged(Level::debug));
  set_log_level(Level::info);
  EXPECT_FALSE(is_logged(Level::debug));
  EXPECT_TRUE(is_logged(Level::info));
  EXPECT_FALSE(is_logged(Level::off));
}

TEST_F(Log, TheLevelSilencesIt) {
  set_log_level(Level::error);
  EXPECT_EQ(printed_by([] { log(Level::warning, "look here"); }), "");
  set_log_level(Level::off);
  EXPECT_EQ(printed_by([] { log(Level::error, "and here"); }), "");
}

TEST_F(Log, ASinkIsNotCalledAnyMoreWhenAnotherIsSet) {
  std::promise<void> begun;
  std::atomic<bool> ended{false};
  set_log_sink([&](Level, std::string_view) {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so long it is in use
    ended = true;
  });
  const std::jthread tells([] { log(Level::warning, "slow"); });
  begun.get_future().wait();
  set_log_sink([](Level, std::string_view) {});
  EXPECT_TRUE(ended);
}

TEST_F(Log, ASinkGetsItInstead) {
  std::vector<std::string> heard;
  set_log_sink([&](Level, std::string_view text) { heard.emplace_back(text); }, Level::info);
  EXPECT_EQ(printed_by([] {
              log(Level::debug, "nothing");
              log(Level::info, "something");
              log(Level::error, "much");
              log(Level::error, "of\nanother \x1b[2J");
            }),
            "");
  EXPECT_EQ(heard, (std::vector<std::string>{"something", "much", R"(of\x0aanother \x1b[2J)"}));
}

}  // namespace
}  // namespace tutti::base
