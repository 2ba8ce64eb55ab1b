#include <gmock/gmock.h>

#include <barrier>
#include <iterator>

#include "mock_nccl_ranks.hpp"

// The default map: where collectives on GPUs go is agreed by the ranks of each group at the first
// of them. Over mocks of CUDA's driver and of NCCL.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// The lines about the choice.
std::vector<std::string> lines_about_it(LoggedLines& log) {
  std::vector<std::string> found;
  std::ranges::copy_if(log.lines(), std::back_inserter(found), [](const std::string& line) {
    return line.find("collectives on GPUs go to") != std::string::npos;
  });
  return found;
}

/// Some of all: collectives that NCCL has, one that it has not, messages, the CPU between them.
void calls_of_every_kind(ProcessGroup& world) {
  const int size = world.size();
  std::vector<float> values(64, 1);
  std::vector<int> host(5, 1);
  std::vector<std::int16_t> narrow(9, 1);
  Work first = world.all_reduce(on_gpu(values));
  Work second = world.all_reduce(host);  // behind it
  std::vector<float> others(64, 2);
  Work third = world.all_reduce(on_gpu(others));
  Work fourth = world.all_reduce(on_gpu(narrow));
  finish(std::move(fourth));
  second.wait();
  finish(std::move(third));
  finish(std::move(first));
  EXPECT_EQ(values, std::vector<float>(64, static_cast<float>(size)));
  EXPECT_EQ(others, std::vector<float>(64, static_cast<float>(2 * size)));
  EXPECT_EQ(host, std::vector<int>(5, size));
  EXPECT_EQ(narrow, std::vector<std::int16_t>(9, static_cast<std::int16_t>(size)));
  std::vector<int> own(3, world.rank());
  std::vector<int> all(own.size() * static_cast<std::size_t>(size), -1);
  finish(world.all_gather(on_gpu(all), on_gpu(own)));
  EXPECT_EQ(all.front(), 0);
  EXPECT_EQ(all.back(), size - 1);
  std::vector<float> factors(64, 2);
  std::vector<float> ones(64, 1);
  finish(reduce_on(world, on_gpu(ones), 0, ReduceOp::premul_sum, on_gpu(factors)));
  EXPECT_EQ(ones, std::vector<float>(64, static_cast<float>(2 * size)));
  std::vector<int> got(3, -1);
  exchange(world, on_gpu(own), after(world), on_gpu(got), before(world));
  EXPECT_EQ(got, std::vector<int>(3, before(world)));
}

TEST(MockChoice, NcclIsTakenWhereEachRankHasAGpuOfItsOwn) {
  for (const int size : {1, 2, 3, 4}) {
    SCOPED_TRACE(size);
    MockNcclWorld mock(size);
    LoggedLines log(LogLevel::info);
    run_choice(mock, gpu_of_each(size), [](ProcessGroup& world) {
      EXPECT_EQ(world.backend(), "auto");
      calls_of_every_kind(world);
    });
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(calls_of(mock, "ncclAllReduce", rank), 2) << "int16 and PREMUL_SUM go by the CPUs";
      EXPECT_EQ(calls_of(mock, "ncclAllGather", rank), 1);
      EXPECT_EQ(calls_of(mock, "ncclsend", rank), 0) << "two ranks cannot agree for all";
    }
    const auto lines = lines_about_it(log);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_THAT(lines[0], HasSubstr("collectives on GPUs go to nccl"));
  }
}

TEST(MockChoice, RanksThatShareAGpuGoByTheCpus) {
  const std::vector<std::vector<int>> shared = {{0, 0}, {0, 1, 0}, {3, 1, 2, 2}};
  for (const std::vector<int>& gpus : shared) {
    MockNcclWorld mock(static_cast<int>(gpus.size()));
    LoggedLines log(LogLevel::info);
    run_choice(mock, gpus, calls_of_every_kind);
    EXPECT_EQ(calls_of(mock, "ncclAllReduce"), 0);
    EXPECT_EQ(calls_of(mock, "ncclCommInitRankConfig"), 0);
    EXPECT_THAT(lines_about_it(log), testing::Contains(HasSubstr("share a GPU")));
  }
}

TEST(MockChoice, DirectCallsAreTakenWhereNcclIsNot) {
  MockNcclWorld mock(3);
  run_choice(mock, {0, 0, 0}, calls_of_every_kind, small_parts());
  EXPECT_GT(calls_of(mock, "cuLaunchKernel"), 0);
  EXPECT_EQ(calls_of(mock, "ncclAllReduce"), 0);
  MockNcclWorld other(3);
  run_choice(other, {0, 1, 2}, calls_of_every_kind, small_parts());
  EXPECT_EQ(calls_of(other, "ncclAllReduce"), 2);
}

TEST(MockChoice, EachGroupChoosesForItself) {
  MockNcclWorld mock(4);
  LoggedLines log(LogLevel::info);
  run_choice(mock, {0, 0, 1, 1}, [](ProcessGroup& world) {
    std::vector<int> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    // 0 and 2 have GPUs of their own, and so have 1 and 3.
    ProcessGroup part = world.split(world.rank() % 2, world.rank());
    finish(part.all_reduce(on_gpu(values)));
    finish(world.all_reduce(on_gpu(values)));
    EXPECT_EQ(values, std::vector<int>(4, 32));
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(calls_of(mock, "ncclAllReduce", rank), 1);
  EXPECT_EQ(lines_about_it(log).size(), 3U);
}

TEST(MockChoice, ARankThatCannotTellItsGpuSendsAllByTheCpus) {
  MockNcclWorld mock(3);
  mock.machine.plant(1, "cuDeviceGetPCIBusId");
  LoggedLines log(LogLevel::info);
  run_choice(mock, {0, 1, 2}, calls_of_every_kind);
  EXPECT_EQ(calls_of(mock, "ncclAllReduce"), 0);
  EXPECT_THAT(lines_about_it(log),
              testing::Contains(HasSubstr("rank 1 cannot tell which GPU it uses")));
}

// Else it would depend on the streams of each rank whether it can be captured.
TEST(MockChoice, ACapturedCallWaitsForTheChoice) {
  run_choice(MockNcclWorld(2), {0, 1}, [&](ProcessGroup& world) {
    CallersStream slow(world);
    CallersStream captured(world);
    std::vector<float> first(4, 1);
    std::vector<float> values(8, 1);
    slow.hold(world.rank() == 1);
    Work before = reduce_on(world, on_gpu(first), slow.handle);
    std::thread releases([&] {
      std::this_thread::sleep_for(30ms);
      slow.hold(false);
    });
    {
      const Capture capture(captured);
      reduce_on(world, on_gpu(values), captured.handle).wait();
    }
    releases.join();
    finish(std::move(before));
    captured.run_graph();
    captured.synchronize();
    EXPECT_EQ(first, std::vector<float>(4, 2));
    EXPECT_EQ(values, std::vector<float>(8, 2));
  });
}

TEST(MockChoice, ACallThatWaitsForItsStreamIsNotOvertaken) {
  run_choice(MockNcclWorld(2), {0, 1}, [&](ProcessGroup& world) {
    CallersStream stream(world);
    const bool late = world.rank() == 0;
    std::vector<float> first(4, 1);
    std::vector<float> second(6, 1);
    std::vector<float> third(8, 1);
    std::vector<float> source(6, 2);
    stream.hold(late);
    stream.copy(second, source);
    Work chooses = world.all_reduce(on_gpu(first));
    Work waits = reduce_on(world, on_gpu(second), stream.handle);
    finish(std::move(chooses));  // NCCL is chosen
    Work comes = world.all_reduce(on_gpu(third));
    EXPECT_FALSE(late && comes.done()) << "the one before it has not been given to NCCL";
    stream.hold(false);
    finish(std::move(comes));
    finish(std::move(waits));
    EXPECT_EQ(second, std::vector<float>(6, 4));
    EXPECT_EQ(third, std::vector<float>(8, 2));
  });
}

// NCCL is chosen at any moment of the call that waits: before, while it is begun, behind it.
TEST(MockChoice, ACallIsNotOvertakenWheneverNcclIsChosen) {
  run_choice(MockNcclWorld(2), {0, 1}, [&](ProcessGroup& world) {
    for (int round = 0; round < 120; ++round) {
      ProcessGroup group = world.split(0, world.rank());
      CallersStream stream(world);
      std::vector<float> first(4, 1);
      std::vector<float> second(6, 2);
      std::vector<float> third(8, 1);
      stream.hold(world.rank() == 0);
      Work chooses = group.all_reduce(on_gpu(first));
      for (int i = 0; i < round * 250; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      Work waits = reduce_on(group, on_gpu(second), stream.handle);
      finish(std::move(chooses));
      Work comes = group.all_reduce(on_gpu(third));
      stream.hold(false);
      finish(std::move(comes));
      finish(std::move(waits));
      EXPECT_EQ(second, std::vector<float>(6, 4));
    }
  });
}

TEST(MockChoice, CallbacksAndWorksThatNobodyKeepsAreServed) {
  std::atomic<int> called = 0;
  run_choice(MockNcclWorld(3), {0, 1, 2}, [&](ProcessGroup& world) {
    std::vector<std::vector<int>> values(6, std::vector<int>(8, 1));
    std::vector<Work> works;
    for (std::vector<int>& one : values) works.push_back(world.all_reduce(on_gpu(one)));
    for (Work& work : works) work.on_done(counts_in(called));
    EXPECT_TRUE(comes_true([&] { return called >= 18; }));
    EXPECT_EQ(called, 18);
    for (Work& work : works) EXPECT_TRUE(work.done());
    for (std::vector<int>& one : values) EXPECT_EQ(one, std::vector<int>(8, 3));
  });
}

TEST(MockChoice, ACallThatNcclHasIsOverBeforeItsCallbackIfTheGroupGoes) {
  std::barrier together(2);
  std::vector<float> second(8, 1);
  Heard heard;
  run_choice(MockNcclWorld(2), {0, 1}, [&](ProcessGroup& world) {
    ProcessGroup group = world.split(0, world.rank());
    CallersStream stream(world);
    std::vector<float> first(4, 1);
    std::vector<float> others(8, 1);
    if (world.rank() == 0) {
      stream.hold(true);
      Work chooses = group.all_reduce(on_gpu(first));
      Work waits = reduce_on(group, on_gpu(second), stream.handle);  // for the choice
      together.arrive_and_wait();
      finish(std::move(chooses));
      together.arrive_and_wait();
      stream.hold(false);
      const auto handed = [] { return calls_of(mock_world()->machine, "ncclAllReduce") == 2; };
      EXPECT_TRUE(comes_true(handed));
      waits.on_done(heard.callback());
      waits.detach();
      together.arrive_and_wait();
      group = {};
      heard.wait();
      EXPECT_TRUE(heard.status.ok()) << heard.status.message();
      EXPECT_EQ(second, std::vector<float>(8, 2));
    } else {
      together.arrive_and_wait();
      finish(group.all_reduce(on_gpu(first)));
      std::optional<Hold> held(std::in_place, world);  // the stream of NCCL
      Work comes = group.all_reduce(on_gpu(others));
      together.arrive_and_wait();
      together.arrive_and_wait();
      std::this_thread::sleep_for(30ms);
      EXPECT_EQ(heard.times, 0) << "the GPU still writes";
      held.reset();
      finish(std::move(comes));
    }
    world.barrier().wait();
  });
}

TEST(MockChoice, AnAbortEndsTheWaitForTheOthers) {
  run_choice(MockNcclWorld(3), {0, 1, 2}, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    if (world.rank() == 1) return world.abort("enough");
    Work work = world.all_reduce(on_gpu(values));
    EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds::max()));
    EXPECT_EQ(work.error().code(), Errc::aborted);
  });
}

/// Nobody need be told if this call of a function fails: what the calls_of_every_kind does is right
/// all the same.
bool is_harmless(const std::string& function, int occurrence) {
  // At the end, when nobody is left to be told.
  if (function == "ncclCommFinalize" || function == "ncclCommDestroy") return true;
  // A rank that cannot tell which GPU it uses keeps the group from NCCL.
  if (function == "cuDeviceGetPCIBusId") return true;
  // Two operations end with one look at an event each, so a third may come when both have ended.
  if (function == "cuEventQuery") return occurrence == 2;
  // A call that is not known to be captured takes its turn behind the others, and asks once more.
  if (function == "cuStreamIsCapturing") return occurrence == 0 || occurrence == 2;
  return occurrence == 1 &&
         (function == "cuCtxPushCurrent" || function == "cuThreadExchangeStreamCaptureMode");
}

// ncclCommAbort may take long. The other groups of the world go on meanwhile.
TEST(MockChoice, AnAbortThatHangsHoldsNoOtherGroupBack) {
  MockNcclWorld mock(2);
  const auto set_hang = [&](bool hang) {
    locked(mock, [&] { mock.network.aborts_hang = hang; });
    mock.machine.graphs_changed.notify_all();
  };
  set_hang(true);
  std::atomic<int> passed{0};
  std::thread release([&] {
    EXPECT_TRUE(comes_true([&] { return passed == 2; })) << "an abort holds the lock of all calls";
    set_hang(false);
  });
  run_choice(mock, gpu_of_each(2), [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    std::vector<float> got(4, 0);
    ProcessGroup broken = world.new_subgroups(2);
    finish(broken.all_reduce(on_gpu(values)));
    meet(world);
    std::thread aborts([&] { broken.abort("enough of it"); });
    EXPECT_TRUE(breaks_soon(broken));
    exchange(world, on_gpu(values), after(world), on_gpu(got), before(world));
    EXPECT_EQ(got, std::vector<float>(4, 2));
    ++passed;
    aborts.join();
  });
  release.join();
}

TEST(MockChoiceFaults, AFailureOfAnyFunctionIsToldAndLeavesNothing) {
  const auto some = [](ProcessGroup& world) {
    std::vector<float> values(64, 1);
    std::vector<float> others(64, 1);
    Work first = world.all_reduce(on_gpu(values));
    finish(world.all_reduce(on_gpu(others)));
    finish(std::move(first));
    EXPECT_EQ(values, std::vector<float>(64, 3));
    EXPECT_EQ(others, values);
  };
  const auto run = [&](MockNcclWorld& mock) { run_mock_choice(mock, {0, 1, 2}, some); };
  const std::vector<std::string> functions = functions_of<MockNcclWorld>(run);
  EXPECT_THAT(functions, testing::IsSupersetOf({"ncclAllReduce", "cuDeviceGetPCIBusId"}));
  const auto check = [](MockNcclWorld& mock, const Fault& fault, const std::string& text) {
    const bool hit = mock.machine.was_hit();
    EXPECT_TRUE(hit || fault.occurrence > 0);
    if (!text.empty() || (hit && !is_harmless(fault.function, fault.occurrence))) {
      EXPECT_THAT(text, HasSubstr(fault.function + " failed: a planted fault of "));
    }
  };
  plant_each<MockNcclWorld>(functions, {0, 1, 2}, {0}, run, check);
}

TEST(MockChoiceFaults, AFailureWhileACallIsHandedOverIsTold) {
  std::vector<std::vector<float>> values;
  const auto run = [&](MockNcclWorld& mock) {
    values.assign(3, std::vector<float>(4, 1));
    run_mock_choice(mock, {0, 1, 2}, [&](ProcessGroup& group) {
      finish(group.all_reduce(on_gpu(values[static_cast<std::size_t>(group.rank())])));
    });
  };
  const auto check = [](MockNcclWorld& /*mock*/, const Fault& /*fault*/, const std::string& text) {
    EXPECT_THAT(text, HasSubstr("cuStreamIsCapturing failed: a planted fault of "));
  };
  // Asked twice when the call begins, then by the one that hands it over, and by NCCL's backend.
  plant_each<MockNcclWorld>({"cuStreamIsCapturing"}, {2, 3}, {0}, run, check);
}

}  // namespace
}  // namespace tutti::test
