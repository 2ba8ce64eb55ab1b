#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/credit_account.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Sends and recvs between ranks that are threads, in shared memory and over TCP: what tsan can see.
namespace tutti {
namespace {

using engine::kEagerLimit;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::after;
using test::before;
using test::Told;
using test::told;
using test::Way;
using testing::HasSubstr;

std::vector<std::int32_t> message(int from, int to, int number, std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), from * 7'000'000 + to * 500'000 + number * 1000);
  return values;
}

class PointToPoint : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, PointToPoint,
                         testing::ValuesIn(test::worlds(test::world_sizes(),
                                                        {Way::shm, Way::tcp, Way::tls})),
                         test::world_name);

TEST_P(PointToPoint, EverySizeArrives) {
  run([](ProcessGroup& world) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{17}, kEagerLimit / 4 - 1, kEagerLimit / 4,
          kEagerLimit / 4 + 1, std::size_t{300'000}, std::size_t{700'000}}) {
      const auto mine = message(world.rank(), after(world), 1, count);
      std::vector<std::int32_t> theirs(count, -1);
      Work send = world.isend(mine, after(world), {.tag = 3});
      EXPECT_EQ(world.recv(theirs, before(world), {.tag = 3}), before(world));
      send.wait();
      EXPECT_EQ(theirs, message(before(world), world.rank(), 1, count)) << count;
    }
  });
}

TEST_P(PointToPoint, EverybodyMaySendWhatGoesUnaskedFirst) {
  run([](ProcessGroup& world) {
    const std::vector<std::uint8_t> mine(kEagerLimit, static_cast<std::uint8_t>(world.rank()));
    for (int round = 0; round < 20; ++round) {
      for (int to = 0; to < world.size(); ++to) world.send(mine, to);
      std::vector<std::uint8_t> theirs(kEagerLimit);
      for (int from = 0; from < world.size(); ++from) {
        EXPECT_EQ(world.recv(theirs, from), from);
        EXPECT_EQ(theirs, std::vector<std::uint8_t>(kEagerLimit, static_cast<std::uint8_t>(from)));
      }
    }
  });
}

TEST_P(PointToPoint, ThousandsMayBeOutstandingAndTagsTellThemApart) {
  run([](ProcessGroup& world) {
    constexpr int kMessages = 1500;
    std::vector<Work> works;
    std::vector<std::vector<std::int32_t>> sent;
    std::vector<std::vector<std::int32_t>> received;
    for (int i = 0; i < kMessages; ++i) {
      const int to = i % world.size();
      sent.push_back(message(world.rank(), to, i, static_cast<std::size_t>(i % 200)));
      works.push_back(world.isend(sent.back(), to, {.tag = i}));
    }
    // In the other order: the last message first.
    for (int i = kMessages; i-- > 0;) {
      if (i % world.size() != world.rank()) continue;
      for (int from = 0; from < world.size(); ++from) {
        received.emplace_back(static_cast<std::size_t>(i % 200));
        works.push_back(world.irecv(received.back(), from, {.tag = i}));
      }
    }
    wait_all(works);
    std::size_t at = 0;
    for (int i = kMessages; i-- > 0;) {
      if (i % world.size() != world.rank()) continue;
      for (int from = 0; from < world.size(); ++from, ++at) {
        EXPECT_EQ(received[at], message(from, world.rank(), i, static_cast<std::size_t>(i % 200)));
      }
    }
  });
}

TEST_P(PointToPoint, RanksThatHaveLeftDoNotDisturbAReceiveFromAnybody) {
  std::atomic<int> looks{0};
  test::World{GetParam().size + 2, GetParam().way}.run([&](ProcessGroup& world) {
    if (world.rank() > 1) return;  // connected with nobody
    const std::vector<std::int32_t> value{7};
    if (world.rank() == 0) {
      while (looks < 20) std::this_thread::yield();
      world.send(value, 1);
      return;
    }
    std::vector<std::int32_t> got{0};
    Work work = world.irecv(got, any_source);
    // Meanwhile it asks the others where they are.
    while (!work.wait_for(milliseconds(10))) ++looks;
    EXPECT_EQ(got, value);
  });
}

TEST_P(PointToPoint, OneTagIsFirstInFirstOut) {
  run([](ProcessGroup& world) {
    std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()));
    std::mt19937_64 sizes(5);
    const int to = after(world);
    const int from = before(world);
    std::vector<std::vector<std::int32_t>> sent;
    std::vector<std::vector<std::int32_t>> received;
    std::vector<Work> works;
    for (int i = 0; i < 60; ++i) {
      const std::size_t count = sizes() % 5 == 0 ? sizes() % 100'000 : sizes() % 300;
      sent.push_back(message(world.rank(), to, i, count));
      received.emplace_back(count);
    }
    for (std::size_t i = 0, s = 0, r = 0; i < 120; ++i) {
      if (s < 60 && (r == 60 || random() % 2 == 0)) {
        works.push_back(world.isend(sent[s++], to));
      } else {
        const int src = random() % 2 == 0 ? from : any_source;
        works.push_back(world.irecv(received[r++], src));
      }
    }
    wait_all(works);
    for (int i = 0; i < 60; ++i) {
      const auto index = static_cast<std::size_t>(i);
      EXPECT_EQ(received[index], message(from, world.rank(), i, received[index].size())) << i;
    }
  });
}

/// A blocking recv may take its message past the queues: not past messages that came before.
TEST_P(PointToPoint, BlockingRecvsKeepTheOrderAmongOthers) {
  run([](ProcessGroup& world) {
    constexpr int kMessages = 400;
    const int from = before(world);
    const auto tag_of = [](int number) { return number * 7 % 3; };
    const auto count_of = [](int number) {
      return static_cast<std::size_t>(number % 23 == 0 ? 20'000 : number * 37 % 280);
    };
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    ProcessGroup other = world.new_group(all);
    std::vector<std::vector<std::int32_t>> sent;
    std::vector<Work> sends;
    for (int i = 0; i < kMessages; ++i)
      sent.push_back(message(world.rank(), after(world), i, count_of(i)));
    for (int i = 0; i < kMessages; ++i) {
      ProcessGroup& group = i % 5 == 0 ? other : world;
      sends.push_back(
          group.isend(sent[static_cast<std::size_t>(i)], after(world), {.tag = tag_of(i)}));
    }
    std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()));
    // Of two groups and three tags, each in its order.
    std::vector<int> queues[2][3];
    for (int i = 0; i < kMessages; ++i) queues[i % 5 == 0 ? 0 : 1][tag_of(i)].push_back(i);
    for (auto& group : queues)
      for (auto& queue : group) std::reverse(queue.begin(), queue.end());
    for (int done = 0; done < kMessages;) {
      auto& queue = queues[random() % 2][random() % 3];
      if (queue.empty()) continue;
      const int number = queue.back();
      queue.pop_back();
      ++done;
      ProcessGroup& group = number % 5 == 0 ? other : world;
      std::vector<std::int32_t> got(count_of(number), -1);
      switch (random() % 4) {
        case 0: group.irecv(got, from, {.tag = tag_of(number)}).wait(); break;
        case 1: EXPECT_EQ(group.recv(got, any_source, {.tag = tag_of(number)}), from); break;
        default: EXPECT_EQ(group.recv(got, from, {.tag = tag_of(number)}), from); break;
      }
      ASSERT_EQ(got, message(from, world.rank(), number, got.size())) << "message " << number;
    }
    wait_all(sends);
  });
}

TEST_P(PointToPoint, AnySourceGetsEveryMessageOnceAndTellsItsSource) {
  run([](ProcessGroup& world) {
    constexpr int kEach = 30;
    std::vector<std::vector<std::int32_t>> sent;
    std::vector<Work> sends;
    for (int i = 0; i < kEach; ++i) {
      for (int to = 0; to < world.size(); ++to) {
        sent.push_back({world.rank(), i});
        sends.push_back(world.isend(sent.back(), to, {.tag = 9}));
      }
    }
    std::vector<int> next(static_cast<std::size_t>(world.size()), 0);
    for (int i = 0; i < kEach * world.size(); ++i) {
      std::vector<std::int32_t> got(2);
      Work work = world.irecv(got, any_source, {.tag = 9});
      work.wait();
      ASSERT_EQ(work.source_rank(), got[0]);
      EXPECT_EQ(got[1], next[static_cast<std::size_t>(got[0])]++) << "out of order";
    }
    wait_all(sends);
    EXPECT_EQ(sends.front().source_rank(), -1);
    EXPECT_EQ(sends.front().tag(), -1);
    // With any_tag, too: all messages of one rank in the order of their sends. A monitored barrier,
    // whose messages have a tag of the library, goes on meanwhile.
    world.barrier().wait();
    sends.clear();
    for (int i = 0; i < kEach; ++i) {
      for (int to = 0; to < world.size(); ++to) {
        std::vector<std::int32_t>& own = sent[static_cast<std::size_t>(i * world.size() + to)];
        sends.push_back(world.isend(own, to, {.tag = i % 4}));
      }
    }
    world.monitored_barrier();
    std::fill(next.begin(), next.end(), 0);
    for (int i = 0; i < kEach * world.size(); ++i) {
      std::vector<std::int32_t> got(2);
      if (i % 3 == 0) {
        Message found = world.probe(any_source, {.tag = any_tag});
        EXPECT_EQ(found.tag(), next[static_cast<std::size_t>(found.source())] % 4);
        found.recv(got);
        EXPECT_EQ(found.source(), got[0]);
      } else {
        const int from = i % world.size();
        Work work =
            world.irecv(got, next[static_cast<std::size_t>(from)] < kEach ? from : any_source,
                        {.tag = any_tag});
        work.wait();
        ASSERT_EQ(work.source_rank(), got[0]);
        EXPECT_EQ(work.tag(), got[1] % 4);
      }
      EXPECT_EQ(got[1], next[static_cast<std::size_t>(got[0])]++) << "out of order";
    }
    wait_all(sends);
    EXPECT_FALSE(world.try_probe(any_source, {.tag = any_tag}));
    world.monitored_barrier();
  });
}

TEST_P(PointToPoint, WorksBesideCollectives) {
  run([](ProcessGroup& world) {
    const int to = after(world);
    const int from = before(world);
    std::vector<double> large(200'000, world.rank());
    std::vector<double> theirs(large.size());
    std::vector<Work> works;
    std::vector<std::vector<float>> sums(12, std::vector<float>(5000, 1));
    works.push_back(world.irecv(theirs, from));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      works.push_back(world.all_reduce(sums[i]));
      if (i == 5) works.push_back(world.isend(large, to));
    }
    wait_all(works);
    EXPECT_EQ(theirs, std::vector<double>(large.size(), from));
    for (const auto& sum : sums) EXPECT_EQ(sum[4999], static_cast<float>(world.size()));
  });
}

TEST_P(PointToPoint, ViewsMayHaveStridesOnBothSides) {
  run([](ProcessGroup& world) {
    const int to = after(world);
    const int from = before(world);
    for (const std::int64_t rows : {std::int64_t{3}, std::int64_t{400}}) {
      const std::int64_t columns = 100;
      const auto bytes = static_cast<std::size_t>(rows * columns);
      std::vector<float> source(bytes);
      std::iota(source.begin(), source.end(), static_cast<float>(world.rank()));
      std::vector<float> target(2 * bytes, -1);
      const std::int64_t shape[] = {columns, rows};
      const std::int64_t transposed[] = {1, columns};
      const std::int64_t spread[] = {2 * rows, 2};
      Work send = world.isend(TensorView(source.data(), DType::float32, shape, transposed), to);
      world.recv(TensorView(target.data(), DType::float32, shape, spread), from);
      send.wait();
      std::size_t wrong = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto at = static_cast<std::size_t>(c * 2 * rows + 2 * r);
          if (target[at] != static_cast<float>(from + r * columns + c)) ++wrong;
          if (target[at + 1] != -1) ++wrong;
        }
      }
      EXPECT_EQ(wrong, 0u) << rows;
    }
  });
}

TEST_P(PointToPoint, ABatchMayNameThemInAnyOrder) {
  run([](ProcessGroup& world) {
    const auto n = static_cast<std::size_t>(world.size());
    std::vector<std::vector<float>> out(n);
    std::vector<std::vector<float>> in(n, std::vector<float>(40'000));
    std::vector<P2POp> operations;
    for (int peer = 0; peer < world.size(); ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      out[p].assign(40'000, static_cast<float>(100 * world.rank() + peer));
      operations.push_back(P2POp::irecv(in[p], peer));
      operations.push_back(P2POp::isend(std::as_const(out[p]), peer));
    }
    if (world.rank() % 2 == 0) std::reverse(operations.begin(), operations.end());
    std::vector<Work> works = world.batch_isend_irecv(operations);
    EXPECT_EQ(works.size(), 2 * n);
    wait_all(works);
    for (std::size_t p = 0; p < n; ++p) {
      EXPECT_EQ(in[p].back(), static_cast<float>(100 * static_cast<int>(p) + world.rank()));
    }
  });
}

TEST_P(PointToPoint, SubGroupsHaveRanksAndMessagesOfTheirOwn) {
  run([](ProcessGroup& world) {
    std::vector<int> reversed;
    for (int r = world.size(); r-- > 0;) reversed.push_back(r);
    // A rank may be faster than others and send before they have made the group.
    ProcessGroup group = world.new_group(reversed);
    ASSERT_TRUE(group);
    for (int to = 0; to < group.size(); ++to) {
      const std::vector<int> mine{group.rank(), 1};
      const std::vector<int> other{group.rank(), 2};
      group.send(mine, to);
      world.send(other, group.global_rank(to));
    }
    for (int from = 0; from < group.size(); ++from) {
      std::vector<int> got(2);
      EXPECT_EQ(group.recv(got, from), from);
      EXPECT_EQ(got, (std::vector<int>{from, 1}));
      EXPECT_EQ(world.recv(got, group.global_rank(from)), group.global_rank(from));
      EXPECT_EQ(got, (std::vector<int>{from, 2}));
    }
  });
}

TEST(PointToPointSelf, ALargeMessageToOneselfWaitsForItsRecv) {
  test::World{1}.run([](ProcessGroup& world) {
    const std::vector<std::uint8_t> large(kEagerLimit + 1, 5);
    std::vector<std::uint8_t> got(large.size());
    Work send = world.isend(large, 0);
    EXPECT_FALSE(send.done());
    EXPECT_EQ(world.recv(got, any_source), 0);
    EXPECT_TRUE(send.done());
    EXPECT_EQ(got, large);
    send.wait();
    const Told error =
        told<TimeoutError>([&] { world.send(large, 0, {.timeout = milliseconds(100)}); });
    EXPECT_THAT(error.text, HasSubstr("send(to 0, tag 0, uint8 x 65537)"));
  });
}

/// More than the sender may send before the receiver reports that it has taken some.
TEST(PointToPointShort, BlockingRecvsGiveTheCreditBack) {
  test::World{2}.run([](ProcessGroup& world) {
    std::vector<std::uint64_t> value(1);
    const std::uint64_t most = engine::kMatchCredit + engine::kMatchCredit / 8;
    for (std::uint64_t i = 0; i < most; ++i) {
      value[0] = i;
      if (world.rank() == 0) world.send(value, 1);
      if (world.rank() == 1) {
        value[0] = ~i;
        ASSERT_EQ(world.recv(value, 0), 0);
        ASSERT_EQ(value[0], i);
      }
    }
  });
}

class PointToPointOfTwo : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Ways, PointToPointOfTwo,
                         testing::ValuesIn(test::worlds({2}, {Way::shm, Way::tcp, Way::tls})),
                         test::world_name);

TEST_P(PointToPointOfTwo, AnotherCountOrDtypeIsTheRecvsErrorAndNamesBoth) {
  for (const bool recv_first : {false, true}) {
    for (const bool dtype : {false, true}) {
      SCOPED_TRACE(std::string(recv_first ? "recv first, " : "send first, ") +
                   (dtype ? "another dtype" : "another count"));
      test::World{3, GetParam().way}.run([&](ProcessGroup& world) {
        std::vector<float> values(8, 1);
        std::vector<std::int32_t> words(8, 7);
        const Told error = told<DisagreementError>([&] {
          if (world.rank() == (recv_first ? 0 : 1)) world.barrier().wait();
          if (world.rank() == 0) world.send(std::span(values).first(dtype ? 8 : 6), 1, {.tag = 4});
          Work work;
          if (world.rank() == 1)
            work =
                world.irecv(dtype ? TensorView(words) : TensorView(words.data(), DType::float32, 8),
                            0, {.tag = 4});
          if (world.rank() != (recv_first ? 0 : 1)) world.barrier().wait();
          if (world.rank() == 1) work.wait();
          world.barrier().wait();  // told by the receiver
        });
        for (const std::string& part :
             {std::string("rank 1"), std::string("rank 0"), std::string("tag 4"),
              std::string(dtype ? "float32 x 8" : "float32 x 6"),
              std::string(dtype ? "int32 x 8" : "float32 x 8")})
          EXPECT_THAT(error.text, HasSubstr(part));
        EXPECT_EQ(words, std::vector<std::int32_t>(8, 7)) << "the buffer was written";
        EXPECT_FALSE(world.health().ok());
      });
    }
  }
}

TEST_P(PointToPointOfTwo, WhatWasSentBeforeStillArrives) {
  run([](ProcessGroup& world) {
    std::vector<int> values(1000);
    if (world.rank() == 0) {
      std::iota(values.begin(), values.end(), 0);
      for (int i = 0; i < 2; ++i) world.send(values, 1, {.tag = 2});
      return;
    }
    EXPECT_EQ(world.recv(values, 0, {.tag = 2}), 0);
    EXPECT_EQ(values[999], 999);
    EXPECT_EQ(world.probe(any_source, {.tag = 2}).recv<int>(), values);
    const auto expect_left = [](const std::function<void()>& call) {
      const Told error = told<NetworkError>(call);
      EXPECT_EQ(error.code, Errc::peer_left) << error.text;
      EXPECT_EQ(error.culprit, 0) << error.text;
    };
    for (const int from : {0, any_source}) {
      expect_left([&] { world.recv(values, from, {.tag = 2}); });
      expect_left([&] { (void)world.probe(from, {.tag = 2}); });
    }
  });
}

TEST_P(PointToPointOfTwo, IsToldAtTheCallAndHarmsNothing) {
  run([](ProcessGroup& world) {
    std::vector<float> data(4, 1);
    const int other = 1 - world.rank();
    EXPECT_THROW(world.send(data, any_source), InvalidArgument);
    EXPECT_THROW(world.recv(data, -2), InvalidArgument);
    EXPECT_THROW((void)world.irecv(data, other, {.tag = -1}), InvalidArgument);
    EXPECT_THROW((void)world.isend(data, other, {.timeout = seconds(0)}), InvalidArgument);
    EXPECT_TRUE(world.batch_isend_irecv({}).empty());
    const std::int64_t shape[] = {4};
    const std::int64_t still[] = {0};
    const TensorView one(data.data(), DType::float32, shape, still);
    EXPECT_THROW(world.recv(one, other), InvalidArgument);
    const TensorView nowhere(nullptr, DType::float32, 4);
    EXPECT_THROW(world.send(nowhere, other), InvalidArgument);
    EXPECT_THROW(world.recv(nowhere, other), InvalidArgument);
    const P2POp lost[] = {P2POp::isend(data, other), P2POp::irecv(nowhere, other)};
    EXPECT_THROW((void)world.batch_isend_irecv(lost), InvalidArgument);
    // Of a batch nothing is started when one is wrong.
    const P2POp batch[] = {P2POp::isend(data, other), P2POp::irecv(data, 5)};
    EXPECT_THROW((void)world.batch_isend_irecv(batch), InvalidArgument);
    std::vector<float> mine(4, static_cast<float>(world.rank()));
    Work send = world.isend(mine, other);
    world.recv(data, other);
    send.wait();
    EXPECT_EQ(data[3], static_cast<float>(other));
  });
}

}  // namespace
}  // namespace tutti
