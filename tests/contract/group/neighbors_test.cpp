#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <numeric>

#include "engine/credit_account.hpp"
#include "support/called_back.hpp"
#include "support/coroutine.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Messages to and from several ranks: waiting for the first of several Works, recvs that are
// cancelled, peers that are nobody, and grids of ranks.
namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::after;
using test::before;
using test::told;
using test::Way;
using testing::ElementsAre;
using testing::HasSubstr;

void on_all_worlds(const test::World::Body& body) {
  for (const test::World& world : test::worlds({1, 2, 3, 5}, {Way::shm, Way::tcp})) {
    SCOPED_TRACE(testing::PrintToString(world));
    world.run(body);
  }
}

/// Waits for the Work, which goes with it, and notes that the wait has thrown.
test::Coroutine resume_and_tell(std::unique_ptr<Work> work, bool& told_so, std::latch& resumed) {
  try {
    Work& its = *work;
    co_await its;
  } catch (const InvalidArgument&) {
    told_so = true;
  }
  work.reset();
  resumed.count_down();
}

TEST(WaitAny, GivesEachWorkOnceWhicheverGroupItIsOf) {
  on_all_worlds([](ProcessGroup& world) {
    const auto size = static_cast<std::size_t>(world.size());
    ProcessGroup other = world.split(0);
    for (const bool some : {false, true}) {
      std::vector<int> got(2 * size, -1);
      std::vector<Work> works(2 * size + 3);  // three are empty, or have nothing to wait for
      for (std::size_t i = 0; i < size; ++i) {
        works[i] = world.irecv(std::span(&got[i], 1), static_cast<int>(i), {.tag = 3});
        works[size + i] = other.irecv(std::span(&got[size + i], 1), static_cast<int>(i));
      }
      works[2 * size] = world.irecv(std::span(got).first(1), no_rank);
      works[2 * size + 1] = world.barrier();
      works[2 * size + 1].wait();
      EXPECT_EQ(wait_any(works, milliseconds(1)), std::nullopt) << "nothing was sent";
      EXPECT_TRUE(wait_some(works, milliseconds(0)).empty());
      world.barrier().wait();
      std::vector<int> sent(2, 10 + world.rank());
      std::vector<Work> sends;
      for (int to = world.size() - 1; to >= 0; --to) {
        sends.push_back(other.isend(std::span(sent).first(1), to));
        sends.push_back(world.isend(std::span(sent).last(1), to, {.tag = 3}));
      }
      std::vector<std::size_t> ended;
      while (ended.size() < 2 * size) {
        if (some) {
          const std::vector<std::size_t> now = wait_some(works);
          ASSERT_FALSE(now.empty());
          EXPECT_TRUE(std::is_sorted(now.begin(), now.end()));
          ended.insert(ended.end(), now.begin(), now.end());
        } else {
          const std::optional<std::size_t> now = wait_any(works);
          ASSERT_TRUE(now);
          ended.push_back(*now);
        }
        EXPECT_EQ(got[ended.back()], 10 + static_cast<int>(ended.back() % size));
        EXPECT_EQ(works[ended.back()].source_rank(), static_cast<int>(ended.back() % size));
      }
      std::sort(ended.begin(), ended.end());
      std::vector<std::size_t> all(2 * size);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(ended, all);
      EXPECT_EQ(wait_any(works), std::nullopt) << "none is left";
      EXPECT_TRUE(wait_some(works).empty());
      wait_all(sends);
    }
  });
}

// A rank that sleeps in it is woken, and a failure is thrown without hiding what has ended.
TEST(WaitAny, SleepsAndTellsFailures) {
  for (const Way way : {Way::shm, Way::tcp}) {
    test::World{2, way}.run([](ProcessGroup& world) {
      ProcessGroup other = world.split(0);
      int got[] = {0, 0};
      if (world.rank() == 0) {
        std::this_thread::sleep_for(milliseconds(100));  // the other one sleeps by then
        world.send(std::span(got).first(1), 1);
        world.barrier().wait();
        other.abort("enough");
        world.barrier().wait();
        return;
      }
      Work works[] = {other.irecv(std::span(got).first(1), 0),
                      world.irecv(std::span(got).last(1), 0)};
      EXPECT_EQ(wait_any(works), 1u);
      EXPECT_EQ(works[1].source_rank(), 0);
      works[1] = world.barrier();
      test::wait_until_broken(other);
      test::wait_for([&] { return works[1].done(); });
      EXPECT_THROW((void)wait_some(works), BackendError);
      EXPECT_EQ(wait_any(works), 1u) << "its success was not told yet, and the failure was";
      EXPECT_EQ(wait_any(works), std::nullopt);
      world.barrier().wait();
    });
  }
}

// UserOps run their function in it, and do so though other Works have other ways to wait.
TEST(WaitAny, TakesWorksOfSeveralKinds) {
  test::World{2}.run([](ProcessGroup& world) {
    int told = 1 + world.rank();
    int got = 0;
    Work works[] = {world.irecv(std::span(&got, 1), 1 - world.rank()),
                    world.all_reduce(std::span(&told, 1), logical_and<int>())};
    EXPECT_EQ(wait_any(works), 1u);
    EXPECT_EQ(told, 1);
    EXPECT_EQ(wait_any(works, milliseconds(5)), std::nullopt);
    world.barrier().wait();
    world.send(std::span(&told, 1), 1 - world.rank());
    EXPECT_EQ(wait_any(works), 0u);
    EXPECT_EQ(got, 1);
  });
}

TEST(Cancel, GivesBackARecvThatNoMessageHasMatched) {
  on_all_worlds([](ProcessGroup& world) {
    std::vector<int> buffer(1, -1);
    std::vector<int> got(1);
    std::vector<int> sent{world.rank()};
    Work cancelled = world.irecv(buffer, any_source, {.tag = 99});
    test::Heard heard;
    cancelled.on_done(heard.callback());
    EXPECT_TRUE(cancelled.cancel());
    heard.wait();
    EXPECT_EQ(heard.status.code(), Errc::aborted);
    EXPECT_THAT(std::string(heard.status.message()),
                HasSubstr("recv(from anybody, tag 99, int32 x 1): this rank has cancelled it"));
    EXPECT_FALSE(cancelled.valid());
    EXPECT_FALSE(cancelled.cancel()) << "only once";
    EXPECT_EQ(cancelled.source_rank(), -1);
    EXPECT_EQ(cancelled.tag(), -1);
    // A coroutine that waits for it resumes at once, on the progress thread, and is told.
    for (int i = 0; i < 100; ++i) {
      std::latch resumed(1);
      bool told_so = false;
      auto awaited = std::make_unique<Work>(world.irecv(buffer, any_source, {.tag = 99}));
      Work& its = *awaited;
      resume_and_tell(std::move(awaited), told_so, resumed);
      EXPECT_TRUE(its.cancel());
      resumed.wait();
      EXPECT_TRUE(told_so);
    }
    EXPECT_THAT(told<InvalidArgument>([&] { cancelled.wait(); }).text, HasSubstr("cancelled"));
    world.barrier().wait();
    // The message is for the next recv.
    Work send = world.isend(sent, after(world), {.tag = 99});
    EXPECT_EQ(world.recv(got, any_source, {.tag = 99}), before(world));
    EXPECT_EQ(got[0], before(world));
    EXPECT_EQ(buffer[0], -1);
    Work all = world.barrier();
    EXPECT_FALSE(all.cancel());
    all.wait();
    EXPECT_FALSE(send.cancel());
    send.wait();
    EXPECT_FALSE(send.cancel());
    EXPECT_FALSE(world.irecv(got, no_rank).cancel());
    EXPECT_TRUE(world.health().ok());
  });
}

// Either the recv was cancelled and the message waits for the next one, or it has the message.
TEST(Cancel, RacesWithTheMessage) {
  for (const Way way : {Way::shm, Way::tcp}) {
    test::World{2, way}.run([](ProcessGroup& world) {
      const std::size_t counts[] = {1, 2000, engine::kEagerLimit};
      int cancelled = 0;
      for (int i = 0; i < 300; ++i) {
        std::vector<int> values(counts[i % 3], i);
        if (world.rank() == 0) {
          if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i % 50));
          world.send(values, 1, {.tag = i % 2});
          continue;
        }
        std::fill(values.begin(), values.end(), -1);
        Work recv = world.irecv(values, 0, {.tag = i % 5 == 0 ? any_tag : i % 2});
        for (int look = 0; look < i % 7; ++look) (void)recv.done();
        if (recv.cancel()) {
          ++cancelled;
          EXPECT_EQ(values.front(), -1);
          EXPECT_EQ(values.back(), -1);
          EXPECT_EQ(world.recv(values, 0, {.tag = any_tag}), 0);
        } else {
          recv.wait();
          EXPECT_EQ(recv.tag(), i % 2);
        }
        ASSERT_EQ(values, std::vector<int>(values.size(), i));
      }
      if (world.rank() == 1) {
        EXPECT_GT(cancelled, 0);
      }
    });
  }
}

TEST(NoRank, TakesPartInNothing) {
  on_all_worlds([](ProcessGroup& world) {
    std::vector<int> values{1, 2};
    std::vector<int> untouched{3, 4};
    world.send(values, no_rank);
    EXPECT_EQ(world.recv(untouched, no_rank), no_rank);
    Work recv = world.irecv(untouched, no_rank, {.tag = any_tag});
    EXPECT_TRUE(recv.done());
    test::Heard heard;
    recv.on_done(heard.callback());
    EXPECT_EQ(heard.times, 1);
    EXPECT_TRUE(heard.status.ok());
    Work moved = std::move(recv);
    moved.wait();
    moved.synchronize();
    EXPECT_EQ(moved.source_rank(), no_rank);
    const P2POp batch[] = {P2POp::irecv(untouched, no_rank), P2POp::isend(values, no_rank)};
    wait_all(world.batch_isend_irecv(batch));
    EXPECT_EQ(world.sendrecv(untouched, no_rank, values, no_rank), no_rank);
    EXPECT_EQ(untouched, (std::vector<int>{3, 4}));
    // Wrong calls are errors there, too, and so is -1.
    EXPECT_THROW(world.send(values, no_rank, {.tag = -1}), InvalidArgument);
    EXPECT_THROW(world.send(values, -1), InvalidArgument);
    EXPECT_THROW(world.send(TensorView(nullptr, DType::int32, 1), no_rank), InvalidArgument);
    EXPECT_THROW((void)world.probe(no_rank), InvalidArgument);
    EXPECT_THROW((void)world.try_probe(no_rank), InvalidArgument);
  });
}

TEST(SendRecv, MovesBothWaysAtOnce) {
  on_all_worlds([](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{10}, std::size_t{300'000}}) {
      const std::vector<int> mine(count, world.rank());
      std::vector<int> theirs(count, -1);
      EXPECT_EQ(
          world.sendrecv(theirs, before(world), mine, after(world), {.send_tag = 4, .recv_tag = 4}),
          before(world));
      EXPECT_EQ(theirs, std::vector<int>(count, before(world)));
      EXPECT_EQ(world.sendrecv(theirs, any_source, mine, before(world),
                               {.send_tag = 5, .recv_tag = any_tag}),
                after(world));
      EXPECT_EQ(theirs, std::vector<int>(count, after(world)));
      world.barrier().wait();  // any_source could get the next round's
    }
    std::vector<int> values(4);
    const auto error = told<InvalidArgument>(
        [&] { world.sendrecv(std::span(values).first(3), 0, std::span(values).last(3), 0); });
    EXPECT_THAT(error.text, HasSubstr("share memory"));
    std::vector<int> others(4);
    EXPECT_THROW(world.sendrecv(values, 0, others, world.size()), InvalidArgument);
    EXPECT_FALSE(world.try_probe(any_source, {.tag = any_tag})) << "nothing was sent";
  });
}

TEST(Cart, KnowsPlacesAndNeighbours) {
  test::World{1}.run([](ProcessGroup& world) {
    const auto refused = [&](std::vector<int> dims, std::vector<bool> periodic = {}) {
      return told<InvalidArgument>([&] { (void)cart(world, dims, periodic); }).text;
    };
    EXPECT_EQ(
        refused({2, 3}),
        "cart({2, 3}) in group 'world': the grid must have one place for each of the 1 ranks; a "
        "0 is chosen");
    EXPECT_THAT(refused({}), HasSubstr("a grid needs a dimension"));
    EXPECT_THAT(refused({1, -1}), HasSubstr("a dimension must not be negative"));
    EXPECT_THAT(refused({1, 1}, {true}), HasSubstr("2 dimensions, but `periodic` has 1"));
    EXPECT_THAT(refused({1 << 30, 1 << 30, 1 << 30}), HasSubstr("one place"));
    CartGroup grid = cart(world, {0, 1}, {true, false});
    EXPECT_THROW((void)grid.coords(1), InvalidArgument);
    EXPECT_THROW((void)grid.rank({0}), InvalidArgument);
    EXPECT_THROW((void)grid.shift(2), InvalidArgument);
    EXPECT_THROW((void)grid.neighbor_all_to_all({TensorView()}, {}), InvalidArgument);
    EXPECT_EQ(grid.shift(0).source, 0);
    EXPECT_EQ(grid.shift(1).destination, no_rank);
  });
  test::World{6}.run([](ProcessGroup& world) {
    EXPECT_THAT(cart(world, {0, 0}).dims(), ElementsAre(3, 2));
    EXPECT_THAT(cart(world, {0, 3}).dims(), ElementsAre(2, 3));
    EXPECT_THAT(cart(world, {0, 0, 0}).dims(), ElementsAre(3, 2, 1));
    EXPECT_THROW((void)cart(world, {0, 4}), InvalidArgument);
    const CartGroup grid = cart(world, {2, 3}, {false, true});
    const int row = world.rank() / 3;
    const int column = world.rank() % 3;
    EXPECT_THAT(grid.coords(), ElementsAre(row, column));
    for (int rank = 0; rank < 6; ++rank) {
      EXPECT_THAT(grid.coords(rank), ElementsAre(rank / 3, rank % 3));
      EXPECT_EQ(grid.rank({rank / 3, rank % 3 - 3}), rank);
    }
    EXPECT_EQ(grid.rank({2, 0}), no_rank);
    EXPECT_EQ(grid.rank({-1, 0}), no_rank);
    EXPECT_EQ(grid.shift(0).source, row == 0 ? no_rank : column);
    EXPECT_EQ(grid.shift(0).destination, row == 1 ? no_rank : 3 + column);
    EXPECT_EQ(grid.shift(1).source, 3 * row + (column + 2) % 3);
    EXPECT_EQ(grid.shift(1, -2).source, 3 * row + (column + 2) % 3);
    EXPECT_EQ(grid.shift(1, 7).destination, 3 * row + (column + 1) % 3);
  });
}

TEST(Cart, ExchangesWithAllNeighbours) {
  for (const bool periodic : {false, true}) {
    on_all_worlds([periodic](ProcessGroup& world) {
      CartGroup grid = cart(world, {0, 0}, {periodic, periodic});
      for (int round = 0; round < 3; ++round) {
        // Each value tells who sent it, and which way.
        std::vector<int> sent(4);
        for (int way = 0; way < 4; ++way)
          sent[static_cast<std::size_t>(way)] = 1000 * round + 10 * world.rank() + way;
        std::vector<int> got(4, -1);
        std::vector<TensorView> outputs;
        std::vector<TensorView> inputs;
        for (std::size_t way = 0; way < 4; ++way) {
          outputs.push_back(TensorView(std::span(got).subspan(way, 1)));
          inputs.push_back(TensorView(std::span(sent).subspan(way, 1)));
        }
        wait_all(grid.neighbor_all_to_all(outputs, inputs, {.tag = 20}));
        for (int d = 0; d < 2; ++d) {
          const auto [lower, upper] = grid.shift(d);
          const auto at = static_cast<std::size_t>(2 * d);
          const auto from = [&](int rank, int way) {
            return rank == no_rank ? -1 : 1000 * round + 10 * rank + 2 * d + way;
          };
          EXPECT_EQ(got[at], from(lower, 1)) << "what it has sent up";
          EXPECT_EQ(got[at + 1], from(upper, 0)) << "what it has sent down";
        }
      }
    });
  }
}

}  // namespace
}  // namespace tutti
