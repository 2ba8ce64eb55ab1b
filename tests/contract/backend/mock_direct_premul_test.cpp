#include "mock_direct_ranks.hpp"

// PREMUL_SUM of tensors that go from GPU to GPU, over a mock of CUDA's driver.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

class MockDirectPremul : public testing::TestWithParam<int> {};

TEST_P(MockDirectPremul, HasTheBitsOfTheCpu) {
  MockGpuWorld mock(GetParam());
  run_direct(mock, [&](ProcessGroup& world) {
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (dtype == DType::bool_ || !takes_case(static_cast<std::uint64_t>(d))) continue;
      for (const By by : kEveryBy) {
        compare_scaled(world, Kind::all_reduce, dtype, 333, by);
        compare_scaled(world, Kind::reduce_scatter, dtype, 19, by);
      }
    }
    for (const Kind kind :
         {Kind::all_reduce, Kind::reduce, Kind::scan, Kind::exclusive_scan, Kind::reduce_scatter}) {
      for (const std::size_t count : {0, 1, 7, 300}) {
        if (!takes_case(static_cast<std::uint64_t>(kind))) continue;
        for (const By by : kEveryBy) {
          compare_scaled(world, kind, DType::bfloat16, count, by);
          compare_scaled(world, kind, DType::float64, count, by, 3);
          compare_scaled(world, kind, DType::int16, count, by, 1, 3);
          compare_scaled(world, kind, DType::complex64, count, by, 2, 1);
        }
      }
    }
  });
  EXPECT_GT(calls_of(mock, "cuLaunchKernel"), 0);
  EXPECT_EQ(calls_of(mock, "cuMemHostRegister"), 0) << "nothing went by way of the host";
}

INSTANTIATE_TEST_SUITE_P(Ranks, MockDirectPremul, testing::Values(1, 2, 3, 4));

/// Factors are counted over all tensors of a call.
TEST(MockDirect, FactorsOfSeveralTensorsAreInTheOrderOfTheList) {
  MockGpuWorld mock(3);
  run_direct(mock, [&](ProcessGroup& world) {
    for (const bool strided : {false, true}) {
      std::vector<float> first(300, 1);
      std::vector<float> second(400, 2);
      std::vector<float> factors(700 * 2);
      for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = static_cast<float>(i);
      const std::vector<std::int64_t> shape = {700};
      const std::vector<std::int64_t> steps = {strided ? 2 : 1};
      const TensorView tensors[] = {on_gpu(first), on_gpu(second)};
      AllReduceOptions options;
      options.op = ReduceOp::premul_sum;
      options.factors = TensorView(factors.data(), DType::float32, shape, steps, kGpu);
      finish(world.all_reduce_coalesced(tensors, options));
      for (std::size_t i = 0; i < 700; ++i) {
        const float factor = static_cast<float>(strided ? 2 * i : i);
        ASSERT_EQ(i < 300 ? first[i] : second[i - 300], 3 * factor * (i < 300 ? 1 : 2)) << i;
      }
    }
  });
  EXPECT_EQ(calls_of(mock, "cuMemHostRegister"), 0);
}

/// A factor in a GPU's memory is an input: it is read behind what the stream was given before.
TEST(MockDirect, AFactorOfAGpuIsReadInTheOrderOfTheStream) {
  MockGpuWorld mock(2);
  run_direct(mock, [&](ProcessGroup& world) {
    CallersStream stream(world);
    for (const std::size_t count : {std::size_t{1}, std::size_t{400}}) {
      std::vector<float> source(count, static_cast<float>(world.rank() + 2));
      std::vector<float> factors(count, 0);
      std::vector<float> values(400, 1);
      for (int i = 0; i < 2; ++i) {  // before the ranks agree, and after it
        std::vector<float> ones(400, 1);
        std::fill(factors.begin(), factors.end(), 0.0F);
        stream.hold(true);
        stream.copy(values, ones);
        stream.copy(factors, source);  // not done yet when the operation is called
        Work work =
            reduce_on(world, on_gpu(values), stream.handle, ReduceOp::premul_sum, on_gpu(factors));
        EXPECT_FALSE(work.wait_for(5ms)) << "its factor is not there";
        stream.hold(false);
        finish(std::move(work));
        EXPECT_EQ(values, std::vector<float>(400, 5));
      }
    }
  });
  EXPECT_EQ(calls_of(mock, "cuMemHostRegister"), 0);
}

/// Ranks cannot know each other's factors, so all must go one way.
TEST(MockDirectFaults, OneRankWithoutKernelsTakesPremulSumByWayOfTheHost) {
  MockGpuWorld mock(3);
  mock.machine.plant(1, "cuModuleLoadData");
  run_direct(mock, [](ProcessGroup& world) {
    for (const By by : kEveryBy) compare_scaled(world, Kind::all_reduce, DType::float16, 333, by);
  });
  EXPECT_TRUE(mock.machine.was_hit());
  EXPECT_GT(calls_of(mock, "cuMemHostRegister"), 0);
  EXPECT_EQ(calls_of(mock, "cuLaunchKernel"), 0);
}

/// The kernel that scales is the first one of a call.
TEST(MockDirectFaults, AFailureOfTheKernelThatScalesIsToldAndLeavesNothing) {
  for (const By by : kEveryBy) {
    for (const bool known : {false, true}) {
      SCOPED_TRACE("by " + std::to_string(static_cast<int>(by)));
      const auto run = [&](MockGpuWorld& mock) {
        run_mock_staged(mock, {.direct = small_parts()}, [&](ProcessGroup& world) {
          if (known) compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 4});
          compare_scaled(world, Kind::all_reduce, DType::float32, 1000, by);
        });
      };
      const auto check = [](MockGpuWorld& /*mock*/, const Fault& fault, const std::string& text) {
        EXPECT_THAT(text, testing::HasSubstr("all_reduce(PREMUL_SUM"));
        EXPECT_THAT(text, testing::HasSubstr(fault.function + " failed: a planted fault"));
      };
      // The first one is of SUM, if it is known.
      plant_each<MockGpuWorld>({"cuModuleGetFunction", "cuLaunchKernel"}, {known ? 1 : 0}, {0}, run,
                               check);
    }
  }
}

}  // namespace
}  // namespace tutti::test
