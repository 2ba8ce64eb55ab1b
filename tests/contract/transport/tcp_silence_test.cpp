// Peers that do not answer who dials them: cut off, or standing still.

#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>

#include "contract/transport/tcp_fixture.hpp"
#include "os/socket.hpp"

namespace tutti::transport::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Takes nobody any more.
class Full {
 public:
  explicit Full(const os::Fd& listener) : port_(os::local_address(listener.get()).value()) {
    while (true) {
      auto caller = os::start_connect(port_);
      if (!caller) break;
      callers_.push_back(std::move(*caller));
      pollfd entry{callers_.back().get(), POLLOUT, 0};
      if (::poll(&entry, 1, 100) == 0) break;
    }
    callers_.pop_back();
  }

 private:
  os::Address port_;
  std::vector<os::Fd> callers_;
};

/// Where rank 1 should be, and answers nobody: as many wait to be taken as may.
struct FullPlace : Place {
  FullPlace() : Place(0), full(listener) {}
  std::optional<Full> full;
};

/// Rank 0 of two, which dials that place.
struct Dialler : LoneRank {
  explicit Dialler(const Place& place, std::chrono::milliseconds link_timeout = 1000ms,
                   FirstLost first_lost = {})
      : LoneRank([&] {
          TcpOptions options = plain_options(0, 2);
          options.addresses = {"", place.address()};
          options.link_timeout = link_timeout;
          options.first_lost = std::move(first_lost);
          return options;
        }()) {
    transport->send(1, head_of(1, 0), nullptr, 1);
  }
  /// Until that, as a progress thread drives; false when the time is over.
  bool until(const std::function<bool()>& done, std::chrono::milliseconds time) {
    const auto step = [&] {
      if (transport->poll()) return;
      pollfd entry{transport->wait_fd(), POLLIN, 0};
      ::poll(&entry, 1, 1);
    };
    return test::until(done, step, time);
  }
  bool until_lost() {
    return until([&] { return sink.lost(1); }, kPatience);
  }
};

TEST(TcpSilence, NamesAHostThatAnswersNoAttempt) {
  FullPlace place;
  Promised notice(2000);
  Dialler dialler(place);
  ASSERT_TRUE(dialler.until_lost());
  EXPECT_GE(notice.expect_kept(), 1000) << "too quick to judge";
  expect_lost(dialler.sink, 1, Errc::peer_lost, "no connection after 1000 ms");
}

/// A firewall that drops what goes to any port but the store's.
TEST(TcpSilence, TellsThatTheStoreIsReached) {
  FullPlace place;
  TcpOptions options = plain_options(0, 2);
  options.first_lost = [](int) {
    return [] { return std::optional<Outcome>(Outcome(Errc::refused, "the store was reached")); };
  };
  options.addresses = {"", place.address()};
  LoneRank rank(std::move(options));
  rank.transport->send(1, head_of(1, 0), nullptr, 1);
  ASSERT_TRUE(rank.until([&] { return rank.sink.lost(1); }));
  expect_lost(rank.sink, 1, Errc::peer_lost, "(net.core.somaxconn)? Yet the store was reached");
  EXPECT_TRUE(rank.transport->is_unanswered(1));
}

TEST(TcpSilence, AsksEarlyWhoWasLostFirstAndWaitsForNoAnswer) {
  FullPlace place;
  Promised notice(2000);
  auto asked = Clock::time_point();
  Dialler dialler(place, 1000ms, [&](int) {
    asked = Clock::now();
    return [] { return std::optional<Outcome>(); };
  });
  ASSERT_TRUE(dialler.until_lost());
  notice.expect_kept();
  ASSERT_NE(asked, Clock::time_point()) << "asked nobody";
  EXPECT_LT(asked + 300ms, Clock::now());
}

TEST(TcpSilence, NamesAHostThatIsCutOffInTheMiddleOfAHandshake) {
  Place place;
  // Packets with data are lost on the way; those that make a connection, of up to 60 bytes, not.
  sock_filter drop_data[] = {BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
                             BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 60, 0, 1),
                             BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, 0xFFFFFFFF)};
  const sock_fprog program{4, drop_data};
  ASSERT_EQ(
      ::setsockopt(place.listener.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program),
      0);
  Promised notice(2000);
  Dialler dialler(place);
  ASSERT_TRUE(dialler.until_lost());
  notice.expect_kept();
  expect_lost(dialler.sink, 1, Errc::peer_lost, "though a handshake is on the way");
}

TEST(TcpSilence, WaitsForAProcessThatStandsStill) {
  Place place;
  Dialler dialler(place, 250ms);
  EXPECT_FALSE(dialler.until([&] { return dialler.sink.lost(1); }, 1000ms))
      << dialler.sink.peers[1].lost[0].message();
  // It costs nothing: nothing is looked at any more.
  pollfd entry{dialler.transport->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 300), 0);
  // It goes on, and hangs up: then it is dialled again, for as long as any.
  ASSERT_TRUE(place.take());
  place.taken.clear();
  ASSERT_TRUE(dialler.until([&] { return place.take(); }, kPatience));
  EXPECT_FALSE(dialler.sink.lost(1));
  const auto hang_up = [&] {
    place.taken.clear();
    (void)place.take();
    return dialler.sink.lost(1);
  };
  EXPECT_TRUE(dialler.until(hang_up, kPatience));
}

TEST(TcpSilence, WaitsForACrowdedListenerWithinTheLimit) {
  FullPlace place;
  Dialler dialler(place, 15'000ms);
  EXPECT_FALSE(dialler.until([&] { return dialler.sink.lost(1); }, 2000ms))
      << dialler.sink.peers[1].lost[0].message();
  while (place.take()) {
  }
  place.full.reset();
  place.taken.clear();
  // The kernel repeats what it had dropped.
  EXPECT_TRUE(dialler.until([&] { return place.take(); }, 9000ms));
  EXPECT_FALSE(dialler.sink.lost(1));
}

TEST(TcpSilence, DoesNotWaitForACrowdedListenerForEver) {
  FullPlace place;
  Dialler dialler(place, 1500ms);
  const auto start = Clock::now();
  ASSERT_TRUE(dialler.until_lost());
  EXPECT_GE(Clock::now() - start, 1400ms) << "its host answers";
  expect_lost(dialler.sink, 1, Errc::peer_lost, "no connection after 1500 ms");
}

}  // namespace
}  // namespace tutti::transport::test
