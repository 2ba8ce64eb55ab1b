#include "os/resolver.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>
#include <vector>

#include "os/growing_pause.hpp"

using namespace std::chrono_literals;

namespace tutti::os {
namespace {

using Clock = std::chrono::steady_clock;
using Found = Result<std::vector<Address>>;

Found loopback(std::uint16_t port) {
  return std::vector<Address>{Address::parse("127.0.0.1", port).value()};
}

TEST(Resolver, AsksForANameUntilItIsKnownThoughALookupHasNoMemory) {
  std::atomic<int> asked{0};
  const Lookup known_later = [&](const std::string& host, std::uint16_t port) -> Found {
    EXPECT_EQ(host, "later.example");
    if (++asked == 2) throw std::bad_alloc();
    if (asked < 4) return Outcome(Errc::invalid_argument, "not known yet");
    return loopback(port);
  };
  auto found = resolve_until("later.example", 80, Clock::now() + 30s, known_later);
  ASSERT_TRUE(found) << found.status().message();
  EXPECT_EQ(found->front().to_string(), "127.0.0.1:80");
  EXPECT_EQ(asked, 4);
}

TEST(Resolver, TellsTheLastAnswerAtTheDeadline) {
  const auto start = Clock::now();
  auto found = resolve_until("never.example", 80, start + 100ms,
                             [](const std::string&, std::uint16_t) -> Found {
                               return Outcome(Errc::invalid_argument, "the host is not known");
                             });
  EXPECT_EQ(found.status().code(), Errc::timeout);
  EXPECT_EQ(found.status().message(), "the host is not known");
  EXPECT_GE(Clock::now(), start + 100ms);
}

TEST(Resolver, DoesNotWaitForASlowNameServer) {
  const auto open = std::make_shared<std::promise<void>>();
  const std::shared_future<void> opened = open->get_future().share();
  // Not a promise: tsan does not see how the library's own code orders its two sides.
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  auto found = resolve_until("slow.example", 80, Clock::now() + 50ms,
                             [opened, ended](const std::string&, std::uint16_t port) -> Found {
                               opened.wait();
                               Found answer = loopback(port);
                               *ended = true;
                               ended->notify_all();
                               return answer;
                             });
  // It has not answered yet, and cannot before this.
  open->set_value();
  EXPECT_EQ(found.status().code(), Errc::timeout);
  EXPECT_THAT(found.status().message(),
              testing::HasSubstr("the name server has not answered in time"));
  ended->wait(false);
}

TEST(Resolver, AsksNobodyForANumericHost) {
  auto found =
      resolve_until("10.1.2.3", 80, Clock::now(), [](const std::string&, std::uint16_t) -> Found {
        ADD_FAILURE() << "asked";
        return Outcome(Errc::internal, "asked");
      });
  EXPECT_EQ(found.value().front().to_string(), "10.1.2.3:80");
}

TEST(GrowingPause, GrowsToABound) {
  GrowingPause pause;
  EXPECT_LE(pause.next(), 10ms);
  for (int i = 0; i < 10; ++i) (void)pause.next();
  std::vector<std::chrono::milliseconds> late(20);
  for (auto& one : late) one = pause.next();
  EXPECT_THAT(late, testing::Each(testing::AllOf(testing::Ge(150ms), testing::Le(250ms))));
  EXPECT_THAT(late, testing::Not(testing::Each(late.front()))) << "no jitter";
}

}  // namespace
}  // namespace tutti::os
