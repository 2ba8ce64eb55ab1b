#include <gmock/gmock.h>

#include "backend/nccl/mapping.hpp"
#include "mock_nccl_ranks.hpp"

// Behaviour of the backend on NCCL when a function of NCCL or CUDA fails.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// Rank 1 tells rank 0 that it has seen the end of all before, and waits until rank 0 has broken
/// the group. False: this is rank 0, which may.
bool waits_for_a_break(ProcessGroup& world) {
  static std::vector<float> sign(1, 0);
  if (world.rank() == 0) {
    std::vector<float> got(1, 0);
    finish(world.irecv(on_gpu(got), 1));
    return false;
  }
  Work sent = world.isend(on_gpu(sign), 0);
  EXPECT_TRUE(breaks_soon(world));
  (void)sent.error();  // it may end after the break
  return true;
}

TEST(MockNcclFaults, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  std::vector<GpuProgram> programs;
  std::chrono::steady_clock::time_point begun;
  const auto run = [&](MockNcclWorld& mock) {
    programs = std::vector<GpuProgram>(kRanks);
    begun = std::chrono::steady_clock::now();
    // Only where nothing is told anybody waits so long.
    run_mock_nccl(mock, {.timeout = 5s}, [&](ProcessGroup& group) {
      GpuProgram& own = programs[static_cast<std::size_t>(group.rank())];
      finish(group.broadcast(on_gpu(own.a)));
      finish(group.reduce(on_gpu(own.a)));
      finish(group.reduce_scatter(on_gpu(own.got), on_gpu(own.from)));
      finish(group.all_to_all(on_gpu(own.all), on_gpu(own.from)));
      finish(group.gather(on_gpu(own.all), on_gpu(own.a)));
      finish(group.scatter(on_gpu(own.a), on_gpu(own.all)));
      own.run(group, TensorView(own.factors.data(), DType::float32, 1));
      raise_if(group.health());
    });
  };
  const std::vector<std::string> functions = functions_of<MockNcclWorld>(run);
  // All that the interfaces have, but for what gives back what was made.
  EXPECT_GE(functions.size(), 28U);
  const auto check = [&](MockNcclWorld& mock, const Fault& fault, const std::string& text) {
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
    // They are called at the end only, when nobody is left to be told.
    const bool at_the_end =
        fault.function == "ncclCommFinalize" || fault.function == "ncclCommDestroy";
    if (mock.machine.was_hit() && !at_the_end) {
      EXPECT_THAT(text, testing::HasSubstr(fault.function + " failed: a planted fault of "));
      EXPECT_THAT(text, testing::HasSubstr("rank 0"));
    }
    EXPECT_TRUE(mock.machine.was_hit() || fault.occurrence > 0);
  };
  plant_each<MockNcclWorld>(functions, {0, 1}, {0}, run, check);
}

TEST(MockNcclFaults, WhatNcclTellsWhileItRunsBreaksTheGroupOnAllRanks) {
  MockNcclWorld mock(2);
  std::atomic<int> told{0};
  std::vector<float> data(4, 1);
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    if (waits_for_a_break(world)) return;
    mock.network.broken_at = 0;
    Work work = world.all_reduce(on_gpu(data));
    (void)work.wait_for(std::chrono::nanoseconds::max());
    EXPECT_THAT(std::string(work.error().message()),
                testing::HasSubstr("a planted fault of the network (6)"));
    EXPECT_THAT(std::string(work.error().message()), testing::HasSubstr("all_reduce(SUM"));
    ++told;
  });
  EXPECT_EQ(told, 1);
  EXPECT_EQ(mock.machine.leaks(), "");
}

// ncclCommAbort may not return when a network or a GPU has failed.
TEST(MockNcclFaults, AnAbortThatHangsHoldsNobodyBack) {
  MockNcclWorld mock(2);
  mock.network.abort_limit = 1s;
  const auto set_hang = [&](bool hang) {
    const std::lock_guard lock(mock.machine.mutex);
    mock.network.aborts_hang = hang;
    mock.machine.graphs_changed.notify_all();
  };
  std::vector<std::vector<float>> values(2, std::vector<float>(4, 1));  // outlive the aborts
  run_mock_nccl(mock, {.timeout = 500ms}, [&](ProcessGroup& world) {
    std::vector<float>& own = values[static_cast<std::size_t>(world.rank())];
    finish(world.all_reduce(on_gpu(own)));
    if (waits_for_a_break(world)) return;
    set_hang(true);
    EXPECT_THROW(finish(world.all_reduce(on_gpu(own))), TimeoutError);
    EXPECT_FALSE(world.health().ok());
  });
  set_hang(false);
}

TEST(MockNcclFaults, ASplitThatIsUnderWayEndsWithItsGroup) {
  MockNcclWorld mock(2);
  mock.network.splits_second = 1;
  mock.machine.plant(1, "ncclCommSplit");
  run_nccl(mock, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    const Outcome error = error_of<Error>([&] { (void)world.new_subgroups(2); });
    EXPECT_EQ(error.culprit(), 1) << error.message();
  });
}

TEST(MockNcclFaults, MakingAGroupKeepsItsTimeout) {
  run_nccl(MockNcclWorld(2), {.timeout = 500ms}, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));  // so that there is a communicator to be split
    if (waits_for_a_break(world)) return;
    EXPECT_THROW((void)world.new_subgroups(2), TimeoutError);
  });
}

TEST(MockNcclFaults, SeveralWorldsFollowEachOther) {
  for (int i = 0; i < 3; ++i) {
    run_nccl(MockNcclWorld(2), [&](ProcessGroup& world) {
      std::vector<float> values(4, 1);
      finish(world.all_reduce(on_gpu(values)));
      EXPECT_EQ(values, std::vector<float>(4, 2));
    });
  }
}

/// The answer of the backend to an operation of any kind.
std::string why_not(Kind kind, Device device) {
  std::vector<int> values(4);
  Collective call;
  call.kind = kind;
  call.input = TensorView(values.data(), DType::int32, values.size(), device);
  call.output = call.input;
  return nccl::why_unsupported(call, 23200);
}

// The table in docs/reference/backends.md is made of these declarations.
TEST(MockNcclFaults, OperationsAreTakenAsDeclared) {
  for (const KindTraits& traits : kKindTraits) {
    const Kind kind = static_cast<Kind>(&traits - kKindTraits);
    if (traits.layout == Layout::none) continue;
    const bool lacks = std::ranges::find(nccl::kLacks, kind) != std::end(nccl::kLacks);
    EXPECT_EQ(why_not(kind, kGpu).empty(), !lacks) << traits.name;
    EXPECT_NE(why_not(kind, Device()), "") << traits.name;
  }
  EXPECT_TRUE(std::ranges::equal(nccl::kTakes, std::array{DeviceType::cuda}));
}

TEST(MockNcclFaults, CallsThatNcclHasNotAreRefusedAtTheCall) {
  MockNcclWorld mock(1);
  mock.network.version = 21900;
  run_mock_nccl(mock, [&](ProcessGroup& world) {
    std::vector<int> ints(4, 1);
    const auto refused = [&](const auto& call, const char* text) {
      const Outcome error = error_of<InvalidArgument>([&] { call(); });
      EXPECT_THAT(error.message(), testing::HasSubstr(text));
    };
    refused([&] { (void)world.all_reduce(ints); }, "is in the memory of cpu");
    refused([&] { (void)world.all_reduce(on_gpu(ints), {.op = ReduceOp::bor}); },
            "NCCL has no BOR, nor any other op on bits");
    refused([&] { (void)world.scan(on_gpu(ints)); }, "NCCL has no scan");
    std::vector<std::int16_t> shorts(4);
    refused([&] { (void)world.all_reduce(on_gpu(shorts)); }, "this NCCL has no SUM of int16");
    const TensorView narrow(shorts.data(), DType::float8_e5m2, 8, kGpu);
    refused([&] { (void)world.all_reduce(narrow); }, "(2.24 and later have)");
    finish(world.broadcast(on_gpu(shorts)));
    std::vector<float> values(4, 1);
    std::vector<float> factors(4, 2);
    Work work = reduce_on(world, on_gpu(values), 0, ReduceOp::premul_sum, on_gpu(factors));
    EXPECT_THROW(work.wait(), BackendError);
    EXPECT_TRUE(world.health().ok()) << "it was told to the caller alone";
  });
}

}  // namespace
}  // namespace tutti::test
