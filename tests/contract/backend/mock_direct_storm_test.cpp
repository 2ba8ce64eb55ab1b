#include <barrier>

#include "mock_direct_ranks.hpp"
#include "support/sanitized.hpp"

// Many messages at once, of every size and place, in any order, beside collectives; and groups that
// end_somehow while messages are on their way.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 3;
constexpr int kRounds = kSanitized ? 3 : 10;

/// The count of the message of a thread from a rank to another one; both know it.
std::size_t count_between(unsigned seed, int from, int to, int thread, int round) {
  std::seed_seq mixed{seed, static_cast<unsigned>(from * 10 + to),
                      static_cast<unsigned>(thread * 100 + round)};
  std::mt19937 random(mixed);
  const std::size_t counts[] = {kSmall, kMost, kMost + 1, kLarge + random() % 50};
  return counts[random() % 4];
}

void end_somehow(Work work, unsigned how) {
  if (how == 0) (void)work.wait_for(1us);
  if (how == 1) work.wait();
  while (how == 2 && !work.done()) std::this_thread::yield();
  finish(std::move(work));
}

/// One thread exchanges messages with all ranks, also its own, and looks at what came.
void exchange_messages(ProcessGroup& world, unsigned seed, int thread, int round) {
  const int self = world.rank();
  std::mt19937 own(seed * 77 + static_cast<unsigned>(self * 1000 + thread * 100 + round));
  CallersStream stream(world);
  std::vector<std::vector<float>> out;
  std::vector<std::vector<float>> in;
  std::vector<std::pair<Kind, int>> order;
  const auto first = [&](int from, int to) { return from * 7 + to * 3 + thread + round; };
  for (int rank = 0; rank < world.size(); ++rank) {
    out.push_back(numbers(count_between(seed, self, rank, thread, round), first(self, rank)));
    in.emplace_back(count_between(seed, rank, self, thread, round), -1.0F);
    order.emplace_back(Kind::send, rank);
    order.emplace_back(Kind::recv, rank);
  }
  std::shuffle(order.begin(), order.end(), own);
  std::vector<Work> works;
  for (const auto& [kind, rank] : order) {
    auto& values = (kind == Kind::send ? out : in)[static_cast<std::size_t>(rank)];
    TensorView view = on_gpu(values);
    const auto place = own() % 6;
    if (place == 0) view = on_cpu(values);
    if (place == 1) view = TensorView(values.data(), DType::float32, values.size(), kOther);
    works.push_back(message(world, kind, view, rank, thread, place == 2 ? stream.handle : 0));
  }
  std::shuffle(works.begin(), works.end(), own);
  for (Work& work : works) end_somehow(std::move(work), own() % 4);
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto& got = in[static_cast<std::size_t>(rank)];
    read_on_host(world, got);
    EXPECT_EQ(got, numbers(got.size(), first(rank, self)));
  }
}

TEST(MockDirectStorm, EveryMessageFindsItsRecv) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    run_direct(MockGpuWorld(3, 2), [&](ProcessGroup& world) {
      std::vector<std::thread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          for (int round = 0; round < kRounds; ++round)
            exchange_messages(world, seed, thread, round);
        });
      }
      for (int i = 0; i < kRounds; ++i) {
        std::vector<float> sums(i % 2 == 0 ? 5000 : 700, 1);
        finish(reduce_on(world, on_gpu(sums), 0));
        EXPECT_EQ(sums, std::vector<float>(sums.size(), 3));
      }
      for (std::thread& thread : threads) thread.join();
    });
  }
}

/// The values outlive the world: copies of messages that have failed may still run.
TEST(MockDirectStorm, AGroupThatIsAbortedAndDestroyedEndsThem) {
  for (unsigned seed = 0; seed < (kSanitized ? 6U : 30U); ++seed) {
    SCOPED_TRACE(seed);
    std::vector<std::vector<float>> values(3 * 3 * 4 * 2, std::vector<float>(kLarge, 1));
    std::barrier together(3);
    run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
      std::mt19937 own(seed * 3 + static_cast<unsigned>(world.rank()));
      ProcessGroup group = world.new_group({0, 1, 2});
      std::vector<Work> works;
      for (int tag = 0; tag < 4; ++tag) {
        for (int other = 0; other < 3; ++other) {
          if (other == world.rank()) continue;
          for (const Kind kind : {Kind::send, Kind::recv}) {
            auto& one = values[static_cast<std::size_t>(((world.rank() * 3 + other) * 4 + tag) * 2 +
                                                        (kind == Kind::send ? 0 : 1))];
            Work work =
                message(group, kind, own() % 4 == 0 ? on_cpu(one) : on_gpu(one), other, tag);
            if (own() % 2 == 0)
              work.detach();
            else
              works.push_back(std::move(work));
          }
        }
      }
      if (static_cast<int>(seed % 3) == world.rank()) group.abort("enough of it");
      for (Work& work : works) {
        if (seed % 2 == 0) {
          work.detach();
          continue;
        }
        try {
          finish(std::move(work));
        } catch (const Error&) {  // or it was over before
        }
      }
      group = {};
      together.arrive_and_wait();
    });
  }
}

/// A group with messages to several ranks goes while the GPU still has their copies to make.
TEST(MockDirectStorm, ABrokenGroupMayGoWhileCopiesRun) {
  std::vector<std::vector<float>> first(3, std::vector<float>(kLarge, 1));
  std::vector<std::vector<float>> second(3, std::vector<float>(kLarge, 1));
  std::barrier together(3);
  run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
    const auto self = static_cast<std::size_t>(world.rank());
    ProcessGroup group = world.new_group({0, 1, 2});
    std::vector<Work> works;
    const auto begin = [&] {
      if (world.rank() != 0) return works.push_back(recv_from(group, on_gpu(first[self]), 0));
      works.push_back(send_to(group, on_gpu(first[self]), 1));
      works.push_back(send_to(group, on_gpu(second[self]), 2));
    };
    begin();
    for (Work& work : works) finish(std::move(work));
    works.clear();
    together.arrive_and_wait();
    std::optional<Hold> copies;
    if (world.rank() == 0) copies.emplace(world);
    together.arrive_and_wait();
    begin();
    std::this_thread::sleep_for(20ms);
    together.arrive_and_wait();
    if (world.rank() == 2) group.abort("enough of it");
    together.arrive_and_wait();
    std::thread release([&] {
      std::this_thread::sleep_for(200ms);
      copies.reset();
    });
    for (Work& work : works) work.detach();
    group = {};
    release.join();
    together.arrive_and_wait();
  });
}

}  // namespace
}  // namespace tutti::test
