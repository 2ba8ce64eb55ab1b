// Promises of the TCP store alone: dead servers, ports, bounds.

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <semaphore>
#include <thread>

#include "base/log.hpp"
#include "served.hpp"
#include "support/sanitized.hpp"
#include "support/sleeper.hpp"
#include "unit/group/error_text.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tutti::Errc;
using tutti::TcpStore;
using tutti::test::text_of;
using namespace tutti::store;

namespace os = tutti::os;

namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator first("/proc/self/fd");
  return std::distance(first, {});
}

TEST(ListeningAddress, IsTheLoopbackWhereThatIsToldLiterally) {
  for (const char* const host : {"127.0.0.1", "127.0.0.2", "127.255.0.9", "::1", "[::1]"})
    EXPECT_EQ(listening_address(host, 29'500), os::Address::parse(host, 29'500).value());
}

TEST(ListeningAddress, IsEveryOneElsewhere) {
  for (const char* const host : {"localhost", "ip6-localhost", "node-7", "10.0.0.1", "fd00::1",
                                 "128.0.0.1", "0.0.0.0", "::", "127.0.0.1.example.com", ""}) {
    const os::Address address = listening_address(host, 29'500);
    EXPECT_TRUE(address.is_unspecified()) << host;
    EXPECT_EQ(address.port(), 29'500) << host;
  }
}

/// Its owner reaches it by loopback, and so do users at any address of this host.
TEST(ListeningAddress, AStoreForOthersIsReachedAtEachAddress) {
  const JobSecret secret{std::vector<std::byte>(32, std::byte{'s'}), "of the test"};
  tutti::TcpStoreOptions options{.host = "no-such-host.invalid",  // nobody asks for it
                                 .serve = true,
                                 .timeout = 10s};
  const JoinedStore owner = join_tcp_store(options, secret, nullptr, Listens::for_others);
  EXPECT_TRUE(owner.client->ends().ours.is_loopback());
  EXPECT_TRUE(owner.client->ends().servers.is_loopback());
  options.serve = false;
  options.port = owner.store->port();
  for (const char* const host : {"127.0.0.2", "localhost"}) {
    options.host = host;
    const JoinedStore user = join_tcp_store(options, secret);
    user.store->set("key", host);
    EXPECT_EQ(owner.store->get("key"), host);
    EXPECT_EQ(user.client->ends().servers.port(), options.port);
    EXPECT_NE(user.client->ends().ours.port(), options.port);
  }
}

TEST(TcpStore, AShortSecretIsRefusedBeforeAnythingIsSent) {
  const std::vector<std::byte> short_one(31);
  for (const tutti::TcpStoreOptions& options :
       {tutti::TcpStoreOptions{.serve = true, .secret = short_one},
        {.port = 1, .secret = short_one}})
    EXPECT_THAT(text_of<tutti::InvalidArgument>([&] { (void)tutti::make_tcp_store(options); }),
                AllOf(HasSubstr("31 bytes"), HasSubstr("32 to 4096")));
}

TEST(TcpStore, ThePortCanBeUsedAgainAtOnce) {
  std::uint16_t port = 0;
  for (int round = 0; round < 5; ++round) {
    auto store = tutti::make_tcp_store({.port = port, .serve = true, .timeout = 5s});
    port = store->port();
    auto user = join_own(port);
    user->set("round", std::to_string(round));
    EXPECT_EQ(store->num_keys(), 1);
  }
}

TEST(TcpStore, OnlyTheAddressThatWasToldIsListenedOn) {
  auto store = tutti::make_tcp_store({.host = "127.0.0.2", .serve = true, .timeout = 5s});
  auto other = os::connect_tcp(loopback(store->port()), Clock::now() + 2s);
  EXPECT_EQ(other.status().code(), Errc::refused);
  EXPECT_TRUE(
      os::connect_tcp(os::Address::parse("127.0.0.2", store->port()).value(), Clock::now() + 2s));
}

TEST(TcpStore, APortInUseIsAnErrorThatNamesIt) {
  auto store = tutti::make_tcp_store({.serve = true, .timeout = 5s});
  EXPECT_THAT(text_of<tutti::StoreError>([&] {
                tutti::make_tcp_store({.port = store->port(), .serve = true, .timeout = 5s});
              }),
              HasSubstr("127.0.0.1:" + std::to_string(store->port())));
}

TEST(TcpStore, AUserMayComeBeforeTheServer) {
  const std::uint16_t port = serve()->address().port();
  const std::jthread user([&] { join(port)->set("early", "bird"); });
  auto server = TcpServer::start({.address = loopback(port)});
  ASSERT_TRUE(server);
  EXPECT_EQ(join(port)->get("early"), "bird");
}

/// Not that a name server was too slow, or the network, for an attempt at the very end.
TEST(TcpClient, TellsThatNobodyListensThoughTheLastAttemptHasNoTime) {
  // The thread that asks for an address may run on.
  const auto asked = std::make_shared<std::atomic<int>>(0);
  const os::Lookup lookup = [asked](const std::string& host, std::uint16_t port) {
    if (++*asked > 1) std::this_thread::sleep_for(300ms);
    return os::Address::resolve(host, port);
  };
  const os::Fd taken = os::reserve_port(0).value();
  const std::uint16_t port = os::local_address(taken.get()).value().port();
  const auto client =
      TcpClient::connect({"localhost", port, 15s, lookup}, store_party(), Clock::now() + 200ms);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.status().code(), tutti::Errc::timeout);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("Connection refused"));
}

TEST_F(ServedTcpStore, ADeadServerIsNamedToAllWhoWait) {
  const std::uint16_t its_port = port();
  tutti::test::in_threads(4, [&](int i) {
    if (i == 0) {  // the last that begins
      join(its_port)->set("x", "y");
      server.reset();
      return;
    }
    const auto start = Clock::now();
    EXPECT_THAT(text_of<tutti::StoreError>([&] { store->get("never"); }),
                AllOf(HasSubstr("127.0.0.1:" + std::to_string(its_port)), HasSubstr("rank 0"),
                      HasSubstr("never")));
    EXPECT_LT(Clock::now() - start, 5s);
  });
  EXPECT_THROW(store->set("a", "b"), tutti::StoreError) << "and later calls at once";
}

/// Shakes hands with one user and then neither reads nor says anything, as a stopped server would.
class SilentServer {
 public:
  [[nodiscard]] std::uint16_t port() const { return os::local_address(listener_.get())->port(); }

 private:
  os::Fd listener_ = os::listen_tcp(loopback()).value();
  os::Fd user_;
  std::jthread thread_{[this] {
    ASSERT_TRUE(os::wait_ready(listener_.get(), POLLIN, Clock::now() + 10s).value());
    user_ = os::accept_connection(listener_.get()).value();
    tutti::secure::Handshake handshake = acceptor(user_);
    ASSERT_TRUE(talk(user_, handshake));
    handshake.conclude(tutti::secure::Refusal::none);
    ASSERT_TRUE(say(user_, handshake));
  }};
};

TEST(TcpStore, AServerThatStopsAnsweringIsATimeBoundError) {
  const SilentServer server;
  auto store = join(server.port());
  const auto start = Clock::now();
  EXPECT_THROW(store->get("k", 200ms), tutti::TimeoutError);
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(TcpStore, AServerThatStandsStillHoldsNoGoodByeUp) {
  const SilentServer server;
  auto store = join(server.port());
  const tutti::test::Sleeper sleeper;
  const long long start = sleeper.now_ns();
  store.reset();
  const long long end = sleeper.now_ns();
  EXPECT_LT(static_cast<double>(end - start) / 1e6, sleeper.bound_ms(1500, start, end))
      << "what others wait for an answer is 2 s and more";
}

TEST(TcpClient, SaysGoodByeWhileAnotherThreadCannotSend) {
  const SilentServer server;
  const auto client = abrupt(server.port());
  std::thread sending([&] {
    const std::string value(std::size_t{32} << 20, 'v');  // more than sockets hold
    const Request set = request(Op::set, {"k"}, {value});
    EXPECT_EQ(client->call(set, Clock::now() + 60s).code, Errc::store);
  });
  while (client->post(get("k", 1)) && !client->broken()) {  // until the other one sends
  }
  const auto start = Clock::now();
  client->leave(start + 250ms);
  sending.join();
  EXPECT_LT(Clock::now() - start, 10s) << "the call itself has a minute";
}

TEST_F(ServedTcpClient, AsksAgainWhereOneRequestCannotTellTheWholeTimeout) {
  const auto client = abrupt(port());
  std::atomic<bool> over{false};
  const std::jthread waiting([&] {
    const Response response = client->call(get("late", 0), Clock::now() + 60s, 1ms);
    EXPECT_EQ(response.code, Errc::ok) << response.text;
    over = true;
  });
  // Some of its requests have timed out when the answer comes.
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(over);
  store->set("late", "v");
}

// The bound holds for all that is kept: what has come of unfinished requests is part of it.
TEST(TcpStore, UnfinishedRequestsCount) {
  constexpr std::size_t kValue = std::size_t{1} << 20;
  auto server = serve({.address = loopback(), .limits = {.total_bytes = 4 * kValue}});
  const auto frame = encode_request(request(Op::set, {"long"}, {std::string(kValue, 'v')}), 7);
  std::vector<os::Fd> users;
  for (int i = 0; i < 12; ++i) {
    users.push_back(dial_and_prove(*server));
    const auto most = std::span(frame).first(kValue);
    EXPECT_TRUE(os::send_all(users.back().get(), most, Clock::now() + 10s));
  }
  auto store = join(server->address().port());
  const auto fits = [&] {
    const std::string large(kValue * 3 / 2, 'l');
    return text_of<tutti::StoreError>([&] { store->set("large", large); }) == "no error";
  };
  const auto comes_true = [](const auto& what) {
    for (int tries = 0; tries < 1000; ++tries)
      if (what()) return true;
    return false;
  };
  // As soon as the server has read what they have sent, and seen that they are gone.
  EXPECT_TRUE(comes_true([&] { return !fits(); })) << "12 MiB have come, 4 MiB is the bound";
  users.clear();
  EXPECT_TRUE(comes_true(fits)) << "what they held is not free again";
  EXPECT_EQ(store->get("large").size(), kValue * 3 / 2);
}

TEST(TcpStore, ARequestWithoutRoomIsAnError) {
  constexpr std::size_t kValue = std::size_t{1} << 20;
  auto server = serve({.address = loopback(), .limits = {.total_bytes = kValue / 2}});
  auto store = join(server->address().port());
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(text_of<tutti::StoreError>([&] { store->set("large", std::string(kValue, 'l')); }),
                HasSubstr("the store is full"));
  store->set("still", "served");
  EXPECT_EQ(store->get("still"), "served");
}

// One answer that many wait for is kept once: so it fits, though a copy for each would not.
TEST(TcpStore, AnAnswerToManyIsKeptOnce) {
  constexpr std::size_t kValue = std::size_t{1} << 20;
  constexpr std::size_t kUsers = 12;
  auto server = serve({.address = loopback(), .limits = {.total_bytes = 4 * kValue}});
  std::vector<os::Fd> users;
  for (std::size_t i = 0; i < kUsers; ++i) {
    users.push_back(dial_and_prove(*server));
    post(users.back(), get("table", 60'000), 5);
    post(users.back(), request(Op::num_keys, {}), 6);
    EXPECT_EQ(next_answer(users.back(), 6).number, 0) << "so the first request waits";
  }
  auto store = join(server->address().port());
  store->set("table", std::string(kValue, 't'));
  store->set("more", std::string(kValue, 'm'));  // while none has read its answer
  for (const os::Fd& user : users)
    EXPECT_EQ(next_answer(user, 5).values, std::vector<std::string>{std::string(kValue, 't')});
}

TEST(TcpStore, AUserWhoReadsLateIsServedLate) {
  auto server = serve({.address = loopback(), .max_unread_bytes = std::size_t{8} << 20});
  auto store = join(server->address().port());
  store->set("big", std::string(std::size_t{1} << 20, 'b'));
  const os::Fd late = dial_and_prove(*server);
  // Far more answers than the kernel and the server keep.
  constexpr std::uint64_t kRequests = tutti::test::kSanitized ? 40 : 200;
  for (std::uint64_t i = 1; i <= kRequests; ++i) post(late, get("big", 0), i);
  EXPECT_EQ(store->get("big").size(), std::size_t{1} << 20) << "nobody else waits for it";
  for (std::uint64_t i = 1; i <= kRequests; ++i)
    ASSERT_EQ(next_answer(late, i).values.size(), 1U) << i;
}

// Keeps the server's thread in its first remark until it is let go.
class Holdup {
 public:
  Holdup() {
    tutti::base::set_log_sink(
        [this](tutti::base::Level, std::string_view) {
          held_.release();
          if (released_.try_acquire_for(10s)) released_.release();  // for further remarks
        },
        tutti::base::Level::info);
  }
  ~Holdup() {
    release();
    tutti::base::set_log_sink({});
  }
  bool wait() { return held_.try_acquire_for(10s); }
  void release() { released_.release(); }

 private:
  std::counting_semaphore<> held_{0};
  std::counting_semaphore<> released_{0};
};

// Sends what makes the server hang up.
void break_a_rule(const os::Fd& fd) {
  std::vector<std::byte> bytes(kHeaderBytes);
  bytes[5] = std::byte{1};  // reserved
  ASSERT_TRUE(os::send_all(fd.get(), bytes, Clock::now() + 5s));
}

// Asks to pop, and returns when the server knows.
void wait_in_queue(const os::Fd& fd, const std::string& queue) {
  post(fd, request(Op::queue_pop, {queue}, {}, 60'000), 1);
  post(fd, request(Op::num_keys, {}), 2);
  (void)next_answer(fd, 2);  // the first waits
}

TEST_F(ServedTcpStore, WhoIsLostInTheSameTurnTakesNothingFromAQueue) {
  os::Fd first = dial_and_prove(*server);
  os::Fd victim = dial_and_prove(*server);
  os::Fd pusher = dial_and_prove(*server);
  wait_in_queue(victim, "q");
  {
    // While the server is held up over the first one, the victim breaks a rule and another pushes:
    // it then finds both at once, in this order.
    Holdup holdup;
    break_a_rule(first);
    ASSERT_TRUE(holdup.wait());
    break_a_rule(victim);
    post(pusher, request(Op::queue_push, {"q"}, {"value"}));
    holdup.release();
    EXPECT_EQ(next_answer(pusher).code, Errc::ok);
    ASSERT_TRUE(hung_up(victim, 5s));
  }
  EXPECT_EQ(store->queue_pop("q", 5s), "value");
}

TEST_F(ServedTcpStore, WhoDiesWaitingTakesNothingFromAQueue) {
  {
    os::Fd victim = dial_and_prove(*server);
    wait_in_queue(victim, "q");
    ::shutdown(victim.get(), SHUT_WR);
    ASSERT_TRUE(hung_up(victim, 5s)) << "the server has noticed";
  }
  store->queue_push("q", "value");
  EXPECT_EQ(store->queue_pop("q", 5s), "value");
}

TEST(TcpStore, NothingIsLeftBehind) {
  const auto once = [] {
    auto owner = tutti::make_tcp_store({.serve = true, .timeout = 5s});
    auto user = join_own(owner->port());
    user->set("a", "b");
    EXPECT_THROW(user->get("c", 1ms), tutti::TimeoutError);
  };
  once();
  const std::ptrdiff_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) once();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ServedTcpStore, ManyUsersAtOnce) {
  tutti::test::in_threads(64, [&](int u) {
    const auto user = join(port());
    user->set("user " + std::to_string(u), "here");
    if (user->add("came", 1) == 64) user->set("all", "came");
    EXPECT_EQ(user->get("all"), "came");
  });
}

TEST(TcpStore, TheLongestTimeThereIsMeansNoEnd) {
  constexpr auto kLongest = std::chrono::milliseconds::max();
  auto server = tutti::make_tcp_store({.serve = true, .linger = kLongest, .timeout = kLongest});
  auto user = tutti::make_tcp_store({.port = server->port(), .timeout = kLongest});
  user->set("k", "v");
  EXPECT_EQ(server->get("k", kLongest), "v");
  const std::jthread last([&] { server.reset(); });
  EXPECT_EQ(user->get("k"), "v") << "it stays for its users";
  user.reset();
}

TEST(TcpStore, SenselessOptionsAreRefused) {
  EXPECT_THROW(tutti::make_tcp_store({.timeout = 1s}), tutti::InvalidArgument);
  EXPECT_THROW(tutti::make_tcp_store({.port = 1, .timeout = -1ms}), tutti::InvalidArgument);
  for (const auto limit : {0ms, -5ms, std::chrono::milliseconds::max()})
    EXPECT_THROW(tutti::make_tcp_store({.port = 1, .timeout = 1ms, .link_timeout = limit}),
                 tutti::InvalidArgument)
        << limit.count();
}

}  // namespace
