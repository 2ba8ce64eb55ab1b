#include <gmock/gmock.h>

#include <cstring>

#include "support/thread_worlds.hpp"
#include "unit/group/error_text.hpp"

// Reduce ops of the caller's: values, order, names, and what goes wrong.
namespace tutti {
namespace {

using test::text_of;

/// Nothing, one, few, and many.
constexpr std::size_t kCounts[] = {0, 1, 5, 8192, 40001};

/// Neither commutative nor associative: it tells every order from every other.
std::uint64_t chained(std::uint64_t a, std::uint64_t b) {
  return (a * 31 + 7) ^ (b * 0x9e3779b97f4a7c15 + 1);
}

std::uint64_t given_element(int rank, std::size_t i) {
  return (i + 1) * 1000003 + static_cast<std::uint64_t>(rank) * 7919;
}

std::vector<std::uint64_t> values(int rank, std::size_t count, std::size_t first = 0) {
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = given_element(rank, first + i);
  return all;
}

std::vector<std::uint64_t> folded(int size, std::size_t count, std::size_t first = 0) {
  std::vector<std::uint64_t> all = values(0, count, first);
  for (int r = 1; r < size; ++r) {
    for (std::size_t i = 0; i < count; ++i) all[i] = chained(all[i], given_element(r, first + i));
  }
  return all;
}

TEST(UserOps, CombineInTheOrderOfTheRanks) {
  const UserOp op = UserOp::of<std::uint64_t>("chained", chained);
  for (const int size : test::world_sizes()) {
    test::World{size}.run([&](ProcessGroup& world) {
      for (const std::size_t count : kCounts) {
        SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " elements");
        const std::vector<std::uint64_t> mine = values(world.rank(), count);
        std::vector<std::uint64_t> buffer = mine;
        world.all_reduce(buffer, op).wait();
        EXPECT_EQ(buffer, folded(size, count));

        buffer = mine;
        const int root = size - 1;
        world.reduce(buffer, op, {.root = root}).wait();
        EXPECT_EQ(buffer, world.rank() == root ? folded(size, count) : mine);

        for (const bool exclusive : {false, true}) {
          const int ranks = world.rank() + (exclusive ? 0 : 1);
          buffer = mine;
          world.scan(buffer, op, {.exclusive = exclusive}).wait();
          EXPECT_EQ(buffer, ranks == 0 ? mine : folded(ranks, count)) << exclusive;
          std::vector<std::uint64_t> other(count, 7);
          world.scan(other, std::as_const(mine), op, {.exclusive = exclusive}).wait();
          EXPECT_EQ(other, ranks == 0 ? std::vector<std::uint64_t>(count, 7) : folded(ranks, count))
              << exclusive << ", two buffers";
        }
        std::vector<std::uint64_t> other(count);
        world.all_reduce(other, std::as_const(mine), op).wait();
        EXPECT_EQ(other, folded(size, count)) << "two buffers";
        other.resize(world.rank() == root ? count : 0);
        world.reduce(other, std::as_const(mine), op, {.root = root}).wait();
        if (world.rank() == root) {
          EXPECT_EQ(other, folded(size, count)) << "two buffers";
        }

        const std::size_t all = count * static_cast<std::size_t>(size);
        const std::vector<std::uint64_t> input = values(world.rank(), all);
        std::vector<std::uint64_t> output(count);
        world.reduce_scatter(output, input, op).wait();
        const auto result = folded(size, count, count * static_cast<std::size_t>(world.rank()));
        EXPECT_EQ(output, result);
      }
      // The ready-made ones.
      std::vector<int> truth{1, world.rank(), world.rank() == 0 ? 7 : 0, 0};
      std::vector<int> any = truth;
      world.all_reduce(truth, logical_and<int>()).wait();
      world.all_reduce(any, logical_or<int>()).wait();
      const bool alone = size == 1;  // then nothing is combined
      EXPECT_EQ(truth, (std::vector<int>{1, 0, alone ? 7 : 0, 0}));
      EXPECT_EQ(any, (std::vector<int>{1, alone ? 0 : 1, alone ? 7 : 1, 0}));
      const double far = world.rank() % 2 == 0 ? -1.5 : 2.5;  // ranks share the least and greatest
      std::vector<ValueAt<double>> least(1, {far, world.rank()});
      std::vector<ValueAt<double>> greatest = least;
      world.all_reduce(least, min_loc<double>()).wait();
      world.reduce(greatest, max_loc<double>()).wait();
      EXPECT_EQ(std::pair(least[0].value, least[0].at), std::pair(-1.5, 0));
      if (world.rank() == 0) {
        EXPECT_EQ(std::pair(greatest[0].value, greatest[0].at),
                  size > 1 ? std::pair(2.5, 1) : std::pair(-1.5, 0));
      }
    });
  }
}

TEST(UserOps, TakeStridedTensorsAndLists) {
  const UserOp op = UserOp::of<std::uint64_t>("chained", chained);
  for (const int size : test::world_sizes_of_several()) {
    test::World{size}.run([&](ProcessGroup& world) {
      for (const std::size_t count : {std::size_t{6}, std::size_t{12000}}) {
        SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " elements");
        std::vector<std::uint64_t> memory(2 * count, 1);  // every other element
        const auto mine = values(world.rank(), count);
        for (std::size_t i = 0; i < count; ++i) memory[2 * i] = mine[i];
        const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
        const std::int64_t strides[] = {2};
        world.all_reduce(TensorView(memory.data(), DType::uint64, shape, strides), op).wait();
        const auto result = folded(size, count);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(memory[2 * i], result[i]);
          ASSERT_EQ(memory[2 * i + 1], 1U);
        }
        std::vector<std::vector<std::uint64_t>> parts;
        std::vector<TensorView> views;
        for (int r = 0; r < size; ++r)
          parts.push_back(values(world.rank(), count, count * static_cast<std::size_t>(r)));
        for (auto& part : parts) views.push_back(TensorView(part));
        std::vector<std::uint64_t> output(count);
        world.reduce_scatter(TensorView(output), views, op).wait();
        EXPECT_EQ(output, folded(size, count, count * static_cast<std::size_t>(world.rank())));
      }
    });
  }
}

/// The later rank's bytes: any dtype can be told by it.
TEST(UserOps, MoveEveryDType) {
  const UserOp last("last", [](const TensorView& result, const TensorView& next) {
    EXPECT_EQ(result.dtype(), next.dtype());
    EXPECT_EQ(result.count(), next.count());
    std::memcpy(result.data(), next.data(), next.size_bytes());
  });
  test::World{3}.run([&](ProcessGroup& world) {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      for (const std::size_t count : {std::size_t{7}, std::size_t{70001}}) {
        std::vector<std::byte> buffer(count * size_of(dtype),
                                      static_cast<std::byte>(world.rank() == 2 ? 1 : 0));
        world.all_reduce(TensorView(buffer.data(), dtype, count), last).wait();
        EXPECT_EQ(buffer, std::vector<std::byte>(buffer.size(), std::byte{1})) << to_string(dtype);
      }
    }
  });
}

using Matrix = std::array<std::int64_t, 4>;

Matrix product(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
          a[2] * b[1] + a[3] * b[3]};
}

Matrix matrix(int rank, std::size_t i) {
  return {rank, 1, static_cast<std::int64_t>(i % 3), rank + 1};
}

/// As structs, and as elements in blocks of 4.
TEST(UserOps, NeverDivideABlock) {
  const UserOp structs = UserOp::of<Matrix>("product", product);
  const UserOp blocks(
      "product of blocks",
      [](const TensorView& result, const TensorView& next) {
        ASSERT_EQ(result.count() % 4, 0U);
        auto* const to = static_cast<Matrix*>(result.data());
        const auto* const from = static_cast<const Matrix*>(next.data());
        for (std::size_t i = 0; i < result.count() / 4; ++i) to[i] = product(to[i], from[i]);
      },
      4);
  for (const int size : test::world_sizes_of_several()) {
    test::World{size}.run([&](ProcessGroup& world) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{10}, std::size_t{3001}}) {
        std::vector<Matrix> mine(count);
        std::vector<Matrix> result(count);
        for (std::size_t i = 0; i < count; ++i) {
          mine[i] = matrix(world.rank(), i);
          result[i] = matrix(0, i);
          for (int r = 1; r < size; ++r) result[i] = product(result[i], matrix(r, i));
        }
        std::vector<Matrix> buffer = mine;
        world.all_reduce(buffer, structs).wait();
        EXPECT_EQ(buffer, result);
        buffer = mine;
        world.all_reduce(TensorView(buffer.data(), DType::int64, 4 * count), blocks).wait();
        EXPECT_EQ(buffer, result);
      }
    });
  }
}

TEST(UserOps, OfOtherNamesDisagree) {
  const UserOp first = UserOp::of<float>("first", [](float a, float) { return a; });
  const UserOp last = UserOp::of<float>("last", [](float, float b) { return b; });
  for (const std::size_t count : {std::size_t{4}, std::size_t{100000}}) {
    test::World{3}.run([&](ProcessGroup& world) {
      std::vector<float> buffer(count, static_cast<float>(world.rank()));
      const std::vector<float> before = buffer;
      const std::string text = text_of<DisagreementError>(
          [&] { world.all_reduce(buffer, world.rank() == 1 ? last : first).wait(); });
      EXPECT_THAT(text, testing::HasSubstr("all_reduce with the op 'first'"));
      EXPECT_THAT(text, testing::HasSubstr("all_reduce with the op 'last'"));
      EXPECT_EQ(buffer, before);
    });
  }
}

TEST(UserOps, OfOneNameAndOtherDTypesKindsOrBlocksDisagree) {
  const auto keep = [](const TensorView&, const TensorView&) {};
  const UserOp one("one", keep);
  const UserOp by_two("one", keep, 2);
  for (const std::string what : {"dtype", "block", "kind"}) {
    SCOPED_TRACE(what);
    test::World{2}.run([&](ProcessGroup& world) {
      std::vector<float> floats(4);
      std::vector<std::int32_t> ints(4);
      std::vector<float> all(8);
      const auto call = [&] {
        if (world.rank() == 0) return world.all_reduce(floats, one);
        if (what == "dtype") return world.all_reduce(ints, one);
        if (what == "block") return world.all_reduce(floats, by_two);
        return world.all_gather(all, floats);
      };
      EXPECT_THROW(call().wait(), DisagreementError);
    });
  }
}

TEST(UserOps, RefuseWrongCallsBeforeAnythingIsSent) {
  const UserOp floats = UserOp::of<float>("floats", [](float a, float) { return a; });
  const UserOp pairs(
      "pairs", [](const TensorView&, const TensorView&) {}, 2);
  test::World{2}.run([&](ProcessGroup& world) {
    std::vector<double> doubles(4);
    std::vector<float> three(3);
    std::vector<float> two(2);
    const std::vector<TensorView> uneven{TensorView(three), TensorView(two)};
    const TensorView gpu(three.data(), DType::float32, 3, Device{DeviceType::cuda, 0});
    const auto refused = [&](const std::function<Work()>& call, const std::string& why) {
      if (world.rank() != 0) return;
      EXPECT_EQ(text_of<InvalidArgument>([&] { call().wait(); }), why);
    };
    refused([&] { return world.all_reduce(doubles, floats); },
            "all_reduce(op 'floats', float64 x 4) in group 'world': the op combines float32");
    refused([&] { return world.all_reduce(three, pairs); },
            "all_reduce(op 'pairs', float32 x 3) in group 'world': the op combines 2 elements at a "
            "time, which do not divide 3");
    refused(
        [&] { return world.reduce(three, floats, {.root = 2}); },
        "reduce(op 'floats', float32 x 3) in group 'world': root must be a rank of the group, 0 "
        "to 1");
    refused([&] { return world.reduce_scatter(three, three, floats); },
            "reduce_scatter(op 'floats', float32 x 3) in group 'world': the input has 3 elements; "
            "it must have 2 times the output's 3");
    refused([&] { return world.reduce_scatter(TensorView(three), uneven, floats); },
            "reduce_scatter(op 'floats', float32 x 3) in group 'world': the inputs must have as "
            "many elements as the output");
    refused([&] { return world.all_reduce(gpu, floats); },
            "all_reduce(op 'floats', float32 x 3) in group 'world': the op combines tensors of the "
            "CPU only: copy the tensor there");
    struct Three {
      int a, b, c;
    };
    struct One {
      int a;
    };
    const UserOp threes =
        UserOp::of<Three>("threes", [](const Three& a, const Three&) { return a; });
    std::vector<One> six(6);
    refused([&] { return world.all_reduce(six, threes); },
            "all_reduce(op 'threes', struct of 4 bytes x 6) in group 'world': the op combines "
            "values of 12 "
            "bytes, and the buffer has structs of 4 bytes");
    world.all_reduce(three, floats).wait();  // the group is as it was
  });
  EXPECT_EQ(text_of<InvalidArgument>([] { UserOp("", [](const auto&, const auto&) {}); }),
            "UserOp: the name is empty; ranks compare it");
  EXPECT_THROW(UserOp("none", nullptr), InvalidArgument);
  EXPECT_THROW(UserOp(
                   "none", [](const auto&, const auto&) {}, 0),
               InvalidArgument);
}

TEST(UserOps, WhatTheFunctionThrowsReachesTheCaller) {
  std::thread::id thread;  // of rank 1, on which alone it throws
  const UserOp op("failing", [&thread](const TensorView&, const TensorView&) {
    if (std::this_thread::get_id() == thread) throw std::runtime_error("it does not add up");
  });
  test::World{3}.run([&](ProcessGroup& world) {
    if (world.rank() == 1) thread = std::this_thread::get_id();
    for (const std::size_t count : {4, 100'000}) {
      world.barrier().wait();
      std::vector<float> values(count, static_cast<float>(world.rank()));
      const std::vector<float> before = values;
      Work work = world.all_reduce(values, op);
      if (world.rank() == 1) {
        EXPECT_EQ(text_of<std::runtime_error>([&] { work.wait(); }), "it does not add up");
        EXPECT_EQ(values, before);
      } else {
        work.wait();
      }
      EXPECT_TRUE(world.health().ok());
    }
  });
}

}  // namespace
}  // namespace tutti
