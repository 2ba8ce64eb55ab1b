// A TCP store whose network is gone, for a while or for good.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "served.hpp"
#include "support/cut_connections.hpp"
#include "support/sleeper.hpp"
#include "unit/group/error_text.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using namespace tutti::store;

namespace os = tutti::os;

namespace {

using tutti::test::Sleeper;

constexpr double kNamed = 4000;  // milliseconds: the least time of keep-alive, and a second

std::unique_ptr<TcpServer> serve_with(std::chrono::milliseconds limit) {
  return serve({.address = loopback(), .link_timeout = limit});
}

std::shared_ptr<tutti::TcpStore> join_with(const TcpServer& server, std::chrono::milliseconds limit,
                                           std::chrono::milliseconds timeout = 20s) {
  return join_tcp_store(
             {.port = server.address().port(), .timeout = timeout, .link_timeout = limit},
             {{}, std::string(kGivenSecret)})
      .store;
}

/// A user, and both ends of its connection.
struct User {
  User(const TcpServer& server, std::chrono::milliseconds limit) {
    const std::set<int> before = tutti::test::connections();
    store = join_with(server, limit);
    std::ranges::set_difference(tutti::test::connections(), before,
                                std::inserter(ends, ends.end()));
    EXPECT_EQ(ends.size(), 2U);
  }
  std::shared_ptr<tutti::TcpStore> store;
  std::set<int> ends;
};

/// Bad news that comes in time after the cut.
void expect_told(const std::function<std::string()>& wait, const User& user) {
  const Sleeper sleeper;
  const long long start = Sleeper::now_ns();
  ASSERT_EQ(tutti::test::cut(user.ends), 2);
  EXPECT_NO_THROW(EXPECT_THAT(wait(), HasSubstr("lost")));
  const long long end = Sleeper::now_ns();
  const double took = static_cast<double>(end - start) / 1e6;
  EXPECT_LE(took, sleeper.bound_ms(kNamed, start, end));
  EXPECT_GT(took, 500) << "too quick to judge";
}

/// What a user's wait for a key that nobody sets ends with.
std::string vain_wait(const User& user) {
  return tutti::test::text_of<tutti::StoreError>([&] { (void)user.store->get("key"); });
}

TEST(TcpStoreGap, ClientIsToldOfACutWhileItsRequestIsOnTheWay) {
  auto server = serve_with(60s);
  const User user(*server, 1s);
  expect_told([&] { return vain_wait(user); }, user);
}

TEST(TcpStoreGap, ClientIsToldOfACutWhileItWaits) {
  auto server = serve_with(60s);
  const User user(*server, 1s);
  auto answer = std::async(std::launch::async, [&] { return vain_wait(user); });
  ASSERT_EQ(answer.wait_for(200ms), std::future_status::timeout);
  expect_told([&] { return answer.get(); }, user);
}

TEST(TcpStoreGap, ServerIsToldOfAnIdleUserThatIsCutOff) {
  auto server = serve_with(1s);
  const auto witness = join_with(*server, 60s);
  const User user(*server, 60s);
  user.store->set_will("end", "lost");
  expect_told([&] { return witness->get("end"); }, user);
}

TEST(TcpStoreGap, ServerIsToldOfACutWhileItsAnswerIsOnTheWay) {
  auto server = serve_with(1s);
  const auto witness = join_with(*server, 60s);
  User user(*server, 60s);
  user.store->set_will("end", "lost");
  std::thread waiting([&] { EXPECT_THROW(user.store->get("key"), tutti::Error); });
  std::this_thread::sleep_for(100ms);
  // The answer is sent into the cut.
  expect_told(
      [&] {
        witness->set("key", "value");
        return witness->get("end");
      },
      user);
  server.reset();
  tutti::test::mend(user.ends);
  ::shutdown(*user.ends.begin(), SHUT_RDWR);
  waiting.join();
}

TEST(TcpStoreGap, ShorterGapsLoseNothing) {
  auto server = serve_with(15s);
  const User user(*server, 15s);
  user.store->set("key", "value");
  for (const auto gap : {700ms, 1500ms}) {
    ASSERT_EQ(tutti::test::cut(user.ends), 2);
    auto answer = std::async(std::launch::async, [&] { return user.store->get("key"); });
    EXPECT_EQ(answer.wait_for(gap), std::future_status::timeout);
    tutti::test::mend(user.ends);
    EXPECT_EQ(answer.get(), "value");
  }
}

/// The limit of a link is longer than the gap. Nobody waits for the answers that come after it.
TEST(TcpStoreGap, CallsThatEndInAGapLeaveTheStoreUsable) {
  auto server = serve_with(15s);
  const User user(*server, 15s);
  ASSERT_EQ(tutti::test::cut(user.ends), 2);
  const std::string told =
      tutti::test::text_of<tutti::TimeoutError>([&] { (void)user.store->get("key", 100ms); });
  EXPECT_THAT(told,
              AllOf(HasSubstr("store get(\"key\"): the store at 127.0.0.1:"),
                    HasSubstr(" has not answered in time; is the process that serves it (rank "
                              "0, or tuttirun) stopped, or the network cut?")));
  EXPECT_THROW(user.store->add("counter", 1, 100ms), tutti::TimeoutError);
  // It waits for its answer, which may have a value that nobody else gets.
  auto popped =
      std::async(std::launch::async, [&] { return user.store->queue_pop("queue", 100ms); });
  EXPECT_EQ(popped.wait_for(2500ms), std::future_status::timeout);
  tutti::test::mend(user.ends);
  EXPECT_THROW(popped.get(), tutti::TimeoutError);
  EXPECT_EQ(user.store->add("counter", 1), 2);
}

TEST(TcpStoreGap, NameThatBecomesKnownLateIsAskedForAgainEachTime) {
  auto server = serve();
  std::atomic<int> asked{0};
  const os::Lookup lookup = [&](const std::string&,
                                std::uint16_t port) -> tutti::Result<std::vector<os::Address>> {
    const int times = ++asked;
    if (times < 3) return tutti::Outcome(tutti::Errc::invalid_argument, "not known");
    // Nobody listens there; then the host has another address.
    const char* const host = times < 6 ? "127.0.0.9" : "127.0.0.1";
    return std::vector<os::Address>{os::Address::parse(host, port).value()};
  };
  const std::uint16_t port = server->address().port();
  auto client =
      TcpClient::connect({"late.example", port, 15s, lookup}, store_party(), Clock::now() + 30s);
  EXPECT_TRUE(client) << client.status().message();
  EXPECT_EQ(asked, 6);
}

}  // namespace
