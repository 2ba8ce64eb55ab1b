#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/reduce.hpp"
#include "mock_direct_ranks.hpp"
#include "support/rotation.hpp"

// Collectives on tensors of GPUs that go by way of the host in parts: bits, order and failures,
// over a mock of CUDA's driver.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kParts = 7;
constexpr std::size_t kLarge = kParts * 128;  // float32

/// Without kernels all reductions go by way of the host.
staged::DirectOptions no_kernels() {
  staged::DirectOptions options = small_parts();
  options.image = {};
  return options;
}

Work sum(ProcessGroup& world, std::vector<float>& values, std::uintptr_t stream = 0) {
  return reduce_on(world, on_gpu(values), stream);
}

class MockDirectParts : public testing::TestWithParam<int> {};

TEST_P(MockDirectParts, HaveTheBitsOfTheCpu) {
  MockGpuWorld mock(GetParam());
  mock.machine.plant(0, "cuMemCreate");  // so nothing goes from GPU to GPU
  run_checked(mock, GetParam(), [&](ProcessGroup& world) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      for (const DType dtype : {DType::float16, DType::float64, DType::uint8, DType::bool_}) {
        const auto op = static_cast<ReduceOp>(o);
        if (!kernels::is_supported(op, dtype) || !takes_case(static_cast<std::uint64_t>(o)))
          continue;
        compare(world, {Kind::all_reduce, op, dtype, 1111});
        compare(world, {Kind::reduce_scatter, op, dtype, 300});
      }
    }
    for (const Kind kind :
         {Kind::all_reduce, Kind::reduce, Kind::scan, Kind::exclusive_scan, Kind::reduce_scatter,
          Kind::broadcast, Kind::all_gather, Kind::gather, Kind::scatter, Kind::all_to_all}) {
      for (const std::size_t count : {64, 777}) {
        if (!takes_case(static_cast<std::uint64_t>(kind))) continue;
        compare(world, {kind, ReduceOp::avg, DType::bfloat16, count});
        compare(world, {kind, ReduceOp::max, DType::float64, count, 3});
        compare(world, {kind, ReduceOp::sum, DType::int16, count, 1, 3});
        compare(world, {kind, ReduceOp::product, DType::complex128, count, 2, 1});
      }
    }
  });
  EXPECT_EQ(calls_of(mock, "cuLaunchKernel"), 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, MockDirectParts, testing::ValuesIn(world_sizes()));

TEST(MockDirectParts, SeveralTensorsAreOne) {
  MockGpuWorld mock(3);
  run_checked(
      mock, 3,
      [&](ProcessGroup& world) {
        std::vector<std::vector<float>> all = {std::vector<float>(200, 1), std::vector<float>(3, 2),
                                               std::vector<float>(500, 3)};
        const std::vector<TensorView> views = {on_gpu(all[0]), on_gpu(all[1]), on_gpu(all[2])};
        finish(world.all_reduce_coalesced(views));
        EXPECT_EQ(all[0], std::vector<float>(200, 3));
        EXPECT_EQ(all[1], std::vector<float>(3, 6));
        EXPECT_EQ(all[2], std::vector<float>(500, 9));
      },
      no_kernels());
}

/// While the CPUs wait for another rank, the next part comes to the host.
TEST(MockDirectParts, AreCopiedWhileTheCpusWork) {
  MockGpuWorld mock(2);
  std::barrier together(2);
  run_checked(
      mock, 2,
      [&](ProcessGroup& world) {
        std::vector<float> values(kLarge, 1);
        finish(sum(world, values));  // the ranks agree
        std::optional<Hold> out;
        if (world.rank() == 1) out.emplace(mock, 1);
        together.arrive_and_wait();
        const int before = calls_of(mock, "cuMemcpyAsync");
        Work work = sum(world, values);
        const auto until = std::chrono::steady_clock::now() + 20s;
        while (world.rank() == 0 && calls_of(mock, "cuMemcpyAsync") - before < 2 &&
               std::chrono::steady_clock::now() < until)
          EXPECT_FALSE(work.wait_for(1ms));
        EXPECT_FALSE(work.wait_for(20ms)) << "rank 1 copies nothing";
        if (world.rank() == 0) {
          EXPECT_EQ(calls_of(mock, "cuMemcpyAsync") - before, 2);
        }
        together.arrive_and_wait();
        out.reset();
        finish(std::move(work));
        EXPECT_EQ(values, std::vector<float>(kLarge, 4));
      },
      no_kernels());
}

TEST(MockDirectParts, KeepTheOrderOfCollectives) {
  MockGpuWorld mock(3);
  run_checked(
      mock, 3,
      [&](ProcessGroup& world) {
        for (int round = 0; round < 3; ++round) {
          CallersStream slow(mock, world.rank());
          CallersStream quick(mock, world.rank());
          std::vector<float> first(kLarge, 1);
          std::vector<double> second(kLarge, 1);
          std::vector<int> third(5, 1);
          std::vector<float> all(3 * kLarge, 0);
          std::vector<float> own(kLarge, static_cast<float>(world.rank()));
          slow.hold(world.rank() == round);
          Work one = sum(world, first, slow.handle);
          Work two = reduce_on(world, on_gpu(second), quick.handle);
          Work three = world.all_reduce(third);  // of the CPU
          Work four = world.all_gather(on_gpu(all), on_gpu(own));
          if (world.rank() == round) {
            EXPECT_FALSE(two.wait_for(5ms)) << "one before it waits";
            EXPECT_FALSE(three.wait_for(1ms));
          }
          slow.hold(false);
          two.wait();
          finish(std::move(four));
          three.wait();
          finish(std::move(two));
          finish(std::move(one));
          EXPECT_EQ(first, std::vector<float>(kLarge, 3));
          EXPECT_EQ(second, std::vector<double>(kLarge, 3));
          EXPECT_EQ(third, std::vector<int>(5, 3));
          EXPECT_EQ(all[2 * kLarge - 1], 1);
          EXPECT_EQ(all[3 * kLarge - 1], 2);
        }
      },
      no_kernels());
}

TEST(MockDirectParts, WaitOrdersTheCallersStream) {
  MockGpuWorld mock(2);
  run_checked(
      mock, 2,
      [&](ProcessGroup& world) {
        CallersStream stream(mock, world.rank());
        std::vector<float> source(kLarge, static_cast<float>(world.rank() + 1));
        std::vector<float> values(kLarge, 0);
        std::vector<float> result(kLarge, 0);
        for (int i = 0; i < 3; ++i) {  // before the ranks agree, and after it
          stream.hold(true);
          stream.copy(values, source);  // not done yet when the operation is called
          Work work = sum(world, values, stream.handle);
          EXPECT_FALSE(work.wait_for(5ms)) << "its input is not there";
          stream.hold(false);
          work.wait();
          stream.copy(result, values);  // behind it in the stream
          stream.synchronize();
          EXPECT_EQ(result, std::vector<float>(kLarge, 3));
          finish(world.barrier());
        }
      },
      no_kernels());
}

TEST(MockDirectParts, CallsThatDifferAreADisagreement) {
  for (const bool known : {false, true}) {
    for (const int how : {0, 1, 2, 3, 4}) {
      SCOPED_TRACE(std::to_string(known) + ' ' + std::to_string(how));
      MockGpuWorld mock(3);
      std::barrier together(3);  // or the error of a quicker rank would end the call before
      run_checked(
          mock, 3,
          [&](ProcessGroup& world) {
            std::vector<float> values(kLarge, 1);
            std::vector<double> wide(kLarge, 1);
            if (known) finish(sum(world, values));
            const float before = values[0];
            together.arrive_and_wait();
            const bool other = world.rank() == 1;
            const auto call = [&] {
              if (other && how == 0) return world.all_reduce(values);  // of the CPU
              if (other && how == 1)                                   // has one part only
                return world.all_reduce(TensorView(values.data(), DType::float32, 4, kGpu));
              if (other && how == 4)  // has one part less
                return world.all_reduce(
                    TensorView(values.data(), DType::float32, kLarge - kLarge / kParts, kGpu));
              if (other && how == 2) return world.all_reduce(on_gpu(wide));
              return reduce_on(world, on_gpu(values), 0,
                               other && how == 3 ? ReduceOp::max : ReduceOp::sum);
            };
            EXPECT_THROW(finish(call()), DisagreementError);
            EXPECT_EQ(values[0], before) << "outputs are untouched";
            EXPECT_EQ(values[kLarge - 1], before);
          },
          no_kernels());
    }
  }
}

// ---- Failures

TEST(MockDirectParts, ARankThatIsLateIsNamed) {
  for (const bool known : {false, true}) {
    MockGpuWorld mock(3);
    std::vector<std::vector<float>> values(3, std::vector<float>(kLarge, 1));
    run_checked(
        mock, 3,
        [&](ProcessGroup& world) {
          std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
          if (known) finish(sum(world, own));
          world.barrier().wait();
          if (world.rank() != 1) {
            expect_named_in_time(world, on_gpu(own), 1);
          } else {
            const auto until = std::chrono::steady_clock::now() + 20s;
            while (world.health().ok() && std::chrono::steady_clock::now() < until)
              std::this_thread::yield();
          }
          EXPECT_FALSE(world.health().ok());
        },
        no_kernels());
  }
}

TEST(MockDirectParts, AnAbortInTheMiddleEndsItOnAllRanks) {
  MockGpuWorld mock(3);
  std::vector<std::vector<float>> values(3, std::vector<float>(kLarge, 1));
  std::barrier together(3);
  run_checked(
      mock, 3,
      [&](ProcessGroup& world) {
        std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
        finish(sum(world, own));
        std::optional<Hold> out;
        if (world.rank() == 2) out.emplace(mock, 2);
        Work work = sum(world, own);
        Work behind = sum(world, own);
        together.arrive_and_wait();
        if (world.rank() == 2) {
          EXPECT_FALSE(work.wait_for(5ms));
          world.abort("enough of it");
          out.reset();
        }
        for (Work* const one : {&work, &behind})
          EXPECT_THROW(finish(std::move(*one)), BackendError);
        EXPECT_THAT(std::string(world.health().message()), testing::HasSubstr("enough of it"));
      },
      no_kernels());
}

/// Reductions in parts.
void program(ProcessGroup& world) {
  compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 700});
  compare(world, {Kind::reduce_scatter, ReduceOp::sum, DType::float32, 300, 2});
}

TEST(MockDirectParts, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  EXPECT_GT(
      expect_failures_told({"cuMemcpyAsync", "cuMemHostRegister"}, {0}, program, no_kernels()), 10);
}

}  // namespace
}  // namespace tutti::test
