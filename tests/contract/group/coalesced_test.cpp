#include <gmock/gmock.h>

#include "reductions.hpp"
#include "support/sanitized.hpp"
#include "support/thread_worlds.hpp"
#include "support/told.hpp"

// Several tensors in one operation give bit by bit what a call for each gives.
namespace tutti {
namespace {

using test::Strip;
using test::World;

/// Pieces of a long row of random numbers: drawing each would take longer than all that is tested.
Strip drawn(std::size_t count, bool strided, std::mt19937_64& random) {
  static const std::vector<float> row = [] {
    std::mt19937_64 always(7);
    std::uniform_real_distribution<float> values(-1000, 1000);  // sums round
    std::vector<float> all(1 << 16);
    for (float& value : all) value = values(always);
    return all;
  }();
  std::vector<float> values;
  while (values.size() < count) {
    const auto first = row.begin() + static_cast<std::ptrdiff_t>(random() % row.size());
    const auto n = std::min(static_cast<std::ptrdiff_t>(count - values.size()), row.end() - first);
    values.insert(values.end(), first, first + n);
  }
  return Strip(std::as_bytes(std::span(values)), DType::float32, strided);
}

/// Some tensors; the same numbers of elements on every rank, each form for itself.
struct Set {
  std::vector<Strip> tensors;

  Set(const std::vector<std::size_t>& counts, std::size_t times, std::mt19937_64& own) {
    for (const std::size_t count : counts)
      tensors.push_back(drawn(count * times, own() % 3 == 0, own));
  }
  [[nodiscard]] std::vector<TensorView> views() {
    std::vector<TensorView> all;
    for (Strip& tensor : tensors) all.push_back(tensor.view());
    return all;
  }
};

std::vector<TensorView> views_of(std::vector<std::vector<int>>& tensors) {
  std::vector<TensorView> all;
  for (std::vector<int>& one : tensors) all.push_back(TensorView(one));
  return all;
}

std::vector<std::size_t> draw_counts(std::mt19937_64& random, std::size_t most) {
  std::vector<std::size_t> counts(2 + random() % 40);
  const std::size_t limits[] = {1, 8, 100, 3000, most};
  for (std::size_t& count : counts) count = random() % (limits[random() % 5] + 1);
  return counts;
}

class Coalesced : public test::OnWorlds {
 protected:
  /// In shared memory once more by algorithms that go by messages.
  static void run(const World::Body& body) {
    OnWorlds::run(body);
    if (GetParam().way != test::Way::shm) return;
    SCOPED_TRACE("by messages");
    OnWorlds::run(body, [](Config& config) {
      config.algorithms =
          "all_reduce:direct,all_gather:ring,reduce_scatter:direct,"
          "broadcast:scatter_all_gather_broadcast";
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Coalesced, testing::ValuesIn(test::plain_worlds()),
                         test::world_name);

TEST_P(Coalesced, GivesWhatSingleCallsGive) {
  run([](ProcessGroup& world) {
    std::mt19937_64 random(3);  // alike on every rank
    std::mt19937_64 own(100 + static_cast<std::uint64_t>(world.rank()));
    const auto size = static_cast<std::size_t>(world.size());
    for (int round = 0; round < (test::kSanitized ? 2 : 5); ++round) {
      const auto counts = draw_counts(random, test::kSanitized ? 4'000 : 20'000);
      const int root = static_cast<int>(random() % size);
      const ReduceOp op = random() % 2 == 0 ? ReduceOp::sum : ReduceOp::avg;
      Set together(counts, 1, own);
      Set each = together;
      world.all_reduce_coalesced(together.views(), {.op = op}).wait();
      for (Strip& one : each.tensors) world.all_reduce(one.view(), {.op = op}).wait();
      EXPECT_EQ(together.tensors, each.tensors) << "all_reduce";

      world.all_reduce_coalesced(together.views(), {.op = ReduceOp::premul_sum, .factor = 0.3})
          .wait();
      for (Strip& one : each.tensors)
        world.all_reduce(one.view(), {.op = ReduceOp::premul_sum, .factor = 0.3}).wait();
      EXPECT_EQ(together.tensors, each.tensors) << "PREMUL_SUM";

      Set sent(counts, 1, own);
      each = sent;
      world.broadcast_coalesced(sent.views(), {.root = root}).wait();
      for (Strip& one : each.tensors) world.broadcast(one.view(), {.root = root}).wait();
      EXPECT_EQ(sent.tensors, each.tensors) << "broadcast";

      Set inputs(counts, 1, own);
      Set outputs(counts, size, own);
      Set expected = outputs;
      world.all_gather_coalesced(outputs.views(), inputs.views()).wait();
      for (std::size_t t = 0; t < counts.size(); ++t)
        world.all_gather(expected.tensors[t].view(), inputs.tensors[t].view()).wait();
      EXPECT_EQ(outputs.tensors, expected.tensors) << "all_gather";

      Set blocks(counts, 1, own);
      expected = blocks;
      world.reduce_scatter_coalesced(blocks.views(), outputs.views(), {.op = op}).wait();
      for (std::size_t t = 0; t < counts.size(); ++t)
        world.reduce_scatter(expected.tensors[t].view(), outputs.tensors[t].view(), {.op = op})
            .wait();
      EXPECT_EQ(blocks.tensors, expected.tensors) << "reduce_scatter";
    }
  });
}

TEST_P(Coalesced, GathersIntoListsOfEachRank) {
  run([](ProcessGroup& world) {
    // Two tensors of each rank, of 3 and of 500 elements.
    const auto made_by = [](int rank) {
      return std::vector{std::vector<int>(3, rank), std::vector<int>(500, 10 * rank)};
    };
    std::vector<std::vector<int>> mine = made_by(world.rank());
    std::vector<std::vector<int>> theirs;
    std::vector<std::vector<int>> expected;
    for (int r = 0; r < world.size(); ++r) {
      for (const std::vector<int>& one : made_by(r)) {
        theirs.emplace_back(one.size(), -1);
        expected.push_back(one);
      }
    }
    world.all_gather_coalesced(views_of(theirs), views_of(mine)).wait();
    EXPECT_EQ(theirs, expected);
  });
}

TEST_P(Coalesced, WorksInPlaceAndWithManyInFlight) {
  run([](ProcessGroup& world) {
    const auto size = static_cast<std::size_t>(world.size());
    const auto me = static_cast<std::size_t>(world.rank());
    std::vector<std::vector<int>> wide(2 * 20, std::vector<int>(4 * size));
    std::vector<std::vector<int>> sums(2 * 20, std::vector<int>(7, 1));
    std::vector<Work> works;
    for (std::size_t i = 0; i < wide.size(); i += 2) {  // more than a window holds
      std::vector<TensorView> blocks;
      for (std::size_t t = i; t < i + 2; ++t) {
        std::fill_n(wide[t].begin() + static_cast<std::ptrdiff_t>(4 * me), 4, world.rank() + 1);
        blocks.push_back(TensorView(std::span(wide[t]).subspan(4 * me, 4)));
      }
      works.push_back(world.all_gather_coalesced(
          std::vector{TensorView(wide[i]), TensorView(wide[i + 1])}, blocks));
      works.push_back(
          world.all_reduce_coalesced(std::vector{TensorView(sums[i]), TensorView(sums[i + 1])}));
    }
    wait_all(works);
    for (const auto& one : wide) {
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], static_cast<int>(i / 4) + 1);
    }
    for (const auto& one : sums) EXPECT_EQ(one, std::vector<int>(7, world.size()));
  });
}

TEST(CoalescedWork, CallsBackOnceWhenAllIsThere) {
  World{3}.run([](ProcessGroup& world) {
    struct Seen {
      std::vector<int> a = std::vector<int>(10, 1);
      std::vector<int> b = std::vector<int>(100'000, 2);
      std::atomic<int> count{0};
    } seen;
    Work work = world.all_reduce_coalesced(std::vector{TensorView(seen.a), TensorView(seen.b)});
    work.on_done({[](void* context, const Outcome& status) noexcept {
                    auto& all = *static_cast<Seen*>(context);
                    if (status.ok() && all.a.back() == 3 && all.b.back() == 6) ++all.count;
                  },
                  &seen});
    work.wait();
    test::wait_for([&] { return seen.count > 0; });
    world.barrier().wait();
    EXPECT_EQ(seen.count, 1);
  });
}

/// 12 elements as two tensors.
std::vector<TensorView> divided(std::vector<int>& values, std::size_t cut) {
  return {TensorView(std::span(values).first(cut)), TensorView(std::span(values).subspan(cut))};
}

TEST(CoalescedDisagreement, OfHowTheTensorsAreDividedIsAnError) {
  for (const World& where : test::worlds({3}, {test::Way::shm, test::Way::tcp})) {
    where.run([](ProcessGroup& world) {
      std::vector<int> values(12, world.rank());
      EXPECT_THROW(
          {
            world.all_reduce_coalesced(divided(values, world.rank() == 2 ? 5 : 4)).wait();
            world.barrier().wait();
          },
          DisagreementError);
      EXPECT_EQ(values, std::vector<int>(12, world.rank()));
    });
  }
}

TEST(CoalescedDisagreement, WithTheSameElementsInOneTensorIsAnError) {
  World{2}.run([](ProcessGroup& world) {
    std::vector<int> values(12, world.rank());
    for (int round = 0; round < 3; ++round) {  // so that both plans are known
      world.all_reduce_coalesced(divided(values, 4)).wait();
      world.all_reduce(values).wait();
    }
    const std::vector<int> before = values;
    const auto error = test::told<DisagreementError>([&] {
      (world.rank() == 0 ? world.all_reduce_coalesced(divided(values, 4))
                         : world.all_reduce(values))
          .wait();
    });
    EXPECT_THAT(error.text, testing::HasSubstr("in several tensors"));
    EXPECT_EQ(values, before);
  });
}

TEST(CoalescedMisuse, IsToldAtTheCallAndHarmsNothing) {
  World{2}.run([](ProcessGroup& world) {
    std::vector<float> a(4, 1);
    std::vector<float> b(6, 1);
    std::vector<int> c(4, 1);
    std::vector<float> wide(8);
    const auto views = [](auto&... one) { return std::vector<TensorView>{TensorView(one)...}; };
    EXPECT_THROW((void)world.all_reduce_coalesced({}), InvalidArgument);
    EXPECT_THROW((void)world.all_reduce_coalesced(views(a, c)), InvalidArgument) << "dtypes";
    const std::vector<TensorView> nothing{TensorView(a), TensorView(nullptr, DType::float32, 3)};
    EXPECT_THROW((void)world.all_reduce_coalesced(nothing), InvalidArgument) << "null";
    EXPECT_THROW((void)world.all_reduce_coalesced(views(a, b), {.op = ReduceOp::band}),
                 InvalidArgument);
    EXPECT_THROW((void)world.broadcast_coalesced(views(a, b), {.root = 2}), InvalidArgument);
    EXPECT_THROW((void)world.all_gather_coalesced(views(wide, b), views(a, b)), InvalidArgument)
        << "sizes";
    EXPECT_THROW((void)world.all_gather_coalesced(views(wide), views(a, b)), InvalidArgument)
        << "numbers of tensors";
    EXPECT_THROW((void)world.reduce_scatter_coalesced(views(a, b), views(wide, b)),
                 InvalidArgument);
    // In place is this rank's own block.
    std::vector<float> more(8);
    const auto half = [&](std::vector<float>& of, int rank) {
      return TensorView(std::span(of).subspan(rank == 0 ? 0 : 4, 4));
    };
    const std::vector<TensorView> ours{half(wide, world.rank()), half(more, world.rank())};
    world.all_gather_coalesced(views(wide, more), ours).wait();
    world.reduce_scatter_coalesced(ours, views(wide, more)).wait();
    world.all_reduce_coalesced(views(a, b)).wait();
    EXPECT_EQ(a[3], 2);
    EXPECT_EQ(b[5], 2);
  });
}

}  // namespace
}  // namespace tutti
