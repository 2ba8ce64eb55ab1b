#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <tutti/launch.hpp>
#include <tutti/tutti.hpp>

#include "engine/credit_account.hpp"
#include "support/rotation.hpp"

// Probes between ranks that are threads, in shared memory and over TCP: what tsan can see.
namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using engine::kEagerLimit;
using Values = std::vector<std::int32_t>;

enum class Over { memory, tcp };

Config probe_config(Over way) {
  Config config;
  if (way == Over::tcp) config.transport = Config::TransportChoice::tcp;
  config.timeout = seconds(60);
  return config;
}

/// The elements tell who sent them, and as which one.
Values values_of(int from, int number, std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), from * 100'000'000 + number * 1'000'000);
  return values;
}

class Probe : public testing::TestWithParam<std::tuple<int, Over>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  static Config config() { return probe_config(std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Probe,
                         testing::Combine(testing::ValuesIn(test::world_sizes()),
                                          testing::Values(Over::memory, Over::tcp)));

TEST_P(Probe, EverySizeIsFoundAndArrives) {
  run_threads(
      ranks(),
      [](ProcessGroup& world) {
        const int next = (world.rank() + 1) % world.size();
        const int before = (world.rank() + world.size() - 1) % world.size();
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kEagerLimit / 4,
                                        kEagerLimit / 4 + 1, std::size_t{900'000}}) {
          const Values mine = values_of(world.rank(), 1, count);
          Work send = world.isend(mine, next, {.tag = 3});
          Message found = world.probe(before, {.tag = 3});
          EXPECT_EQ(found.source(), before);
          EXPECT_EQ(found.tag(), 3);
          EXPECT_EQ(found.dtype(), DType::int32);
          ASSERT_EQ(found.count(), count);
          EXPECT_EQ(found.bytes(), 4 * count);
          EXPECT_EQ(found.recv<std::int32_t>(), values_of(before, 1, count));
          EXPECT_FALSE(found.valid());
          EXPECT_THROW((void)found.recv<std::int32_t>(), InvalidArgument);
          send.wait();
        }
      },
      config());
}

// Receives in every way what the rank before sends, and looks that each message comes in its turn.
TEST_P(Probe, KeepsTheOrderAmongOtherRecvs) {
  run_threads(
      ranks(),
      [](ProcessGroup& world) {
        constexpr int kMessages = 60;
        constexpr int kTags = 2;
        std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()));
        const int to = (world.rank() + 1) % world.size();
        const int from = (world.rank() + world.size() - 1) % world.size();
        const auto count_of = [](int number) -> std::size_t {
          return number % 7 == 0 ? 20'000 : static_cast<std::size_t>(number);
        };
        std::vector<Values> sent;
        std::vector<Work> works;
        for (int i = 0; i < kMessages; ++i) sent.push_back(values_of(world.rank(), i, count_of(i)));
        for (int i = 0; i < kMessages; ++i) {
          works.push_back(world.isend(sent[static_cast<std::size_t>(i)], to, {.tag = i % kTags}));
        }
        int next[kTags] = {0, 1};
        while (next[0] < kMessages || next[1] < kMessages) {
          int tag = static_cast<int>(random() % kTags);
          if (next[tag] >= kMessages) tag = 1 - tag;
          const int number = std::exchange(next[tag], next[tag] + kTags);
          const int source = random() % 2 == 0 ? from : any_source;
          const Values expected = values_of(from, number, count_of(number));
          Values got(expected.size());
          switch (random() % 4) {
            case 0: EXPECT_EQ(world.recv(got, source, {.tag = tag}), from); break;
            case 1: {
              Message found = world.probe(source, {.tag = tag});
              Work work = found.irecv(got);
              work.wait();
              EXPECT_EQ(work.source_rank(), from);
              break;
            }
            case 2: {
              std::optional<Message> found;
              while (!(found = world.try_probe(source, tag))) std::this_thread::yield();
              got = found->recv<std::int32_t>();
              break;
            }
            default: {
              {
                const Message dropped = world.probe(source, {.tag = tag});
              }
              got = world.probe(source, {.tag = tag}).recv<std::int32_t>();
            }
          }
          ASSERT_EQ(got, expected) << number;
        }
        wait_all(works);
        EXPECT_FALSE(world.try_probe(any_source, 0));
      },
      config());
}

TEST_P(Probe, ThreadsThatProbeOneSenderGetDifferentMessages) {
  run_threads(
      ranks(),
      [](ProcessGroup& world) {
        constexpr int kMessages = 40;
        constexpr int kThreads = 2;
        const int to = (world.rank() + 1) % world.size();
        const int from = (world.rank() + world.size() - 1) % world.size();
        std::vector<Values> sent;
        std::vector<Work> works;
        for (int i = 0; i < kMessages; ++i)
          sent.push_back(values_of(world.rank(), i, 1 + static_cast<std::size_t>(i) * 1000));
        for (const Values& one : sent) works.push_back(world.isend(one, to));
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
      },
      config());
}

class ProbeBothWays : public testing::TestWithParam<Over> {
 protected:
  static Config config() { return probe_config(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Transports, ProbeBothWays, testing::Values(Over::memory, Over::tcp));

TEST_P(ProbeBothWays, AnotherBufferLeavesTheMessage) {
  run_threads(
      2,
      [](ProcessGroup& world) {
        const Values mine = values_of(0, 1, 50'000);
        if (world.rank() == 0) {
          world.send(mine, 1);
          return;
        }
        Message found = world.probe(0);
        Values shorter(49'999);
        std::vector<float> floats(50'000);
        for (int wrong = 0; wrong < 2; ++wrong) {
          try {
            wrong == 0 ? found.recv(shorter) : found.recv(floats);
            ADD_FAILURE() << "no error";
          } catch (const InvalidArgument& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("the message has int32 x 50000"), std::string::npos) << text;
          }
        }
        EXPECT_THROW((void)found.recv<double>(), InvalidArgument);
        EXPECT_THROW(found.recv(shorter, seconds(0)), InvalidArgument);
        EXPECT_TRUE(world.health().ok());
        EXPECT_EQ(found.recv<std::int32_t>(), mine);
      },
      config());
}

TEST_P(ProbeBothWays, AMessageThatIsDroppedGoesToTheRecvThatWaits) {
  run_threads(
      2,
      [](ProcessGroup& world) {
        for (const std::size_t count : {std::size_t{10}, std::size_t{1'000'000}}) {
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
      },
      config());
}

TEST_P(ProbeBothWays, ATimeoutNamesWhatAndWho) {
  run_threads(
      2,
      [](ProcessGroup& world) {
        if (world.rank() == 1) {
          while (world.health().ok()) std::this_thread::yield();
          EXPECT_THROW((void)world.try_probe(0), TimeoutError);
          return;
        }
        try {
          (void)world.probe(1, {.tag = 77, .timeout = milliseconds(200)});
          ADD_FAILURE() << "no error";
        } catch (const TimeoutError& error) {
          const std::string text = error.what();
          EXPECT_EQ(error.culprit(), 1) << text;
          for (const char* const part :
               {"group 'world' of 2 ranks", "probe(from 1, tag 77)", "has not sent it"})
            EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
        }
      },
      config());
}

TEST_P(ProbeBothWays, ASenderThatLeavesEndsItAndWhatItSentArrives) {
  run_threads(
      2,
      [](ProcessGroup& world) {
        Values values = values_of(0, 1, 1000);
        if (world.rank() == 0) {
          world.send(values, 1);
          return;
        }
        EXPECT_EQ(world.probe(any_source).recv<std::int32_t>(), values);
        try {
          (void)world.probe(0);
          ADD_FAILURE() << "no error";
        } catch (const NetworkError& error) {
          EXPECT_EQ(error.code(), Errc::peer_left) << error.what();
          EXPECT_EQ(error.culprit(), 0);
        }
      },
      config());
}

TEST_P(ProbeBothWays, AnAbortEndsIt) {
  run_threads(
      2,
      [](ProcessGroup& world) {
        Values ready(1);
        if (world.rank() == 0) {
          world.recv(ready, 1);
          world.abort("enough");
          return;
        }
        world.send(ready, 0);
        EXPECT_THROW((void)world.probe(0), BackendError);
        EXPECT_THROW((void)world.try_probe(0), BackendError);
      },
      config());
}

TEST(ProbeCalls, AWrongCallIsToldAndHarmsNothing) {
  run_threads(1, [](ProcessGroup& world) {
    EXPECT_THROW((void)world.probe(1), InvalidArgument);
    EXPECT_THROW((void)world.probe(-2), InvalidArgument);
    EXPECT_THROW((void)world.probe(0, {.tag = -1}), InvalidArgument);
    EXPECT_THROW((void)world.probe(0, {.timeout = seconds(0)}), InvalidArgument);
    EXPECT_THROW((void)world.try_probe(1), InvalidArgument);
    EXPECT_THROW((void)world.try_probe(0, -1), InvalidArgument);
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
