// How a TCP store is left: shutdowns, wills, and who may go first.

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <span>
#include <thread>

#include "served.hpp"
#include "support/sanitized.hpp"
#include "support/sleeper.hpp"

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::ElementsAre;
using testing::Optional;
using tutti::Errc;
using tutti::TcpStore;
using namespace tutti::store;

namespace os = tutti::os;

namespace {

Response ask(TcpClient& client, Op op, std::vector<std::string> keys,
             std::vector<std::string> values = {}) {
  return client.call(request(op, std::move(keys), std::move(values), 0), Clock::now() + 5s);
}

/// Looks again and again, as who must not wait would now and then.
Response answer_of(TcpClient& client, std::uint64_t id) {
  const auto deadline = Clock::now() + 5s;
  std::optional<Response> answer;
  while (!answer && Clock::now() < deadline) answer = client.answer_to(id);
  return answer.value();
}

using TcpStoreWill = Served;

TEST_F(ServedTcpClient, TellsTheAnswerToWhoDoesNotWait) {
  auto client = abrupt(port());
  const auto id = client->post(get("key", 60'000));
  const auto other = client->post(get("nothing", 1));
  ASSERT_TRUE(id && other);
  EXPECT_FALSE(client->answer_to(*id));
  EXPECT_EQ(answer_of(*client, *other).code, Errc::timeout);
  store->set("key", "value");
  EXPECT_EQ(ask(*client, Op::check, {"key"}).number, 1) << "others wait as usual";
  const Response answer = answer_of(*client, *id);
  EXPECT_EQ(answer.code, Errc::ok);
  EXPECT_THAT(answer.values, testing::ElementsAre("value"));
  EXPECT_FALSE(client->answer_to(*id)) << "once";
  client->forget(*client->post(get("key", 1)));
  EXPECT_EQ(ask(*client, Op::check, {"key"}).number, 1);
}

TEST_F(ServedTcpClient, KnowsAServerThatEndsInPeace) {
  auto waiting = abrupt(port());
  auto late = abrupt(port());
  const auto id = waiting->post(get("key", 60'000));
  ASSERT_TRUE(id);
  EXPECT_EQ(ask(*late, Op::check, {"key"}).number, 0);
  server->close(0ms);
  EXPECT_EQ(answer_of(*waiting, *id).code, Errc::store);
  EXPECT_TRUE(waiting->broken());
  EXPECT_TRUE(waiting->server_left());
  // A client that asks only now.
  const auto deadline = Clock::now() + 5s;
  while (late->post(get("key", 1)) && Clock::now() < deadline) {
  }
  EXPECT_TRUE(late->broken());
  EXPECT_TRUE(late->server_left());
}

TEST(TcpClient, HearsTheFarewellOfAServerThatEndsWhileItIsSpokenTo) {
  // The unread part of a long request turns its end into a reset.
  const std::string value(std::size_t{32} << 20, 'v');
  for (int round = 0; round < 3; ++round) {
    auto server = serve();
    auto client = abrupt(server->address().port());
    EXPECT_EQ(ask(*client, Op::check, {"key"}).number, 0);
    std::thread speaking([&] {
      while (ask(*client, Op::set, {"key"}, {value}).code == Errc::ok) {
      }
    });
    std::this_thread::sleep_for(20ms);  // in the middle of one, or between two
    server->close(0ms);
    speaking.join();
    EXPECT_TRUE(client->broken());
    EXPECT_TRUE(client->server_left());
  }
}

// Of a connection whose one end does not read, and has not read much before.
constexpr std::size_t kMoreThanKernelsHold = std::size_t{16} << 20;

/// The frames that an ended server has sent to this user, by their ids. Nothing if the end is a
/// reset.
std::optional<std::vector<std::uint64_t>> last_words(const os::Fd& fd) {
  const auto deadline = Clock::now() + 20s;
  std::vector<std::byte> bytes;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  while (true) {
    auto got = os::receive_some(fd.get(), buffer);
    if (!got) return std::nullopt;
    if (!got->has_value()) break;
    bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(**got));
    if (**got > 0) continue;
    auto ready = os::wait_ready(fd.get(), POLLIN, deadline);
    if (!ready || !*ready) return std::nullopt;
  }
  std::vector<std::uint64_t> ids;
  std::span<const std::byte> rest(bytes);
  while (rest.size() >= kHeaderBytes) {
    auto header = parse_header(rest.first<kHeaderBytes>(), Limits());
    if (!header || rest.size() < kHeaderBytes + header->body_bytes) return std::nullopt;
    ids.push_back(header->id);
    rest = rest.subspan(kHeaderBytes + header->body_bytes);
  }
  return ids;
}

/// Sends until the other side takes no more for a while.
void fill(const os::Fd& fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto sent = os::send_some(fd.get(), bytes);
    ASSERT_TRUE(sent) << sent.status().message();
    bytes = bytes.subspan(*sent);
    if (*sent > 0) continue;
    auto ready = os::wait_ready(fd.get(), POLLOUT, Clock::now() + 50ms);
    if (!ready || !*ready) return;
  }
}

TEST_F(ServedTcpServer, AnnouncesItsShutdownBehindUnreadAnswers) {
  // The answers fill the buffers of the kernels, so the shutdown cannot be announced at once; and
  // what the user asks for meanwhile is unread when the server ends.
  server = serve({.address = loopback(), .shutdown_timeout = 60s});
  store = join(port());
  store->set("key", std::string(kMoreThanKernelsHold, 'v'));
  const os::Fd fd = dial_and_prove(*server);
  for (std::uint64_t id : {7, 8}) fill(fd, encode_request(get("key", 60'000), id));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(store->num_keys(), 1) << "both are answered by now";
  const Request set = request(Op::set, {"other"}, {std::string(kMoreThanKernelsHold, 'w')}, 0);
  fill(fd, encode_request(set, 9));
  const std::jthread ending([&] { server->close(0ms); });
  // Nothing is missing, and the announcement is last. There is no room for request 9: if the
  // server had begun to read it, it is answered with an error.
  EXPECT_THAT(last_words(fd), Optional(AnyOf(ElementsAre(7, 8, kGracefulShutdownId),
                                             ElementsAre(7, 8, 9, kGracefulShutdownId))));
}

TEST_F(ServedTcpServer, DoesNotWaitForWhoNeverReadsItsFarewell) {
  store->set("key", std::string(kMoreThanKernelsHold, 'v'));
  const os::Fd fd = dial_and_prove(*server);
  fill(fd, encode_request(get("key", 60'000), 7));
  const os::Fd idle = dial_and_prove(*server);
  EXPECT_EQ(store->num_keys(), 1) << "both are known by now";
  const tutti::test::Sleeper sleeper;
  const long long start = sleeper.now_ns();
  server->close(0ms);
  const long long end = sleeper.now_ns();
  EXPECT_LT(static_cast<double>(end - start) / 1e6, sleeper.bound_ms(1000, start, end));
  EXPECT_THAT(last_words(idle), Optional(ElementsAre(kGracefulShutdownId))) << "else cut off";
}

TEST(TcpClient, HearsAFarewellBehindMuchThatItHasNotRead) {
  const std::string value(std::size_t{tutti::test::kSanitized ? 8 : 16} << 20, 'v');
  // Whether a kernel comes to take so much at once depends on how its user has read before: so
  // each round asks for less.
  std::size_t some = 1'500'000;
  bool taken = false;
  for (int round = 0; round < 12 && !taken; ++round, some -= some / 4) {
    auto server = serve();
    auto client = abrupt(server->address().port());
    EXPECT_EQ(ask(*client, Op::set, {"much"}, {value}).code, Errc::ok);
    EXPECT_EQ(ask(*client, Op::set, {"some"}, {value.substr(0, some)}).code, Errc::ok);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ask(*client, Op::get, {"much"}).code, Errc::ok);
    ASSERT_TRUE(client->post(get("some", 60'000)));
    const auto start = Clock::now();
    server->close(0ms);
    taken = Clock::now() - start < TcpServerOptions().shutdown_timeout;
    EXPECT_EQ(ask(*client, Op::set, {"much"}, {value}).code, Errc::store);
    EXPECT_TRUE(!taken || client->server_left());
  }
  EXPECT_TRUE(taken) << "was not tried";
}

TEST_F(ServedTcpClient, DoesNotTakeALostConnectionForAFarewell) {
  auto client = abrupt(port());
  EXPECT_EQ(ask(*client, Op::check, {"key"}).number, 0);
  client->leave(Clock::now() + 5s);
  EXPECT_EQ(ask(*client, Op::check, {"key"}).code, Errc::store) << "it has hung up";
  EXPECT_TRUE(client->broken());
  EXPECT_FALSE(client->server_left());
}

TEST_F(TcpStoreWill, IsCarriedOutAtOnceWhenAUserIsLost) {
  auto victim = abrupt(port());
  for (const auto& [key, value] :
       {std::pair("lost", "first"), {"lost", "rank 3"}, {"also", "this"}})
    EXPECT_EQ(ask(*victim, Op::set_will, {key}, {value}).code, Errc::ok);
  EXPECT_FALSE(store->check("lost"));
  const auto start = Clock::now();
  const std::jthread waiter([&] {
    EXPECT_EQ(store->get("lost", 10s), "rank 3") << "the later replaces the earlier";
    EXPECT_EQ(store->get("also", 10s), "this");
    EXPECT_LT(Clock::now() - start, 5s) << "long before any timeout";
  });
  victim.reset();
}

TEST_F(TcpStoreWill, MayComeWithTheProof) {
  const Request enroll = request(Op::enroll, {"joined", "gen/", "/lost"}, {"gone"}, 0);
  for (int round = 1; round <= 3; ++round) {
    auto victim = abrupt(port(), &enroll);
    EXPECT_EQ(victim->first_answer(Clock::now() + 5s).number, round);
    EXPECT_EQ(ask(*victim, Op::check, {"joined"}).number, 1) << "and goes on as usual";
    victim.reset();
    EXPECT_EQ(store->get("gen/" + std::to_string(round) + "/lost", 10s), "gone");
  }
  // Killed before it has read a word of the answer.
  auto [fd, handshake] = dial_unproven(*server);
  std::vector<std::byte> bytes(handshake.outgoing().begin(), handshake.outgoing().end());
  const auto frame = encode_request(enroll, 1);
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  ASSERT_TRUE(os::send_all(fd.get(), bytes, Clock::now() + 5s));
  fd.reset();
  EXPECT_EQ(store->get("gen/4/lost", 10s), "gone");
}

TEST_F(TcpStoreWill, NeverReplacesWhatIsThere) {
  auto victim = abrupt(port());
  for (const char* const key : {"table", "empty", "end"})
    ask(*victim, Op::set_will, {key}, {"lost"});
  store->multi_set(std::vector<tutti::Store::KeyValue>{{"table", "all came"}, {"empty", ""}});
  victim.reset();
  EXPECT_EQ(store->get("end", 10s), "lost");
  EXPECT_EQ(store->get("table"), "all came");
  EXPECT_EQ(store->get("empty"), "");
}

TEST_F(TcpStoreWill, AGoodByeOrTakingItBackDropsIt) {
  {
    auto part = tutti::make_prefix_store("part", join(port()));
    EXPECT_TRUE(part->set_will("of a store that is let go", "x"));
  }
  auto victim = abrupt(port());
  ask(*victim, Op::set_will, {"dropped"}, {"x"});
  ask(*victim, Op::set_will, {"end"}, {"seen"});
  EXPECT_EQ(ask(*victim, Op::drop_will, {"dropped"}).code, Errc::ok);
  EXPECT_EQ(ask(*victim, Op::drop_will, {"never left"}).code, Errc::ok);
  victim.reset();
  store->wait("end", 10s);
  EXPECT_THAT(store->list_keys(), testing::ElementsAre("end"));
}

TEST_F(TcpStoreWill, WhoBreaksARuleHasItCarriedOutToo) {
  os::Fd fd = dial_and_prove(*server);
  post(fd, request(Op::set_will, {"lost"}, {"it babbles"}, 0));
  std::array<std::byte, 64> garbage{};
  std::fill_n(garbage.begin(), 4, std::byte{0xff});
  ASSERT_TRUE(os::send_all(fd.get(), garbage, Clock::now() + 5s));
  EXPECT_EQ(store->get("lost", 10s), "it babbles");
}

TEST_F(TcpStoreWill, HasLimits) {
  EXPECT_THROW(store->set_will("long", std::string(TcpStore::kMaxWillBytes + 1, 'x')),
               tutti::InvalidArgument);
  for (std::size_t i = 0; i < TcpStore::kMaxWills; ++i)
    EXPECT_TRUE(store->set_will("will " + std::to_string(i), "x"));
  EXPECT_THROW(store->set_will("one more", "x"), tutti::StoreError);
  EXPECT_TRUE(store->set_will("will 3", "another")) << "takes no place of its own";
  EXPECT_THROW(store->set_will("", "x"), tutti::InvalidArgument);
  EXPECT_FALSE(tutti::make_hash_store()->set_will("k", "v")) << "threads end together";
}

TEST(TcpStore, TheServersOwnerMayLeaveFirst) {
  auto owner = tutti::make_tcp_store({.serve = true, .users = 3, .linger = 20s, .timeout = 10s});
  const std::uint16_t port = owner->port();
  owner->set("table", "for all");
  auto early = join_own(port);
  std::thread leaving([&] { owner.reset(); });
  // One is connected and busy, one has not even come: both are still served.
  for (int i = 0; i < 100; ++i) early->add("busy", 1);
  auto late = join_own(port);
  EXPECT_EQ(late->get("table"), "for all");
  EXPECT_EQ(early->get("busy"), "100");
  const auto start = Clock::now();
  early.reset();
  late.reset();
  leaving.join();
  EXPECT_LT(Clock::now() - start, 10s) << "ends with the last user, not with the time";
}

TEST(TcpStore, TheServersOwnerDoesNotWaitForWhoIsTooLate) {
  const auto start = Clock::now();
  auto owner = tutti::make_tcp_store(
      {.serve = true, .users = 3, .linger = 20s, .come_within = 300ms, .timeout = 10s});
  const std::uint16_t port = owner->port();
  auto user = join_own(port);
  std::thread leaving([&] { owner.reset(); });
  while (Clock::now() < start + 400ms) user->add("still served", 1);
  user.reset();
  leaving.join();
  EXPECT_GE(Clock::now() - start, 300ms) << "those who have come are still waited for";
  EXPECT_LT(Clock::now() - start, 10s);
  const auto alone = Clock::now();
  tutti::make_tcp_store({.serve = true, .users = 2, .linger = 20s, .come_within = 300ms}).reset();
  EXPECT_GE(Clock::now() - alone, 300ms) << "who may still come is waited for";
  EXPECT_LT(Clock::now() - alone, 10s);
  EXPECT_THROW(tutti::make_tcp_store({.serve = true, .come_within = -1ms}), tutti::InvalidArgument);
}

TEST(TcpStore, TheServersOwnerWaitsOnlySoLong) {
  auto owner = tutti::make_tcp_store({.serve = true, .users = 2, .linger = 100ms, .timeout = 10s});
  auto user = join_own(owner->port());
  const auto start = Clock::now();
  owner.reset();
  const auto took = Clock::now() - start;
  EXPECT_GE(took, 100ms);
  EXPECT_LT(took, 5s);
  EXPECT_THROW(user->set("a", "b"), tutti::StoreError);
}

TEST_F(TcpStoreWill, FindsRoomInAFullStore) {
  server = serve({.address = loopback(), .limits = {.total_bytes = 20'000}});
  store = join(port());
  os::Fd user = dial_and_prove(*server);
  post(user, request(Op::set_will, {"lost"}, {"rank 1 was lost"}, 0));
  EXPECT_EQ(next_answer(user).code, Errc::ok);
  EXPECT_THROW(
      {
        for (int i = 0; i < 20'000; ++i) store->set("key " + std::to_string(i), "");
      },
      tutti::StoreError);
  user.reset();
  const auto end = Clock::now() + 10s;
  while (!store->check({"lost"}) && Clock::now() < end) continue;
  EXPECT_TRUE(store->check({"lost"}));
}

}  // namespace
