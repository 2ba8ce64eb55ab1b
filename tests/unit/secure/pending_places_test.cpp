#include "secure/pending_places.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>

#include "os/address.hpp"
#include "os/fd.hpp"
#include "unit/os/limit.hpp"

namespace tutti::secure {
namespace {

using namespace std::chrono_literals;
using Times = PendingPlaces::Times;
using Clock = PendingPlaces::Clock;

constexpr auto kStart = Clock::time_point() + 1h;

PendingPlaces places_for(std::size_t most) {
  return PendingPlaces({.most = most, .timeout = 10s, .timeout_when_full = 500ms});
}

TEST(PendingPlaces, HurryConnectionsOnlyWhileNoneIsLeft) {
  PendingPlaces places = places_for(1);
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 10s);
  ASSERT_EQ(places.room(), PendingPlaces::Room::free);
  places.take();
  EXPECT_EQ(places.room(), PendingPlaces::Room::no_place);
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 500ms);
  places.release();
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 10s);
  places.run_out_of_descriptors();
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 500ms);
  places.try_again();
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 10s);
}

TEST(PendingPlaces, AreTakenOneByOneWhereTheProgramNeedsTheDescriptors) {
  const os::Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  PendingPlaces places = places_for(100);
  const test::SoftLimit few(RLIMIT_NOFILE, static_cast<rlim_t>(next.get()) + 2);
  EXPECT_EQ(places.room(), PendingPlaces::Room::free);
  places.take();
  EXPECT_EQ(places.room(), PendingPlaces::Room::no_descriptor);
  EXPECT_TRUE(places.full());
  places.release();
  EXPECT_EQ(places.room(), PendingPlaces::Room::free);
  EXPECT_FALSE(places.full());
}

TEST(PendingPlaces, CountFromOurReplyAndWaitForTheProvenOne) {
  PendingPlaces places = places_for(0);
  const auto place = os::Address::parse("127.0.0.1", 4567).value();
  auto dialler = Handshake::dialler({0, 2, 1, 1, {}}, 1, Nonce{}, place);
  auto acceptor = Handshake::acceptor({1, 2, 1, 1, {}}, Nonce{}, place);
  Times times(kStart);
  const auto say = [](Handshake& from, Handshake& to) {
    to.feed(from.outgoing());
    from.sent(from.outgoing().size());
  };
  say(dialler, acceptor);
  times.look(acceptor, kStart + 400ms);
  EXPECT_EQ(places.deadline(times), kStart + 900ms);
  times.look(acceptor, kStart + 800ms);
  EXPECT_EQ(places.deadline(times), kStart + 900ms) << "a reply is sent once";
  say(acceptor, dialler);
  say(dialler, acceptor);
  times.look(acceptor, kStart + 850ms);
  EXPECT_EQ(places.deadline(times), kStart + 10s);
}

}  // namespace
}  // namespace tutti::secure
