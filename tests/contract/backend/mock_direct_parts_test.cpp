#include <barrier>

#include "kernels/reduce.hpp"
#include "mock_direct_ranks.hpp"

// Collectives on tensors of GPUs that go by way of the host in parts: bits, order and failures,
// over a mock of CUDA's driver.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kParts = 7;
constexpr std::size_t kInParts = kParts * 128;  // float32

Work sum_of(ProcessGroup& world, std::vector<float>& values, std::uintptr_t stream = 0) {
  return reduce_on(world, on_gpu(values), stream);
}

class MockDirectParts : public testing::TestWithParam<int> {};

TEST_P(MockDirectParts, HaveTheBitsOfTheCpu) {
  MockGpuWorld mock(GetParam());
  mock.machine.plant(0, "cuMemCreate");  // so nothing goes from GPU to GPU
  run_direct(mock, [&](ProcessGroup& world) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      for (const DType dtype : {DType::float16, DType::float64, DType::uint8, DType::bool_}) {
        const auto op = static_cast<ReduceOp>(o);
        if (!kernels::is_supported(op, dtype) || !takes_case(static_cast<std::uint64_t>(o)))
          continue;
        compare(world, {Kind::all_reduce, op, dtype, 1111});
        compare(world, {Kind::reduce_scatter, op, dtype, 300});
      }
    }
    compare_kinds(world, {64, 777});
  });
  EXPECT_EQ(calls_of(mock, "cuLaunchKernel"), 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, MockDirectParts, testing::ValuesIn(world_sizes()));

TEST(MockDirectParts, SeveralTensorsAreOne) {
  run_direct(MockGpuWorld(3), no_kernels(), [&](ProcessGroup& world) {
    std::vector<std::vector<float>> all = {std::vector<float>(200, 1), std::vector<float>(3, 2),
                                           std::vector<float>(500, 3)};
    const std::vector<TensorView> views = {on_gpu(all[0]), on_gpu(all[1]), on_gpu(all[2])};
    finish(world.all_reduce_coalesced(views));
    EXPECT_EQ(all[0], std::vector<float>(200, 3));
    EXPECT_EQ(all[1], std::vector<float>(3, 6));
    EXPECT_EQ(all[2], std::vector<float>(500, 9));
  });
}

/// While the CPUs wait for another rank, the next part comes to the host.
TEST(MockDirectParts, AreCopiedWhileTheCpusWork) {
  MockGpuWorld mock(2);
  std::barrier together(2);
  run_direct(mock, no_kernels(), [&](ProcessGroup& world) {
    std::vector<float> values(kInParts, 1);
    finish(sum_of(world, values));  // the ranks agree
    std::optional<Hold> out;
    if (world.rank() == 1) out.emplace(world);
    together.arrive_and_wait();
    const int before = calls_of(mock, "cuMemcpyAsync");
    Work work = sum_of(world, values);
    if (world.rank() == 0) {
      EXPECT_TRUE(comes_true([&] {
        EXPECT_FALSE(work.wait_for(1ms));
        return calls_of(mock, "cuMemcpyAsync") - before >= 2;
      }));
    }
    EXPECT_FALSE(work.wait_for(20ms)) << "rank 1 copies nothing";
    if (world.rank() == 0) {
      EXPECT_EQ(calls_of(mock, "cuMemcpyAsync") - before, 2);
    }
    together.arrive_and_wait();
    out.reset();
    finish(std::move(work));
    EXPECT_EQ(values, std::vector<float>(kInParts, 4));
  });
}

TEST(MockDirectParts, CallsThatDifferAreADisagreement) {
  for (const bool known : {false, true}) {
    for (const int how : {0, 1, 2, 3, 4}) {
      SCOPED_TRACE(std::to_string(known) + ' ' + std::to_string(how));
      std::barrier together(3);  // or the error of a quicker rank would end the call before
      run_direct(MockGpuWorld(3), no_kernels(), [&](ProcessGroup& world) {
        std::vector<float> values(kInParts, 1);
        std::vector<double> wide(kInParts, 1);
        if (known) finish(sum_of(world, values));
        const float before = values[0];
        together.arrive_and_wait();
        const bool other = world.rank() == 1;
        const auto call = [&] {
          if (other && how == 0) return world.all_reduce(values);  // of the CPU
          if (other && how == 1)                                   // has one part only
            return world.all_reduce(TensorView(values.data(), DType::float32, 4, kGpu));
          if (other && how == 4)  // has one part less
            return world.all_reduce(
                TensorView(values.data(), DType::float32, kInParts - kInParts / kParts, kGpu));
          if (other && how == 2) return world.all_reduce(on_gpu(wide));
          return reduce_on(world, on_gpu(values), 0,
                           other && how == 3 ? ReduceOp::max : ReduceOp::sum);
        };
        EXPECT_THROW(finish(call()), DisagreementError);
        EXPECT_EQ(values[0], before) << "outputs are untouched";
        EXPECT_EQ(values[kInParts - 1], before);
      });
    }
  }
}

// ---- Failures

/// Reductions in parts.
void reductions_in_parts(ProcessGroup& world) {
  compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 700});
  compare(world, {Kind::reduce_scatter, ReduceOp::sum, DType::float32, 300, 2});
}

TEST(MockDirectParts, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  EXPECT_GT(expect_failures_told({"cuMemcpyAsync", "cuMemHostRegister"}, {0}, reductions_in_parts,
                                 no_kernels()),
            10);
}

}  // namespace
}  // namespace tutti::test
