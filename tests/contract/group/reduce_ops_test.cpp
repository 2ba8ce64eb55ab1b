#include "kernels/narrow.hpp"
#include "kernels/reduce.hpp"
#include "reductions.hpp"
#include "support/thread_worlds.hpp"

// Every dtype with every reduce op, through the whole path, on few elements: what sanitizers can
// see. reduce_values_test.cpp has more.
namespace tutti {
namespace {

class ReduceOps : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, ReduceOps, testing::ValuesIn(test::plain_worlds()),
                         test::world_name);

TEST_P(ReduceOps, OfEveryDTypeAreRight) {
  constexpr std::size_t kCount = 48;
  for (int d = 0; d < kDTypeCount; ++d) {
    const test::ElementRules rules = test::element_rules(static_cast<DType>(d));
    const test::ReducedValues values = test::reduced_values(rules, kCount, GetParam().size, 1);
    run([&](ProcessGroup& world) {
      for (int o = 0; o < test::kReduceOps; ++o) {
        const auto op = static_cast<ReduceOp>(o);
        if (kernels::is_supported(op, rules.dtype)) {
          const test::OneResult wanted(values.results[static_cast<std::size_t>(o)], rules.dtype);
          test::Reductions calls(world, values, op, wanted);
          calls.take(0, kCount);
          calls.all_reduce();
          calls.reduce(0);
          calls.reduce(world.size() - 1);
          calls.scatter();
          for (const bool exclusive : {false, true}) {
            calls.scan(exclusive, [&](std::size_t ranks) {
              return std::make_unique<test::OneResult>(
                  test::reduced_results(rules, values, ranks, op), rules.dtype);
            });
          }
          continue;
        }
        auto buffer = values.inputs[0];
        const TensorView view(buffer.data(), rules.dtype, kCount);
        std::optional<double> factor;
        if (op == ReduceOp::premul_sum) factor = 2;
        EXPECT_THROW(world.all_reduce(view, {.op = op, .factor = factor}).wait(), InvalidArgument)
            << to_string(op) << " of " << to_string(rules.dtype);
      }
    });
  }
}

TEST_P(ReduceOps, NarrowFloatsAreRoundedOnce) {
  // 1 + P * 2^-9 in bfloat16 (8 bits): each addend alone is rounded away, all together are not.
  const int size = GetParam().size;
  run([&](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{700}, std::size_t{40'000}}) {
      const float big = 1;
      const float small = 0.001953125F;  // 2^-9
      float sum = 0;
      for (int r = 0; r < size; ++r) sum += r == 0 ? big : small;
      std::uint16_t bits = 0;
      std::uint16_t whole = 0;
      kernels::find_narrow(DType::bfloat16)(&bits, world.rank() == 0 ? &big : &small, 1);
      kernels::find_narrow(DType::bfloat16)(&whole, &sum, 1);
      std::vector<std::uint16_t> data(count, bits);
      world.all_reduce(TensorView(data.data(), DType::bfloat16, count)).wait();
      EXPECT_EQ(data, std::vector<std::uint16_t>(count, whole)) << size << " ranks";

      sum = big;
      for (int r = 1; r <= world.rank(); ++r) sum += small;
      kernels::find_narrow(DType::bfloat16)(&whole, &sum, 1);
      std::fill(data.begin(), data.end(), bits);
      world.scan(TensorView(data.data(), DType::bfloat16, count)).wait();
      EXPECT_EQ(data, std::vector<std::uint16_t>(count, whole)) << "scan, " << size << " ranks";
    }
  });
}

TEST_P(ReduceOps, FactorsMayDifferBetweenElementsAndRanks) {
  run([&](ProcessGroup& world) {
    std::vector<float> data{1, 2, 3};
    std::vector<float> factors{1, 10, static_cast<float>(world.rank())};
    world.all_reduce(data, {.op = ReduceOp::premul_sum, .factors = TensorView(factors)}).wait();
    const auto n = static_cast<float>(world.size());
    EXPECT_EQ(data, (std::vector<float>{n, 20 * n, 3 * n * (n - 1) / 2}));
  });
}

TEST_P(ReduceOps, FactorsMayHaveStrides) {
  run([](ProcessGroup& world) {
    // Two rows out of three, from the last element to the first: more than one block of a pass.
    constexpr std::int64_t kRow = 3001;
    const std::int64_t shape[] = {2, kRow};
    const std::int64_t strides[] = {2 * kRow, -1};
    std::vector<float> memory(3 * kRow);
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = static_cast<float>((i % 50 + 1) * static_cast<std::size_t>(world.rank() + 1));
    const TensorView factors(&memory[kRow - 1], DType::float32, shape, strides);
    std::vector<float> data(2 * kRow, 2);
    world.all_reduce(data, {.op = ReduceOp::premul_sum, .factors = factors}).wait();
    const auto ranks = static_cast<std::size_t>(world.size());
    std::vector<float> want;
    for (const std::size_t row : {0, 2}) {
      for (std::size_t i = 0; i < kRow; ++i) {
        const std::size_t place = row * kRow + (kRow - 1 - i);
        want.push_back(static_cast<float>(2 * (place % 50 + 1) * ranks * (ranks + 1) / 2));
      }
    }
    EXPECT_EQ(data, want);
    // One value for all by a stride of 0: factors are only read.
    const std::int64_t none[] = {0, 0};
    world
        .all_reduce(data, {.op = ReduceOp::premul_sum,
                           .factors = TensorView(memory.data(), DType::float32, shape, none)})
        .wait();
    for (float& value : want) value *= static_cast<float>(ranks * (ranks + 1) / 2);
    EXPECT_EQ(data, want);
  });
}

TEST_P(ReduceOps, NoElementsHaveNoFactors) {
  run([](ProcessGroup& world) {
    std::vector<float> none;
    const AllReduceOptions each{.op = ReduceOp::premul_sum, .factors = TensorView(none)};
    world.all_reduce(none, each).wait();
    world.reduce(none, {.op = ReduceOp::premul_sum, .factors = TensorView(none)}).wait();
    world.reduce_scatter(none, none, {.op = ReduceOp::premul_sum, .factors = TensorView(none)})
        .wait();
    const std::vector<TensorView> two(2, TensorView(none));
    world.all_reduce_coalesced(two, each).wait();
    std::vector<float> some(3);
    EXPECT_THROW(world.all_reduce(some, each).wait(), InvalidArgument);
  });
}

}  // namespace
}  // namespace tutti
