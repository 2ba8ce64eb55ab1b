// Only ranks of the job may talk to us; nobody else can do anything to us.

#include <poll.h>
#include <sys/resource.h>

#include <random>

#include "contract/transport/raw_client.hpp"
#include "contract/transport/tcp_fixture.hpp"
#include "support/logged_lines.hpp"

namespace tutti::transport::test {
namespace {

using tutti::test::LoggedLines;

std::vector<std::byte> random_bytes_of(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

/// One connection of each kind that proves no rank.
void send_invalid(const std::string& address, std::mt19937_64& random,
                  std::vector<RawClient>& clients) {
  clients.emplace_back(address).say(random_bytes_of(random, 1 + random() % 5000));
  clients.emplace_back(address).say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  clients.emplace_back(address);  // says nothing
  clients.emplace_back(address).hang_up();
  const std::vector<std::byte> hello = hello_to(address);
  clients.emplace_back(address).say(std::span(hello).first(1 + random() % 63));  // half a hello
  auto& liar = clients.emplace_back(address);  // the right hello, then no proof
  liar.say(hello);
  liar.say(random_bytes_of(random, 200));
  auto& proofless = clients.emplace_back(address);  // a proof of the right form
  proofless.say(hello);
  std::vector<std::byte> proof = random_bytes_of(random, secure::kProofBytes);
  std::memcpy(proof.data(), "tuttitr\x03", 8);
  proofless.say(proof);
  FrameHeader huge = head_of(1, 8);
  huge.payload_bytes = 0xffffffff;
  auto& early = clients.emplace_back(address);  // frames without a handshake
  early.say({reinterpret_cast<const std::byte*>(&huge), sizeof huge});
  auto& impatient = clients.emplace_back(address);  // frames behind half a handshake
  impatient.say(hello);
  impatient.say({reinterpret_cast<const std::byte*>(&huge), sizeof huge});
  clients.emplace_back(address).say(hello_to(address, 2, 0x9999));  // another job
}

TEST(TcpPending, DisturbNobody) {
  LoggedLines remarks;
  const auto start = std::chrono::steady_clock::now();
  TcpRanks ranks(2);
  std::mt19937_64 random(20240607);
  std::vector<RawClient> clients;
  constexpr int kRounds = 20;
  std::array both{Stream{0, 1, {}}, Stream{1, 0, {}}};
  for (std::size_t i = 0; i < 40; ++i) {
    both[0].sizes.push_back((i * 4099) % kMaxFramePayload);
    both[1].sizes.push_back((i * 8191) % kMaxFramePayload);
  }
  int round = 0;
  ASSERT_TRUE(ranks.until([&] {
    if (round < kRounds) {
      send_invalid(ranks.tcp(0).address(), random, clients);
      send_invalid(ranks.tcp(1).address(), random, clients);
      ++round;
    }
    return go_on(ranks, both) && round == kRounds;
  }));
  for (const Stream& stream : both) stream.check(ranks);
  // The silent ones go when their time is over; all others before.
  ASSERT_TRUE(ranks.until([&] {
    const auto& a = ranks.tcp(0).counters();
    const auto& b = ranks.tcp(1).counters();
    // One connection of all was the pair's own (or two, if both dialled).
    return a.dropped >= kRounds * 10 && b.dropped >= kRounds * 10;
  }));
  EXPECT_FALSE(ranks.sink(0).lost(1));
  EXPECT_FALSE(ranks.sink(1).lost(0));
  const auto lines = remarks.lines();
  ASSERT_FALSE(lines.empty());
  // 440 connections of two ranks.
  constexpr std::size_t kKinds = 7;
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(lines.size(), 2 * kKinds * static_cast<std::size_t>(seconds))
      << "one line a second for each kind of remark";
  EXPECT_NE(lines[0].find("dropped a connection from 127.0.0.1:"), std::string::npos) << lines[0];
}

/// A rank with so much patience that no deadline decides a test.
TcpOptions patient(int rank, int size) {
  TcpOptions options = plain_options(rank, size);
  options.handshake_timeout = std::chrono::minutes(10);
  options.timeout_when_full = std::chrono::minutes(10);
  options.link_timeout = std::chrono::minutes(10);
  return options;
}

// As a rank does whose dial has met ours on the way.
TEST(TcpPending, OneThatHangsUpBeforeItsHelloIsNoWarning) {
  LoggedLines remarks(LogLevel::info);
  LoneRank rank(patient(0, 2));
  ASSERT_TRUE(rank.until([&] {  // a line a second of each kind
    RawClient(rank.transport->address()).hang_up();
    return !remarks.lines().empty();
  }));
  EXPECT_NE(remarks.lines()[0].find("before both sides were proven"), std::string::npos)
      << remarks.lines()[0];
  EXPECT_LT(remarks.worst(), LogLevel::warning);
}

TEST(TcpPending, KeepTheirPlacesAndTheRestWaits) {
  constexpr std::size_t kPlaces = 256 + 2;  // and two ranks
  LoneRank rank(patient(0, 2));
  std::vector<RawClient> clients;
  clients.reserve(kPlaces + 40);
  for (std::size_t i = 0; i < kPlaces + 40; ++i)
    clients.emplace_back(rank.transport->address()).say("tutti");
  ASSERT_TRUE(rank.until([&] { return rank.transport->counters().rests == 1; }));
  for (int i = 0; i < 1000; ++i) rank.transport->poll();
  EXPECT_EQ(rank.transport->counters().accepted, kPlaces) << "what waits holds nothing of ours";
  EXPECT_EQ(rank.transport->counters().dropped, 0U) << "none has to go for another";
  LoneRank other(patient(1, 2));
  ASSERT_TRUE(other.transport->set_addresses({rank.transport->address(), ""}).ok());
  other.transport->send(0, head_of(1, 0), nullptr, 1);
  // As soon as places are free the rest comes in, and the right one behind it.
  for (std::size_t i = 0; i < 60; ++i) clients[i].hang_up();
  ASSERT_TRUE(rank.until([&] {
    other.transport->poll();
    return rank.sink.received(1) == 1;
  }));
  EXPECT_EQ(rank.transport->counters().dropped, 60U);
  EXPECT_EQ(other.transport->counters().redials, 0U);
}

TEST(TcpPending, MakeRoomWithoutAProofWhereAllPlacesAreTaken) {
  constexpr std::size_t kPlaces = 256 + 2;  // and two ranks
  constexpr std::size_t kPending = 3 * kPlaces;
  TcpOptions options = patient(0, 2);
  options.timeout_when_full = std::chrono::milliseconds(20);
  LoneRank rank(options);
  const std::vector<std::byte> hello = hello_to(rank.transport->address());
  std::vector<RawClient> clients;
  clients.reserve(kPending);
  for (std::size_t i = 0; i < kPending; ++i) {
    clients.emplace_back(rank.transport->address());
    // Nothing, a part of a hello, or one that its sender has heard.
    if (i % 3 > 0) clients.back().say(std::span(hello).first(i % 3 == 1 ? 63 : hello.size()));
  }
  LoneRank other(patient(1, 2));
  ASSERT_TRUE(other.transport->set_addresses({rank.transport->address(), ""}).ok());
  other.transport->send(0, head_of(1, 0), nullptr, 1);
  ASSERT_TRUE(rank.until([&] {
    other.transport->poll();
    return rank.sink.received(1) == 1;
  })) << "a rank behind them waits for as long as a handshake may take";
  EXPECT_FALSE(other.sink.lost(0));
  const std::uint64_t dropped = rank.transport->counters().dropped;
  EXPECT_GE(dropped, kPending - kPlaces);
  // Places are free now, so the rest may take its time.
  for (int i = 0; i < 1000; ++i) rank.transport->poll();
  std::this_thread::sleep_until(std::chrono::steady_clock::now() + 3 * options.timeout_when_full);
  for (int i = 0; i < 1000; ++i) rank.transport->poll();
  EXPECT_EQ(rank.transport->counters().dropped, dropped);
}

/// So many as the descriptors of this process allow, each with five of them; at most 999.
int dialers_at_once() {
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t most = limit.rlim_cur / 5;
  return most > 1100 ? 999 : static_cast<int>(most) - 100;
}

TEST(TcpPending, HonestOnesAllConnectThoughTheyAnswerLate) {
  const int dialers = dialers_at_once();
  ASSERT_GT(dialers, 80) << "as many as places that evicted each other";
  LoneRank rank(patient(0, dialers + 1));
  Diallers others(rank.transport->address(), dialers, patient);
  // Late: whatever has come is taken before any of them goes on.
  for (int round = 0; round < 100 && !others.connected(); ++round) {
    others.poll();
    for (int i = 0; i < 1000; ++i) rank.transport->poll();
  }
  EXPECT_TRUE(others.connected());
  EXPECT_EQ(rank.transport->counters().dropped, 0U);
  for (const auto& other : others.all) EXPECT_LE(other->counters().redials, 2U);
}

TEST(TcpPending, AreDroppedWhenTheyDoNotProveThemselvesInTime) {
  TcpOptions options = plain_options(0, 2);
  options.handshake_timeout = std::chrono::milliseconds(150);
  LoneRank rank(options);
  RawClient silent(rank.transport->address());
  RawClient slow(rank.transport->address());
  const std::vector<std::byte> hello = hello_to(rank.transport->address());
  slow.say(std::span(hello).first(40));
  const auto start = std::chrono::steady_clock::now();
  while (!(silent.closed() && slow.closed())) {
    ASSERT_LT(std::chrono::steady_clock::now() - start, kPatience);
    // Asleep, as the progress thread: the deadline must wake it.
    ASSERT_TRUE(os::wait_ready(rank.transport->wait_fd(), POLLIN, start + kPatience).ok());
    rank.transport->poll();
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(140));
  EXPECT_EQ(rank.transport->counters().dropped, 2U);
}

TEST(TcpPending, AreToldWhyTheyAreRefused) {
  struct Case {
    const char* name;
    void (*change)(TcpOptions& mine, TcpOptions& theirs);
    const char* text;  ///< empty: not refused
  };
  const std::vector<Case> cases = {
      {"nothing", [](TcpOptions&, TcpOptions&) {}, ""},
      {"both without a secret",
       [](TcpOptions& a, TcpOptions& b) { a.identity.secret = {}, b.identity.secret = {}; }, ""},
      {"secret",
       [](TcpOptions& a, TcpOptions&) {
         a.identity.secret = std::vector<std::byte>(32, std::byte{1});
       },
       "another secret"},
      {"none here", [](TcpOptions& a, TcpOptions&) { a.identity.secret = {}; },
       "asks for the job's secret"},
      {"none there", [](TcpOptions&, TcpOptions& b) { b.identity.secret = {}; }, "has no secret"},
      {"job", [](TcpOptions& a, TcpOptions&) { ++a.identity.job; }, "another job"},
      {"generation", [](TcpOptions& a, TcpOptions&) { ++a.identity.generation; }, "another start"},
      {"rank", [](TcpOptions&, TcpOptions& b) { b.identity.rank = 2; },
       "another rank listens there"},
      {"size", [](TcpOptions& a, TcpOptions&) { a.identity.rank = 3, a.identity.size = 4; },
       "world size"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TcpOptions mine = plain_options(1, 3);
    TcpOptions theirs = plain_options(0, 3);
    c.change(mine, theirs);
    const Outcome why = dial(mine, theirs);
    if (*c.text == 0) {
      EXPECT_TRUE(why.ok()) << why.message();
      continue;
    }
    expect_error(why, Errc::refused, c.text);
    const std::string dialler = "rank " + std::to_string(mine.identity.rank) + " (127.0.0.1:";
    expect_error(why, Errc::refused, dialler);
    expect_error(why, Errc::refused, "rank 0 (127.0.0.1:");
  }
}

/// The status that rank 0 gets about rank 1, for which `serve` answers.
Outcome dial_foreign(const std::string& address, std::chrono::milliseconds timeout,
                     const std::function<void()>& serve) {
  TcpOptions options = plain_options(0, 2);
  options.addresses = {"", address};
  options.link_timeout = timeout;
  LoneRank dialler(std::move(options));
  dialler.transport->send(1, head_of(1, 0), nullptr, 1);
  (void)dialler.until([&] {
    serve();
    return dialler.sink.lost(1);
  });
  return dialler.sink.lost(1) ? dialler.sink.peers[1].lost[0] : Outcome();
}

TEST(TcpDialling, NamesAForeignServer) {
  Place server;
  const Outcome why = dial_foreign(server.address(), std::chrono::seconds(5), [&] {
    if (server.take())
      static_cast<void>(
          os::send_some(server.taken.back().get(), std::as_bytes(std::span("HTTP/1.1 400"))));
  });
  expect_error(why, Errc::refused, "does not speak tutti's protocol");
}

TEST(TcpDialling, TriesAgainWhenItIsHungUpOn) {
  // Where this process stands still meanwhile, there is no time for a second one: then longer.
  for (auto time = std::chrono::milliseconds(400); time < kPatience; time *= 4) {
    Place server;
    const Outcome why = dial_foreign(server.address(), time, [&] {
      if (server.take()) server.taken.back().reset();
    });
    expect_error(why, Errc::peer_lost);
    if (server.taken.size() > 1) return;
  }
  ADD_FAILURE() << "it did not try again";
}

TEST(TcpDialling, SaysAtOnceThatNobodyListens) {
  std::string address;
  {
    Place server;
    address = server.address();
  }
  Promised answer(2000);
  const Outcome why = dial_foreign(address, std::chrono::seconds(25), [] {});
  expect_error(why, Errc::peer_lost, "nobody listens");
  answer.expect_kept();
}

/// Rank 1 of two, played by hand: it knows the secret and may say whatever it wants.
struct ProvenClient {
  std::vector<std::byte> secret = secret_of("a secret for tests");
  secure::Handshake handshake;
  RawClient client;

  explicit ProvenClient(TcpTransport& acceptor, std::size_t limit = 1000)
      : handshake(secure::Handshake::dialler({1, 2, 0x1234, 1, secret}, 0, secure::Nonce{},
                                             place_of(acceptor))),
        client(acceptor.address()) {
    (void)until([&] { return client.shake(handshake, limit); }, [&] { acceptor.poll(); });
  }
  void say(const FrameHeader& header, std::span<const std::byte> payload) {
    client.say({reinterpret_cast<const std::byte*>(&header), sizeof header});
    client.say(payload);
  }
};

TEST(TcpProven, MayShakeHandsByteByByte) {
  LoneRank rank;
  ProvenClient peer(*rank.transport, 1);
  ASSERT_EQ(peer.handshake.state(), secure::Handshake::State::accepted);
  EXPECT_TRUE(rank.transport->connected(1));
}

TEST(TcpProven, IsDroppedForAFrameThatIsTooLong) {
  LoneRank rank;
  ProvenClient peer(*rank.transport);
  FrameHeader header = head_of(1, 8);
  header.payload_bytes = kMaxFramePayload + 1;
  peer.say(head_of(7, 3), payload_of(7, 3));
  peer.say(header, {});
  ASSERT_TRUE(rank.until([&] { return rank.sink.lost(1); }));
  EXPECT_EQ(rank.sink.received(1), 1U) << "what came before counts";
  expect_lost(rank.sink, 1, Errc::refused, "announced 131073 bytes");
}

TEST(TcpProven, IsDroppedForAnUnknownFrame) {
  LoneRank rank;
  ProvenClient peer(*rank.transport);
  FrameHeader header = head_of(1, 0);
  header.type = 99;
  peer.say(header, {});
  ASSERT_TRUE(rank.until([&] { return rank.sink.lost(1); }));
  expect_lost(rank.sink, 1, Errc::refused);
}

TEST(TcpProven, IsNotConnectedTwice) {
  LoneRank rank;
  ProvenClient first(*rank.transport);
  ProvenClient second(*rank.transport);
  EXPECT_EQ(second.handshake.state(), secure::Handshake::State::failed);
  EXPECT_EQ(second.handshake.failure().code(), Errc::peer_lost);
  first.say(head_of(7, 3), payload_of(7, 3));
  ASSERT_TRUE(rank.until([&] { return rank.sink.received(1) == 1; }));
  EXPECT_FALSE(rank.sink.lost(1));
}

TEST(TcpProven, WritesNowhereOnceAPayloadIsNotWanted) {
  LoneRank rank;
  ProvenClient peer(*rank.transport);
  const auto payload = payload_of(7, 100'000);
  peer.say(head_of(7, payload.size()), std::span(payload).first(50'000));
  auto& arriving = rank.sink.peers[1].arriving;
  ASSERT_TRUE(rank.until([&] {
    return arriving.size() == payload.size() + 1 && arriving[49'999] == payload[49'999];
  }));
  rank.transport->drop_arriving(1);
  std::vector<std::byte> mine = std::move(arriving);  // its memory stays where it is
  const std::vector<std::byte> before = mine;
  const auto next = payload_of(8, 10);
  peer.client.say(std::span(payload).subspan(50'000));
  peer.say(head_of(8, next.size()), next);
  ASSERT_TRUE(rank.until([&] { return rank.sink.received(1) == 1; }));
  EXPECT_EQ(rank.sink.peers[1].frames[0].payload, next);
  EXPECT_TRUE(mine == before);
}

}  // namespace
}  // namespace tutti::transport::test
