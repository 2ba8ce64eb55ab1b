#include <gmock/gmock.h>

#include <numeric>

#include "engine/credit_account.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Probes between ranks that are threads, in shared memory and over TCP: what tsan can see, and what
// backends need not promise (the rest is in tests/contract/backend/probe_contract.cpp).
namespace tutti {
namespace {

using engine::kEagerLimit;
using std::chrono::seconds;
using test::after;
using test::before;
using test::Way;
using testing::HasSubstr;
using Values = std::vector<std::int32_t>;

/// The elements tell who sent them, and as which message.
Values values_of(int from, int number, std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), from * 100'000'000 + number * 1'000'000);
  return values;
}

class Probe : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, Probe, testing::ValuesIn(test::plain_worlds()), test::world_name);

TEST_P(Probe, TellsTheTypeAndTheNumberOfElements) {
  run([](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{0}, kEagerLimit / 4, kEagerLimit / 4 + 1}) {
      const Values mine = values_of(world.rank(), 1, count);
      Work send = world.isend(mine, after(world));
      Message found = world.probe(before(world));
      EXPECT_EQ(found.dtype(), DType::int32);
      ASSERT_EQ(found.count(), count);
      EXPECT_EQ(found.recv<std::int32_t>(), values_of(before(world), 1, count));
      send.wait();
    }
  });
}

TEST_P(Probe, ThreadsThatProbeOneSenderGetDifferentMessages) {
  run([](ProcessGroup& world) {
    constexpr int kMessages = 40;
    constexpr int kThreads = 2;
    const int from = before(world);
    std::vector<Values> sent;
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i)
      sent.push_back(values_of(world.rank(), i, 1 + static_cast<std::size_t>(i) * 1000));
    for (const Values& one : sent) works.push_back(world.isend(one, after(world)));
    std::vector<int> seen[kThreads];
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kMessages / kThreads; ++i) {
          Message found = world.probe(t == 0 ? from : any_source);
          const int number = static_cast<int>(found.count() / 1000);
          EXPECT_EQ(found.recv<std::int32_t>(), values_of(from, number, found.count()));
          seen[t].push_back(number);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    wait_all(works);
    std::vector<int> all;
    for (const std::vector<int>& one : seen) {
      EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
      all.insert(all.end(), one.begin(), one.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<int> expected(kMessages);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  });
}

class ProbeOfTwo : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Ways, ProbeOfTwo,
                         testing::ValuesIn(test::worlds({2}, {Way::shm, Way::tcp})),
                         test::world_name);

TEST_P(ProbeOfTwo, AnotherBufferLeavesTheMessage) {
  run([](ProcessGroup& world) {
    const Values mine = values_of(0, 1, 50'000);
    if (world.rank() == 0) {
      world.send(mine, 1);
      return;
    }
    Message found = world.probe(0);
    Values shorter(49'999);
    std::vector<float> floats(50'000);
    for (const bool too_short : {true, false}) {
      const auto error = test::told<InvalidArgument>(
          [&] { too_short ? found.recv(shorter) : found.recv(floats); });
      EXPECT_THAT(error.text, HasSubstr("the message has int32 x 50000"));
    }
    EXPECT_THROW((void)found.recv<double>(), InvalidArgument);
    EXPECT_THROW(found.recv(shorter, seconds(0)), InvalidArgument);
    EXPECT_TRUE(world.health().ok());
    EXPECT_EQ(found.recv<std::int32_t>(), mine);
  });
}

TEST_P(ProbeOfTwo, AMessageThatIsDroppedGoesToTheRecvThatWaits) {
  run([](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{1'000'000}}) {
      // The recv takes the next message while the first one is held, so that must not be there yet.
      world.barrier().wait();
      const Values mine = values_of(0, 1, count);
      if (world.rank() == 0) {
        world.send(mine, 1);
        continue;
      }
      std::optional<Message> found = world.probe(0);
      Values got(count);
      std::thread other([&] { EXPECT_EQ(world.recv(got, 0), 0); });
      std::this_thread::yield();
      found.reset();
      other.join();
      EXPECT_EQ(got, mine);
    }
  });
}

TEST(ProbeCalls, AWrongCallIsToldAndHarmsNothing) {
  test::World{1}.run([](ProcessGroup& world) {
    EXPECT_THROW((void)world.probe(1), InvalidArgument);
    EXPECT_THROW((void)world.probe(-2), InvalidArgument);
    EXPECT_THROW((void)world.probe(0, {.tag = -1}), InvalidArgument);
    EXPECT_THROW((void)world.probe(0, {.timeout = seconds(0)}), InvalidArgument);
    EXPECT_THROW((void)world.try_probe(1), InvalidArgument);
    EXPECT_THROW((void)world.try_probe(0, {.tag = -1}), InvalidArgument);
    EXPECT_FALSE(world.try_probe(any_source));
    const Values mine{1, 2};
    world.send(mine, 0);
    std::optional<Message> found = world.try_probe(0);
    ASSERT_TRUE(found);
    Message moved = std::move(*found);
    EXPECT_FALSE(found->valid());
    *found = std::move(moved);
    EXPECT_EQ(found->recv<std::int32_t>(), mine);
  });
}

}  // namespace
}  // namespace tutti
