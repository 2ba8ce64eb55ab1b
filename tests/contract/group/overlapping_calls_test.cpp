#include <array>
#include <numeric>

#include "support/thread_worlds.hpp"

// Calls whose tensors overlap give what the same calls give with memory of their own.
namespace tutti {
namespace {

constexpr std::size_t kBlock = 5;

/// The tensor of rank `rank` at the begin: all elements of all ranks differ.
std::vector<float> row_of(int rank, std::size_t count) {
  std::vector<float> row(count);
  std::iota(row.begin(), row.end(), static_cast<float>(100 * rank));
  return row;
}

TensorView part(std::vector<float>& row, std::size_t first, std::size_t count) {
  return TensorView(&row[first], DType::float32, count);
}

std::vector<TensorView> blocks_of(std::vector<float>& row, std::size_t blocks) {
  std::vector<TensorView> views;
  for (std::size_t b = 0; b < blocks; ++b) views.push_back(part(row, b * kBlock, kBlock));
  return views;
}

/// The output of `start(group, output, input)`, with an input elsewhere and with one in the
/// output's row at `place`: both must be equal.
template <class Start>
void compare_in(ProcessGroup& world, std::size_t out_count, std::size_t in_count, std::size_t place,
                const Start& start) {
  const std::size_t length = std::max(out_count, place + in_count);
  std::vector<float> apart = row_of(world.rank(), length);
  std::vector<float> input(&apart[place], &apart[place] + in_count);
  start(part(apart, 0, out_count), TensorView(input)).wait();
  std::vector<float> together = row_of(world.rank(), length);
  start(part(together, 0, out_count), part(together, place, in_count)).wait();
  EXPECT_EQ(together, apart) << "input at " << place << " on rank " << world.rank();
}

void all_kinds(ProcessGroup& world) {
  const auto n = static_cast<std::size_t>(world.size());
  const std::size_t all = n * kBlock;
  for (std::size_t place = 0; place + kBlock <= all; ++place) {
    compare_in(world, all, kBlock, place, [&](const TensorView& out, const TensorView& in) {
      return world.all_gather(out, in);
    });
    const int root = static_cast<int>(place % n);
    compare_in(world, all, kBlock, place, [&](const TensorView& out, const TensorView& in) {
      return world.gather(out, in, {.root = root});
    });
    // An output among the inputs: the whole row is the input.
    for (const bool reduces : {true, false}) {
      std::vector<float> input = row_of(world.rank(), all);
      std::vector<float> expected(kBlock);
      std::vector<float> row = input;
      const TensorView own = part(row, place, kBlock);
      if (reduces) {
        world.reduce_scatter(TensorView(expected), TensorView(input)).wait();
        world.reduce_scatter(own, TensorView(row)).wait();
      } else {
        world.scatter(TensorView(expected), TensorView(input), {.root = root}).wait();
        world.scatter(own, TensorView(row), {.root = root}).wait();
      }
      std::copy(expected.begin(), expected.end(), &input[place]);
      EXPECT_EQ(row, input) << "output at " << place << " on rank " << world.rank();
    }
  }
  for (std::size_t place = 0; place <= kBlock; ++place) {
    compare_in(world, all, all, place, [&](const TensorView& out, const TensorView& in) {
      return world.all_to_all(out, in);
    });
    compare_in(world, all, all, place, [&](const TensorView& out, const ConstTensorView& in) {
      return world.all_reduce(out, in);
    });
    compare_in(world, all, all, place, [&](const TensorView& out, const ConstTensorView& in) {
      return world.reduce(out, in, {.root = static_cast<int>(place % n), .op = ReduceOp::max});
    });
    for (const bool exclusive : {false, true}) {
      compare_in(world, all, all, place, [&](const TensorView& out, const ConstTensorView& in) {
        return world.scan(out, in, {.exclusive = exclusive});
      });
    }
  }
  // Elements are written over such as are read later.
  constexpr std::size_t kMany = 100'000;
  std::vector<float> long_row = row_of(world.rank(), kMany + 100);
  const std::vector<float> first_part(long_row.begin(), long_row.begin() + kMany);
  std::vector<float> long_sum(kMany);
  world.all_reduce(long_sum, first_part).wait();
  world.all_reduce(part(long_row, 100, kMany), part(long_row, 0, kMany)).wait();
  EXPECT_TRUE(std::equal(long_sum.begin(), long_sum.end(), long_row.begin() + 100));
  std::vector<float> none;  // the output of other ranks is not looked at
  std::vector<float> sum(6);
  const std::vector<float> mine = row_of(world.rank(), 6);
  world.reduce(world.rank() == 0 ? sum : none, mine).wait();
  std::vector<float> whole = mine;
  world.all_reduce(whole).wait();
  if (world.rank() == 0) {
    EXPECT_EQ(sum, whole);
  }
  // One row, read with other strides than it is written with.
  std::vector<float> row = row_of(world.rank(), 6);
  const std::vector<float> input = row;
  std::vector<float> expected(6);
  const auto turned = [](const std::vector<float>& of) {
    return ConstTensorView(of.data(), DType::float32, {2, 3}, {1, 2});
  };
  world.all_reduce(expected, turned(input)).wait();
  world.all_reduce(row, turned(row)).wait();
  EXPECT_EQ(row, expected);
}

/// Lists of blocks: in place of another rank's block, in another order, twice the same.
void lists(ProcessGroup& world) {
  const auto n = static_cast<std::size_t>(world.size());
  const int rank = world.rank();
  for (std::size_t which = 0; which < n; ++which) {
    std::vector<float> expected(n * kBlock);
    std::vector<float> row = row_of(rank, n * kBlock);
    std::vector<float> input(&row[which * kBlock], &row[which * kBlock] + kBlock);
    world.all_gather(blocks_of(expected, n), TensorView(input)).wait();
    const std::vector<TensorView> views = blocks_of(row, n);
    world.all_gather(views, views[which]).wait();
    EXPECT_EQ(row, expected) << which;

    std::iota(row.begin(), row.end(), static_cast<float>(100 * rank));  // in place, for the views
    std::vector<float> sum(kBlock);
    world.reduce_scatter(TensorView(sum), views).wait();
    world.reduce_scatter(views[which], views).wait();
    EXPECT_EQ(std::vector<float>(&row[which * kBlock], &row[which * kBlock] + kBlock), sum);
  }
  std::vector<float> row = row_of(rank, n * kBlock);
  std::vector<float> input = row;
  std::vector<float> expected(n * kBlock);
  world.all_to_all(blocks_of(expected, n), blocks_of(input, n)).wait();
  std::vector<TensorView> backwards = blocks_of(row, n);
  std::reverse(backwards.begin(), backwards.end());
  world.all_to_all(backwards, blocks_of(row, n)).wait();
  for (std::size_t b = 0; b < n; ++b)
    EXPECT_TRUE(std::equal(&expected[b * kBlock], &expected[b * kBlock] + kBlock,
                           &row[(n - 1 - b) * kBlock]));
  // Outputs are written in the order of the ranks, so the last one stays.
  std::vector<float> once(kBlock + n);
  std::vector<TensorView> crossing;
  for (std::size_t b = 0; b < n; ++b) crossing.push_back(part(once, b, kBlock));
  std::vector<float> mine(kBlock, static_cast<float>(rank));
  world.all_gather(crossing, TensorView(mine)).wait();
  for (std::size_t i = 0; i + 1 < n + kBlock; ++i)
    EXPECT_EQ(once[i], static_cast<float>(std::min(i, n - 1))) << i;
  EXPECT_EQ(once.back(), 0);
}

void several_tensors(ProcessGroup& world) {
  const int n = world.size();
  const auto ranks = static_cast<std::size_t>(n);
  std::vector<float> row = row_of(world.rank(), 9);
  std::vector<float> expected = row;
  world.all_reduce(expected).wait();
  world.all_reduce_coalesced(std::vector<TensorView>{part(row, 0, 6), part(row, 3, 6)}).wait();
  EXPECT_EQ(row, expected);
  row = row_of(world.rank(), 9);
  expected = row_of(n - 1, 9);
  world
      .broadcast_coalesced(std::vector<TensorView>{part(row, 0, 9), part(row, 2, 3)},
                           {.root = n - 1})
      .wait();
  EXPECT_EQ(row, expected);
  // Every rank gives another block as input.
  std::vector<float> whole = row_of(world.rank(), 2 * ranks);
  std::vector<float> other(ranks);
  std::vector<float> input(1, static_cast<float>(world.rank()));
  const auto mine = static_cast<std::size_t>(n - 1 - world.rank());
  world
      .all_gather_coalesced(std::vector<TensorView>{TensorView(whole), TensorView(other)},
                            std::vector<TensorView>{part(whole, 2 * mine, 2), TensorView(input)})
      .wait();
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto first = static_cast<float>(100 * r + 2 * (ranks - 1 - r));
    EXPECT_EQ(whole[2 * r], first);
    EXPECT_EQ(whole[2 * r + 1], first + 1);
    EXPECT_EQ(other[r], static_cast<float>(r));
  }
}

/// Only some ranks overlap: the others see no difference.
void some_ranks(ProcessGroup& world) {
  const auto n = static_cast<std::size_t>(world.size());
  std::vector<float> row = row_of(world.rank(), n * kBlock);
  std::vector<float> elsewhere(n * kBlock);
  const bool even = world.rank() % 2 == 0;
  std::vector<float> expected(n * kBlock);
  std::vector<float> input = row;
  world.all_to_all(TensorView(expected), TensorView(input)).wait();
  world.all_to_all(TensorView(even ? row : elsewhere), TensorView(row)).wait();
  EXPECT_EQ(even ? row : elsewhere, expected);
}

class OverlappingCallsOnWorlds : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, OverlappingCallsOnWorlds, testing::ValuesIn(test::plain_worlds()),
                         test::world_name);

TEST_P(OverlappingCallsOnWorlds, GiveWhatCallsWithMemoryOfTheirOwnGive) {
  run([](ProcessGroup& world) {
    all_kinds(world);
    lists(world);
    several_tensors(world);
    some_ranks(world);
  });
}

/// Calls that run at the same time and use the same memory give what they give one after the other.
TEST_P(OverlappingCallsOnWorlds, RunOneAfterTheOtherThoughNobodyWaits) {
  run([](ProcessGroup& world) {
    const auto n = static_cast<std::size_t>(world.size());
    const int last = world.size() - 1;
    const auto ranks = static_cast<float>(n);
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{50'000}}) {
      SCOPED_TRACE(count);
      std::vector<float> row(count, 1);
      std::vector<Work> works;
      float product = 1;
      for (int i = 0; i < 6; ++i) {
        works.push_back(world.all_reduce(row));
        product *= ranks;
      }
      std::vector<float> all(n * count);
      works.push_back(world.all_gather(all, row));  // reads what is still to be written
      works.push_back(world.all_reduce(part(row, count / 2, count - count / 2)));
      std::vector<float> first(count, static_cast<float>(world.rank()));
      works.push_back(world.broadcast(first, {.root = last}));
      works.push_back(world.all_gather(all, first));  // writes what is still to be read
      works.push_back(world.all_reduce(first));
      wait_all(works);
      EXPECT_EQ(row.front(), count == 1 ? product * ranks : product);
      EXPECT_EQ(row.back(), product * ranks);
      EXPECT_EQ(all, std::vector<float>(n * count, static_cast<float>(last)));
      EXPECT_EQ(first, std::vector<float>(count, static_cast<float>(last) * ranks));
    }
    // Factors are read, too.
    std::vector<float> factors(50'000, 2);
    std::vector<float> scaled(factors.size(), 1);
    Work doubled = world.all_reduce(factors);
    world.all_reduce(scaled, {.op = ReduceOp::premul_sum, .factors = factors}).wait();
    doubled.wait();
    EXPECT_EQ(scaled, std::vector<float>(factors.size(), 2 * ranks * ranks));
    // A rank that gets no result needs no output.
    std::vector<float> sums(world.rank() == 0 ? 0 : scaled.size());
    const std::vector<float> given(scaled.size(), 1);
    world.scan(sums, given, {.exclusive = true}).wait();
    EXPECT_EQ(sums, std::vector<float>(sums.size(), static_cast<float>(world.rank())));
    // Lists, several tensors, and columns.
    std::vector<float> row = row_of(world.rank(), n * kBlock);
    std::vector<float> mine(kBlock, static_cast<float>(world.rank()));
    const std::array<std::int64_t, 1> shape = {world.size()};
    const std::array<std::int64_t, 1> strides = {kBlock};
    const TensorView column(row.data(), DType::float32, shape, strides);
    Work gathered = world.all_gather(blocks_of(row, n), TensorView(mine));
    Work added =
        world.all_reduce_coalesced(std::vector<TensorView>{part(row, 0, 2), part(row, 2, 1)});
    Work sent = world.all_reduce(column);
    Work rest = world.all_reduce(part(row, 3, row.size() - 3));
    for (Work* const work : {&gathered, &added, &sent, &rest}) work->wait();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool twice = i % kBlock == 0;
      const auto block = static_cast<float>(i / kBlock);
      EXPECT_EQ(row[i], block * ranks * (twice ? ranks : 1)) << i;
    }
  });
}

TEST(OverlappingCalls, AreWrittenBeforeAnybodyIsTold) {
  test::World{3}.run([](ProcessGroup& world) {
    std::vector<float> expected;
    for (int r = 0; r < 3; ++r) expected.push_back(static_cast<float>(100 * r + world.rank()));
    std::vector<float> row = row_of(world.rank(), 3);
    {
      Work work = world.all_to_all(TensorView(row), TensorView(row));
      test::wait_for([&] { return work.done(); });
      EXPECT_EQ(row, expected) << "done";
      EXPECT_TRUE(work.error().ok());
    }
    row = row_of(world.rank(), 3);
    struct Seen {
      std::vector<float>* row;
      std::vector<float> row_then;
      std::atomic<bool> done{false};
    } seen{&row, {}, {}};
    Work work = world.all_to_all(TensorView(row), TensorView(row));
    work.on_done({[](void* context, const Outcome& status) noexcept {
                    auto& all = *static_cast<Seen*>(context);
                    if (status.ok()) all.row_then = *all.row;
                    all.done.store(true);
                  },
                  &seen});
    test::wait_for([&] { return seen.done.load(); });
    EXPECT_EQ(seen.row_then, expected) << "on_done";
    work.wait();
    // Given up: the barrier behind it ends only when it is done.
    row = row_of(world.rank(), 3);
    world.all_to_all(TensorView(row), TensorView(row)).detach();
    world.barrier().wait();
  });
}

TEST(OverlappingCalls, LeaveTheirTensorsAsTheyWereAfterADisagreement) {
  test::World{2}.run([](ProcessGroup& world) {
    const std::vector<float> before = row_of(world.rank(), 8);
    std::vector<float> row = before;
    Work work = world.rank() == 0 ? world.all_to_all(TensorView(row), TensorView(row))
                                  : world.reduce_scatter(part(row, 0, 4), TensorView(row));
    EXPECT_THROW(work.wait(), Error);
    EXPECT_EQ(row, before);
  });
}

}  // namespace
}  // namespace tutti
