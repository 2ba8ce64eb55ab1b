#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mock_choice_ranks.hpp"

// The default map: where collectives on GPUs go is agreed by the ranks of each group at the first
// of them. Over mocks of CUDA's driver and of NCCL.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// The lines that are logged while it lives.
class Log {
 public:
  Log() {
    set_log_sink(
        [this](LogLevel, std::string_view text) {
          const std::lock_guard lock(mutex_);
          lines_.emplace_back(text);
        },
        LogLevel::info);
  }
  ~Log() { set_log_sink({}); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  /// Those about the choice.
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    std::ranges::copy_if(lines_, std::back_inserter(found), [](const std::string& line) {
      return line.find("collectives on GPUs go to") != std::string::npos;
    });
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

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
  Work sent = world.isend(on_gpu(own), (world.rank() + 1) % size);
  finish(world.irecv(on_gpu(got), (world.rank() + size - 1) % size));
  finish(std::move(sent));
  EXPECT_EQ(got, std::vector<int>(3, (world.rank() + size - 1) % size));
}

TEST(MockChoice, NcclIsTakenWhereEachRankHasAGpuOfItsOwn) {
  for (const int size : {1, 2, 3, 4}) {
    SCOPED_TRACE(size);
    std::vector<int> gpus;
    for (int rank = 0; rank < size; ++rank) gpus.push_back(rank);
    MockNcclWorld mock(size);
    Log log;
    run_choice(mock, gpus, [](ProcessGroup& world) {
      EXPECT_EQ(world.backend(), "auto");
      calls_of_every_kind(world);
    });
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(calls_of(mock, "ncclAllReduce", rank), 2) << "int16 and PREMUL_SUM go by the CPUs";
      EXPECT_EQ(calls_of(mock, "ncclAllGather", rank), 1);
      EXPECT_EQ(calls_of(mock, "ncclsend", rank), 0) << "two ranks cannot agree for all";
    }
    const auto lines = log.lines();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_THAT(lines[0], HasSubstr("collectives on GPUs go to nccl"));
  }
}

TEST(MockChoice, RanksThatShareAGpuGoByTheCpus) {
  const std::vector<std::vector<int>> shared = {{0, 0}, {0, 1, 0}, {3, 1, 2, 2}};
  for (const std::vector<int>& gpus : shared) {
    MockNcclWorld mock(static_cast<int>(gpus.size()));
    Log log;
    run_choice(mock, gpus, calls_of_every_kind);
    EXPECT_EQ(calls_of(mock, "ncclAllReduce"), 0);
    EXPECT_EQ(calls_of(mock, "ncclCommInitRankConfig"), 0);
    EXPECT_THAT(log.lines(), testing::Contains(HasSubstr("share a GPU")));
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

TEST(MockChoice, TensorsOfTheCpuAskNothing) {
  MockNcclWorld mock(2);
  run_choice(mock, {0, 1}, [](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    world.all_reduce(values).wait();
    world.barrier().wait();
    std::optional<ProcessGroup> part = world.split(0, 0);
    part->all_reduce(values).wait();
    EXPECT_EQ(values, std::vector<float>(4, 4));
  });
  EXPECT_TRUE(mock.machine.calls(0).empty());
}

TEST(MockChoice, EachGroupChoosesForItself) {
  MockNcclWorld mock(4);
  Log log;
  run_choice(mock, {0, 0, 1, 1}, [](ProcessGroup& world) {
    std::vector<int> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    // 0 and 2 have GPUs of their own, and so have 1 and 3.
    std::optional<ProcessGroup> part = world.split(world.rank() % 2, world.rank());
    finish(part->all_reduce(on_gpu(values)));
    finish(world.all_reduce(on_gpu(values)));
    EXPECT_EQ(values, std::vector<int>(4, 32));
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(calls_of(mock, "ncclAllReduce", rank), 1);
  EXPECT_EQ(log.lines().size(), 3U);
}

TEST(MockChoice, ARankThatCannotTellItsGpuSendsAllByTheCpus) {
  MockNcclWorld mock(3);
  mock.machine.plant(1, "cuDeviceGetPCIBusId");
  Log log;
  run_choice(mock, {0, 1, 2}, calls_of_every_kind);
  EXPECT_EQ(calls_of(mock, "ncclAllReduce"), 0);
  EXPECT_THAT(log.lines(), testing::Contains(HasSubstr("rank 1 cannot tell which GPU it uses")));
}

TEST(MockChoice, FollowsTheCallersStreamsAndWaitOrdersThem) {
  MockNcclWorld mock(2);
  run_choice(mock, {0, 1}, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());
    std::vector<float> source(40, static_cast<float>(world.rank() + 1));
    std::vector<float> values(40, 0);
    std::vector<float> result(40, 0);
    for (int i = 0; i < 3; ++i) {  // before the choice, and after it
      stream.hold(true);
      stream.copy(values, source);
      Work work = reduce_on(world, on_gpu(values), stream.handle);
      stream.hold(false);
      work.wait();
      stream.copy(result, values);
      finish(reduce_on(world, on_gpu(source), stream.handle));
      EXPECT_EQ(result[0], source[0]);
    }
  });
}

// Else it would depend on the streams of each rank whether it can be captured.
TEST(MockChoice, ACapturedCallWaitsForTheChoice) {
  MockNcclWorld mock(2);
  run_choice(mock, {0, 1}, [&](ProcessGroup& world) {
    CallersStream slow(mock, world.rank());
    CallersStream captured(mock, world.rank());
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
  MockNcclWorld mock(2);
  run_choice(mock, {0, 1}, [&](ProcessGroup& world) {
    CallersStream stream(mock, world.rank());
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

TEST(MockChoice, CallbacksAndWorksThatNobodyKeepsAreServed) {
  MockNcclWorld mock(3);
  std::atomic<int> called = 0;
  run_choice(mock, {0, 1, 2}, [&](ProcessGroup& world) {
    std::vector<std::vector<int>> values(6, std::vector<int>(8, 1));
    std::vector<Work> works;
    for (std::vector<int>& one : values) works.push_back(world.all_reduce(on_gpu(one)));
    for (Work& work : works)
      work.on_done({[](void* context, const Status& outcome) noexcept {
                      *static_cast<std::atomic<int>*>(context) += outcome.ok() ? 1 : 100;
                    },
                    &called});
    EXPECT_TRUE(comes_true([&] { return called >= 18; }));
    EXPECT_EQ(called, 18);
    for (Work& work : works) EXPECT_TRUE(work.done());
    for (std::vector<int>& one : values) EXPECT_EQ(one, std::vector<int>(8, 3));
  });
}

TEST(MockChoice, ATensorOfTheCpuBesideThoseOfGpusIsADisagreement) {
  MockNcclWorld mock(3);
  std::barrier together(3);
  run_choice(mock, {0, 1, 2}, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    together.arrive_and_wait();
    const bool of_cpu = world.rank() == 1;
    EXPECT_THROW(finish(of_cpu ? world.all_reduce(values) : world.all_reduce(on_gpu(values))),
                 DisagreementError);
    EXPECT_THAT(std::string(world.health().message()),
                HasSubstr("all_reduce(SUM, float32 x 4, on GPUs)"));
    EXPECT_EQ(values, std::vector<float>(4, 1)) << "outputs are untouched";
  });
}

TEST(MockChoice, UnlikeCallsAreADisagreement) {
  MockNcclWorld mock(3);
  std::barrier together(3);
  run_choice(mock, {0, 1, 2}, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    std::vector<float> fewer(3, 1);
    together.arrive_and_wait();
    EXPECT_THROW(finish(world.all_reduce(on_gpu(world.rank() == 2 ? fewer : values))),
                 DisagreementError);
  });
}

TEST(MockChoice, AnAbortEndsTheWaitForTheOthers) {
  MockNcclWorld mock(3);
  run_choice(mock, {0, 1, 2}, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    if (world.rank() == 1) return world.abort("enough");
    Work work = world.all_reduce(on_gpu(values));
    EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds::max()));
    EXPECT_EQ(work.error().code(), Errc::aborted);
  });
}

TEST(MockChoice, AnAbortBreaksBothWhereNcclWasChosen) {
  MockNcclWorld mock(2);
  std::barrier together(2);
  run_choice(mock, {0, 1}, [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(world.all_reduce(on_gpu(values)));
    together.arrive_and_wait();
    if (world.rank() == 0) world.abort("enough");
    EXPECT_TRUE(breaks_soon(world));
    EXPECT_THROW(world.all_reduce(values).wait(), BackendError);
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
  // A call that is not known to be captured takes its turn behind the others, and asks once more.
  if (function == "cuStreamIsCapturing") return occurrence == 0 || occurrence == 2;
  return occurrence == 1 &&
         (function == "cuCtxPushCurrent" || function == "cuThreadExchangeStreamCaptureMode");
}

/// The error that a world of three GPUs ends with; empty: none.
std::string choice_error_of(MockNcclWorld& mock,
                            const std::function<void(ProcessGroup& world)>& body) {
  try {
    run_mock_choice(mock, {0, 1, 2}, body);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
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
  std::vector<std::string> functions;
  {
    MockNcclWorld world(3);
    run_choice(world, {0, 1, 2}, some);
    for (const auto& [function, calls] : world.machine.calls(0)) functions.push_back(function);
  }
  EXPECT_THAT(functions, testing::IsSupersetOf({"ncclAllReduce", "cuDeviceGetPCIBusId"}));
  for (const std::string& function : functions) {
    for (const int occurrence : {0, 1, 2}) {
      SCOPED_TRACE(function + " " + std::to_string(occurrence));
      MockNcclWorld world(3);
      world.machine.plant(0, function, occurrence);
      const std::string text = choice_error_of(world, some);
      EXPECT_TRUE(world.machine.was_hit() || occurrence > 0);
      const bool told = !text.empty();
      if (told || (world.machine.was_hit() && !is_harmless(function, occurrence))) {
        EXPECT_THAT(text, HasSubstr(function + " failed: a planted fault of "));
      }
      expect_clean(world.machine);
    }
  }
}

TEST(MockChoiceFaults, AFailureWhileACallIsHandedOverIsTold) {
  // Asked twice when the call begins, then by the one that hands it over, and by NCCL's backend.
  for (const int occurrence : {2, 3}) {
    SCOPED_TRACE(occurrence);
    MockNcclWorld world(3);
    world.machine.plant(0, "cuStreamIsCapturing", occurrence);
    std::vector<std::vector<float>> values(3, std::vector<float>(4, 1));
    EXPECT_THAT(choice_error_of(world,
                                [&](ProcessGroup& group) {
                                  const auto own = static_cast<std::size_t>(group.rank());
                                  finish(group.all_reduce(on_gpu(values[own])));
                                }),
                HasSubstr("cuStreamIsCapturing failed: a planted fault of "));
    expect_clean(world.machine);
  }
}

}  // namespace
}  // namespace tutti::test
