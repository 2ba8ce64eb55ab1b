// Cut networks, frozen and leaving peers.

#include <poll.h>
#include <signal.h>

#include "base/format.hpp"
#include "contract/transport/tcp_fixture.hpp"
#include "support/cut_connections.hpp"
#include "unit/child.hpp"

namespace tutti::transport::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Encrypted connections end as plain ones do.
class TcpFailure : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Each, TcpFailure, testing::Bool(),
                         [](const auto& one) { return one.param ? "Tls" : "Tcp"; });

/// As a network that is cut; returns how many.
int cut_all_connections() { return tutti::test::cut(tutti::test::connections()); }

/// As a progress thread drives: asleep until there is something to do. False at the deadline.
bool sleep_and_poll(Transport& transport, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  if (left <= 0ms) return false;
  if (transport.poll()) return true;
  pollfd entry{transport.wait_fd(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(left.count())) > 0;
}

void connect(Ranks& ranks) {
  std::array both{Stream{0, 1, {10}}, Stream{1, 0, {10}}};
  ASSERT_TRUE(ranks.until([&] {
    return go_on(ranks, both) && ranks.sink(0).sent(1) == 1 && ranks.sink(1).sent(0) == 1;
  }));
}

TEST_P(TcpFailure, NoticesACutConnectionWithinASecondMoreThanItsLimit) {
  TcpRanks ranks(2, GetParam());
  connect(ranks);
  ASSERT_EQ(cut_all_connections(), 2);
  Promised notice(2000);
  const auto start = Clock::now();
  const std::vector<std::byte> payload(1000);
  ASSERT_NE(ranks.try_send(0, 1, head_of(1, payload.size()), payload.data()), 0U);
  while (!ranks.sink(0).lost(1)) ASSERT_TRUE(sleep_and_poll(ranks.at(0), start + kPatience));
  EXPECT_GT(notice.expect_kept(), 900) << "too quick to judge";
  expect_lost(ranks.sink(0), 1, Errc::peer_lost, "rank 1 (127.0.0.1:");
  expect_lost(ranks.sink(0), 1, Errc::peer_lost,
              "though data are on the way; is the network cut or the host down?");
}

TEST_P(TcpFailure, NoticesACutConnectionInTheMiddleOfAStream) {
  TcpRanks ranks(2, GetParam());
  connect(ranks);
  const std::vector<std::byte> payload(kMaxFramePayload);
  const auto feed = [&] {
    while (ranks.try_send(0, 1, head_of(1, payload.size()), payload.data()) != 0) {
    }
  };
  ASSERT_TRUE(ranks.until([&] {
    feed();
    return ranks.sink(1).received(0) > 20;
  }));
  ASSERT_EQ(cut_all_connections(), 2);
  Promised notice(2000);
  const auto start = Clock::now();
  while (!ranks.sink(0).lost(1)) {
    feed();
    ASSERT_TRUE(sleep_and_poll(ranks.at(0), start + kPatience));
  }
  notice.expect_kept();
}

TEST_P(TcpFailure, SleepsWhenNothingIsOnTheWay) {
  TcpRanks ranks(2, GetParam());
  connect(ranks);
  // The timer that watches over data on the way must end by itself.
  const auto deadline = Clock::now() + kPatience;
  bool quiet = false;
  while (!quiet) {
    ASSERT_LT(Clock::now(), deadline);
    while (ranks.at(0).poll() || ranks.at(1).poll()) {
    }
    pollfd entries[2] = {{ranks.at(0).wait_fd(), POLLIN, 0}, {ranks.at(1).wait_fd(), POLLIN, 0}};
    quiet = ::poll(entries, 2, 450) == 0;
  }
}

/// Rank 1 of two: drops what comes, and answers each frame without payload with how many came.
[[noreturn]] void serve_as_rank_1(TcpTransport& transport) {
  Recorder sink;
  transport.set_sink(&sink);
  const auto deadline = Clock::now() + 60s;
  std::uint64_t token = 0;
  std::uint64_t frames = 0;
  while (!sink.lost(0)) {
    if (!sleep_and_poll(transport, deadline)) _exit(1);
    std::vector<Frame> arrived = std::move(sink.peers[0].frames);
    sink.peers[0].frames.clear();
    for (const Frame& frame : arrived) {
      ++frames;
      if (!frame.payload.empty() || !transport.can_send(0)) continue;
      FrameHeader answer = head_of(frames, 0);
      transport.send(0, answer, nullptr, ++token);
    }
  }
  _exit(sink.peers[0].lost[0].code() == Errc::peer_left ? 0 : 2);
}

TEST_P(TcpFailure, DoesNotCallAFrozenPeerLost) {
  TcpFixture fixture(2, GetParam());
  // Without the handlers of pthread_atfork, which would close the sockets of both ranks.
  const pid_t child = _Fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The parent's rank goes, its descriptors with it; our own rank stays.
    fixture.all[0].reset();
    serve_as_rank_1(fixture.at(1));
  }
  fixture.all[1].reset();
  TcpTransport& transport = fixture.at(0);
  Recorder sink;
  transport.set_sink(&sink);
  std::uint64_t token = 0;
  const auto ask = [&] { transport.send(1, head_of(0, 0), nullptr, ++token); };
  ask();
  const auto start = Clock::now();
  while (sink.received(1) == 0) ASSERT_TRUE(sleep_and_poll(transport, start + kPatience));
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  // 64 MiB want to go; for more than 5 s nobody takes them.
  constexpr std::uint64_t kFrames = 512;
  const std::vector<std::byte> payload(kMaxFramePayload);
  const auto feed = [&] {
    while (token < kFrames + 1 && transport.can_send(1)) {
      transport.send(1, head_of(1, payload.size()), payload.data(), token + 1);
      ++token;
    }
  };
  const auto frozen_until = Clock::now() + 5500ms;
  while (Clock::now() < frozen_until) {
    feed();
    sleep_and_poll(transport, frozen_until);
    ASSERT_FALSE(sink.lost(1)) << sink.peers[1].lost[0].message();
  }
  EXPECT_LT(token, kFrames) << "the kernel took it all: tests nothing";
  ASSERT_EQ(kill(child, SIGCONT), 0);
  const auto thawed = Clock::now();
  while (sink.sent(1) < kFrames + 1) {
    feed();
    ASSERT_TRUE(sleep_and_poll(transport, thawed + kPatience));
    ASSERT_FALSE(sink.lost(1));
  }
  ask();
  while (sink.received(1) < 2) ASSERT_TRUE(sleep_and_poll(transport, thawed + kPatience));
  EXPECT_EQ(sink.peers[1].frames[1].header.seq, kFrames + 2) << "frames that arrived";
  transport.close(5'000'000'000);
  EXPECT_EQ(tutti::test::end_of(child), 0);
}

TEST_P(TcpFailure, SaysLeftEvenToThoseWhoWereTalking) {
  // A rank that leaves throws away what still comes in. That must not become a reset which
  // destroys its graceful shutdown.
  const std::vector<std::byte> payload(50'000);
  for (int round = 0; round < 20; ++round) {
    TcpRanks ranks(2, GetParam());
    connect(ranks);
    Stream last{0, 1, {100'000, 7}};
    last.push(ranks);
    ASSERT_TRUE(ranks.leaves_until([&] {
      ranks.try_send(1, 0, head_of(1, payload.size()), payload.data());
      return ranks.sink(1).lost(0);
    }));
    expect_lost(ranks.sink(1), 0, Errc::peer_left);
    EXPECT_EQ(ranks.sink(1).received(0), 3U);
  }
}

TEST_P(TcpFailure, LeavesAFrozenPeerWithinTheTimeItIsGiven) {
  TcpRanks ranks(2, GetParam());
  connect(ranks);
  const std::vector<std::byte> payload(kMaxFramePayload);
  // Until nothing goes any more: rank 1 does not read.
  ranks.send_until_full(0, 1, payload);
  Promised leaving(5000);
  ranks.at(0).close(300'000'000);
  leaving.expect_kept();
  ranks.leave(0);
  // A message on the way is cut off, and that is no graceful shutdown.
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).lost(0); }));
  expect_lost(ranks.sink(1), 0, Errc::peer_lost);
}

TEST_P(TcpFailure, DeliversFramesThatStillWaitForAConnectionWhenClosing) {
  TcpRanks ranks(2, GetParam());
  Stream stream{0, 1, {100, 200}};
  stream.push(ranks);  // nobody has polled: not even dialled yet
  ASSERT_TRUE(ranks.leaves_until([&] { return ranks.sink(1).lost(0); }));
  stream.check(ranks);
  expect_lost(ranks.sink(1), 0, Errc::peer_left);
}

TEST_P(TcpFailure, IsNotCalledLostByWhoGetsToKnowItWhileItLeaves) {
  TcpRanks ranks(3, GetParam());
  connect(ranks);
  const std::vector<std::byte> payload(kMaxFramePayload);
  // Rank 1 does not read, so what rank 0 still owes it takes a while.
  ranks.send_until_full(0, 1, payload);
  ranks.leave(0);
  std::thread leaving([&] { ranks.at(0).close(5'000'000'000); });
  Stream stream{2, 0, {100}};
  const auto deadline = Clock::now() + kPatience;
  while (!ranks.sink(2).lost(0) && Clock::now() < deadline) {
    stream.push(ranks);
    sleep_and_poll(ranks.at(2), deadline);
  }
  const bool told = ranks.until([&] { return ranks.sink(1).lost(0); });
  leaving.join();
  ASSERT_TRUE(told);
  expect_lost(ranks.sink(2), 0, Errc::peer_left);
}

/// Writes down in which order peers were lost, too.
struct OrderOfLoss : Recorder {
  void on_lost(int peer, const Outcome& why) noexcept override {
    order.push_back(peer);
    Recorder::on_lost(peer, why);
  }
  std::vector<int> order;
};

/// Rank 0 of four, which asks `first_lost`. Nobody listens where ranks 1 and 2 did; rank 3 is
/// there.
class TcpFirstLost : public testing::Test {
 protected:
  void start(FirstLost first_lost) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 4; ++rank) {
      TcpOptions options = plain_options(rank, 4);
      if (rank == 0) options.first_lost = first_lost;
      all.push_back(TcpTransport::listen(std::move(options)).value());
      addresses.push_back(all.back()->address());
    }
    for (const int rank : {0, 3}) {
      ASSERT_TRUE(all[static_cast<std::size_t>(rank)]->set_addresses(addresses).ok());
      all[static_cast<std::size_t>(rank)]->set_sink(rank == 0 ? &sink : &other);
    }
    rank_1 = addresses[1];
    all[1].reset();
    all[2].reset();
  }
  /// A question that is answered at once.
  static Question answer(const Outcome& status) {
    return [status] { return std::optional<Outcome>(status); };
  }
  bool until(const std::function<bool()>& done) {
    return test::until(done, [&] {
      all[0]->poll();
      all[3]->poll();
    });
  }
  void send(int from, int to) {
    all[static_cast<std::size_t>(from)]->send(to, head_of(1, 0), nullptr, ++token);
  }
  /// Rank 0 sends to one that is not there, and waits until it is told.
  void send_to_lost(int peer) {
    send(0, peer);
    ASSERT_TRUE(until([&] { return sink.lost(peer); }));
  }

  OrderOfLoss sink;
  Recorder other;
  std::vector<std::unique_ptr<TcpTransport>> all;
  std::string rank_1;  ///< where it has listened
  std::uint64_t token = 0;
};

TEST_F(TcpFirstLost, IsToldBeforeWhoCannotBeReached) {
  int asked = 0;
  start([&](int) {
    ++asked;
    return answer(Outcome(Errc::peer_lost, "so others know").with_culprit(2));
  });
  send_to_lost(1);
  EXPECT_EQ(sink.order, (std::vector<int>{2, 1}));
  expect_lost(sink, 2, Errc::peer_lost, "so others know");
  EXPECT_EQ(sink.peers[2].lost[0].culprit(), 2);
  EXPECT_EQ(asked, 1);
}

TEST_F(TcpFirstLost, IsAskedForUntilSomebodyIsNamed) {
  int asked = 0;
  bool known = false;
  start([&](int) {
    ++asked;
    return answer(known ? Outcome(Errc::peer_lost, "so others know").with_culprit(2) : Outcome());
  });
  send_to_lost(1);
  expect_lost(sink, 1, Errc::peer_left);
  known = true;
  send_to_lost(2);
  expect_lost(sink, 2, Errc::peer_lost);
  EXPECT_EQ(sink.order, (std::vector<int>{1, 2}));
  EXPECT_EQ(asked, 2);
}

TEST_F(TcpFirstLost, NobodyWaitsForTheAnswer) {
  bool come = false;
  start([&](int) {
    return [&]() -> std::optional<Outcome> {
      if (!come) return std::nullopt;
      return Outcome(Errc::peer_lost, "so others know").with_culprit(2);
    };
  });
  send(0, 1);
  // Meanwhile everything else goes on.
  for (std::uint64_t i = 1; i <= 20; ++i) {
    send(3, 0);
    ASSERT_TRUE(until([&] { return sink.received(3) == i; }));
  }
  const auto later = Clock::now() + 100ms;
  ASSERT_TRUE(until([&] { return Clock::now() > later; }));
  EXPECT_EQ(sink.order, std::vector<int>());
  come = true;
  ASSERT_TRUE(until([&] { return sink.lost(1); }));
  EXPECT_EQ(sink.order, (std::vector<int>{2, 1}));
}

TEST_F(TcpFirstLost, IsNotWaitedForByWhoCloses) {
  start([](int) { return [] { return std::optional<Outcome>(); }; });
  send(0, 1);
  const auto later = Clock::now() + 100ms;
  ASSERT_TRUE(until([&] { return Clock::now() > later; }));
  Promised closing(2000);
  all[0]->close(60'000'000'000);
  closing.expect_kept();
}

TEST_F(TcpFirstLost, BlamesWhoCannotBeReachedWhereItNamesNobodyElse) {
  std::vector<Outcome> answers{Outcome(Errc::timeout, "the store does not answer"), Outcome()};
  for (const int named : {0, 1, 4, -1})
    answers.push_back(Outcome(Errc::peer_lost, "so others know").with_culprit(named));
  for (const Outcome& given : answers) {
    SCOPED_TRACE(given.message());
    all.clear();
    sink = OrderOfLoss();
    start([&](int) { return answer(given); });
    send_to_lost(1);
    EXPECT_EQ(sink.order, std::vector<int>{1});
    // If nobody was lost, it has left in peace.
    expect_lost(sink, 1, given.ok() ? Errc::peer_left : Errc::peer_lost,
                given.code() == Errc::peer_lost ? "cannot connect" : "");
  }
}

/// A rank that leaves closes its listener before it tells the store.
TEST_F(TcpFirstLost, GivesWhoRefusesTimeToLeave) {
  int asked = 0;
  start([&](int) {
    return answer(++asked < 5 ? Outcome(Errc::refused, "the store was reached") : Outcome());
  });
  send_to_lost(1);
  expect_lost(sink, 1, Errc::peer_left);
  EXPECT_EQ(asked, 5);
}

TEST_F(TcpFirstLost, BlamesTheNetworkWhereTheStoreKnowsThatThePeerRuns) {
  start([](int) { return answer(Outcome(Errc::refused, "the store was reached")); });
  const std::string both =
      base::format("rank 0 ({}) cannot connect to rank 1 ({}): ", all[0]->address(), rank_1);
  send_to_lost(1);
  expect_lost(sink, 1, Errc::peer_lost, both + "connection refused; but the store was reached");
  EXPECT_TRUE(all[0]->is_unanswered(1)) << "others may reach it";
}

TEST_F(TcpFirstLost, DoesNotMakeALossOfWhoLeftInPeace) {
  std::vector<int> about;
  start([&](int unreachable) {
    about.push_back(unreachable);
    return answer(Outcome(Errc::peer_left, "so others know").with_culprit(3));
  });
  send_to_lost(1);
  EXPECT_EQ(sink.order, (std::vector<int>{3, 1}));
  expect_lost(sink, 3, Errc::peer_lost);
  expect_lost(sink, 1, Errc::peer_left);
  // Asked also when it is known who was first.
  send_to_lost(2);
  expect_lost(sink, 2, Errc::peer_left);
  EXPECT_EQ(about, (std::vector<int>{1, 2}));
}

TEST_F(TcpFirstLost, HasSaidWhatItHadToSayBefore) {
  start([&](int) { return answer(Outcome(Errc::peer_lost, "so others know").with_culprit(3)); });
  send(3, 0);
  ASSERT_TRUE(until([&] { return sink.received(3) == 1 && other.sent(0) == 1; }));
  send(3, 0);  // is in rank 0's socket now
  send_to_lost(1);
  EXPECT_EQ(sink.order, (std::vector<int>{3, 1}));
  EXPECT_EQ(sink.received(3), 2U);
}

TEST_P(TcpFailure, KeepsTheLowerRanksConnection) {
  std::uint64_t crossings = 0;
  for (int round = 0; round < 20; ++round) {
    TcpRanks ranks(2, GetParam());
    connect(ranks);
    crossings += ranks.tcp(0).counters().crossings;
    EXPECT_EQ(ranks.tcp(1).counters().crossings, 0U) << "the lower rank's one stays";
  }
  EXPECT_GT(crossings, 0U);
}

}  // namespace
}  // namespace tutti::transport::test
