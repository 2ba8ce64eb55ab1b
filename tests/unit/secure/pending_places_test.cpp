#include "secure/pending_places.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

#include "os/address.hpp"
#include "os/fd.hpp"

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
  places.give_back();
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 10s);
  places.run_out_of_descriptors();
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 500ms);
  places.try_again();
  EXPECT_EQ(places.deadline(Times(kStart)), kStart + 10s);
}

TEST(PendingPlaces, AreTakenOneByOneWhereTheProgramNeedsTheDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const os::Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const rlimit few{static_cast<rlim_t>(next.get()) + 2, before.rlim_max};
  PendingPlaces places = places_for(100);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto first = places.room();
  places.take();
  const auto second = places.room();
  const bool full = places.full();
  places.give_back();
  const auto third = places.room();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(first, PendingPlaces::Room::free);
  EXPECT_EQ(second, PendingPlaces::Room::no_descriptor);
  EXPECT_TRUE(full);
  EXPECT_EQ(third, PendingPlaces::Room::free);
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
