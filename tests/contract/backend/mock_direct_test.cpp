#include <barrier>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "kernels/reduce.hpp"
#include "mock_direct_ranks.hpp"
#include "os/socket.hpp"

// Tensors that go from GPU to GPU: bits, order, agreement and failures, over a mock of CUDA's
// driver that tells races also between ranks.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

class MockDirectBits : public testing::TestWithParam<int> {};

TEST_P(MockDirectBits, AreThoseOfTheCpu) {
  MockGpuWorld mock(GetParam());
  run_direct(mock, [&](ProcessGroup& world) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      for (int d = 0; d < kDTypeCount; ++d) {
        const auto op = static_cast<ReduceOp>(o);
        const auto dtype = static_cast<DType>(d);
        if (op == ReduceOp::premul_sum || !kernels::is_supported(op, dtype)) continue;
        if (!takes_case(static_cast<std::uint64_t>(d))) continue;
        compare(world, {Kind::all_reduce, op, dtype, 333});
        compare(world, {Kind::reduce_scatter, op, dtype, 19});
      }
    }
    compare_kinds(world, {0, 1, 7, 64, 1000});
  });
  EXPECT_GT(calls_of(mock, "cuLaunchKernel"), 0);
  EXPECT_EQ(calls_of(mock, "cuMemHostRegister"), 0) << "nothing went by way of the host";
}

INSTANTIATE_TEST_SUITE_P(Ranks, MockDirectBits, testing::ValuesIn(world_sizes()));

TEST(MockDirect, IsOffUnlessTheVariableTurnsItOn) {
  const auto config_of = [](const char* text) {
    return Config::from_environment([text](const char* name) {
      return std::string_view(name) == "TUTTI_CUDA_IPC" ? text : nullptr;
    });
  };
  EXPECT_FALSE(config_of(nullptr).value().cuda_ipc);
  EXPECT_TRUE(config_of("on").value().cuda_ipc);
  EXPECT_FALSE(config_of("off").value().cuda_ipc);
  EXPECT_THAT(std::string(config_of("1").status().message()),
              testing::HasSubstr("TUTTI_CUDA_IPC='1' is not understood; allowed: on, off"));
  MockGpuWorld mock(2);
  run_staged(mock, [](ProcessGroup& world) {
    compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 333});
  });
  EXPECT_EQ(calls_of(mock, "cuMemCreate"), 0);
}

/// More ranks than a kernel has in registers.
TEST(MockDirect, TakesElevenRanks) {
  run_direct(MockGpuWorld(11), [&](ProcessGroup& world) {
    compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float16, 40});
    compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 300});
  });
}

/// Others may still read a slot when its rank is in later calls.
TEST(MockDirect, SlotsAreNotFilledBeforeAllHaveRead) {
  std::atomic<bool> held = false;
  std::atomic<bool> seen = false;
  run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
    // Another call leaves another number in a slot.
    std::vector<std::vector<float>> own;
    std::vector<std::vector<float>> sums;
    std::vector<std::vector<float>> gathered(10, std::vector<float>(3));
    for (int i = 0; i < 10; ++i) {
      own.emplace_back(1, static_cast<float>(10 * i + world.rank()));
      sums.emplace_back(200, static_cast<float>(i));
    }
    finish(reduce_on(world, on_gpu(sums[0]), 0));  // the stream of each rank is there
    std::optional<Hold> results;
    if (world.rank() == 2) {
      results.emplace(world);
      held = true;
    } else {
      EXPECT_TRUE(comes_true([&] { return held.load(); }));
    }
    std::vector<Work> works;
    for (std::size_t i = 1; i < own.size(); ++i)  // the ranks meet once in each
      works.push_back(world.all_gather(on_gpu(gathered[i]), on_gpu(own[i])));
    for (std::size_t i = 1; i < sums.size(); ++i)
      works.push_back(reduce_on(world, on_gpu(sums[i]), 0));
    if (world.rank() == 0) {
      EXPECT_FALSE(works.back().wait_for(5ms)) << "rank 2 has not filled its slot";
      seen = true;
    }
    if (world.rank() == 2) {
      EXPECT_TRUE(comes_true([&] { return seen.load(); }));
    }
    results.reset();
    for (Work& work : works) finish(std::move(work));
    for (std::size_t i = 1; i < own.size(); ++i) {
      const auto tens = 10 * static_cast<float>(i);
      EXPECT_EQ(gathered[i], (std::vector<float>{tens, tens + 1, tens + 2}));
      EXPECT_EQ(sums[i], std::vector<float>(200, 3 * static_cast<float>(i)));
    }
  });
}

/// In a broken group nobody waits for the ranks that still read.
TEST(MockDirect, ABrokenGroupFillsNoSlot) {
  MockGpuWorld mock(3);
  std::atomic<bool> blocked = false;
  std::atomic<bool> broken = false;
  std::atomic<bool> may_go_on = false;
  constexpr std::size_t kFourParts = 1024;
  struct Tensors {  // they outlive the world: copies of calls that have failed may still run
    std::vector<float> own = std::vector<float>(kFourParts, 1);
    std::vector<float> all = std::vector<float>(3 * kFourParts, 0);
    std::vector<float> next = std::vector<float>(3 * kFourParts, 0);
    std::vector<float> first = std::vector<float>(4, 1);
  };
  std::vector<Tensors> tensors(3);
  const auto body = [&](ProcessGroup& world) {
    auto& [own, all, next, first] = tensors[static_cast<std::size_t>(world.rank())];
    finish(world.broadcast(on_gpu(first)));  // the stream of each rank is there
    if (world.rank() == 1) {
      EXPECT_TRUE(comes_true([&] { return blocked.load(); }));
    }
    Work one = world.all_gather(on_gpu(all), on_gpu(own));
    Work two = world.all_gather(on_gpu(next), on_gpu(own));  // begins with the slot of one's first
    if (world.rank() == 2) {  // fills its first slot, then reads late
      const std::lock_guard lock(mock.machine.mutex);
      MockMachine::Item item;
      item.run = [&may_go_on] { return may_go_on.load(); };
      mock.machine.push(2, mock.machine.last_stream(2), std::move(item));
      blocked = true;
    }
    if (world.rank() == 1) {
      std::this_thread::sleep_for(50ms);  // all have met once, and rank 0 waits for rank 2
      world.abort("a test");
    }
    EXPECT_THROW(finish(std::move(one)), Error);
    EXPECT_THROW(finish(std::move(two)), Error);
    if (world.rank() == 0) broken = true;
    if (world.rank() == 2) {
      EXPECT_TRUE(comes_true([&] { return broken.load(); }));
      may_go_on = true;
    }
  };
  run_mock_staged(mock, {.direct = small_parts()}, body);
  EXPECT_EQ(mock.machine.misuses(), "");
}

TEST(MockDirect, WhatIsNotForItGoesByWayOfTheHostInTheSameGroup) {
  MockGpuWorld mock(3);
  run_direct(mock, [&](ProcessGroup& world) {
    std::vector<float> values(100, 1);
    std::vector<float> got(100, 0);
    finish(reduce_on(world, on_gpu(values), 0));
    exchange(world, on_gpu(values), after(world), on_gpu(got), before(world));
    EXPECT_EQ(got, std::vector<float>(100, 3));
    ProcessGroup pairs = world.new_subgroups(1);
    finish(pairs.all_reduce(on_gpu(got)));
    finish(reduce_on(world, on_gpu(got), 0, ReduceOp::max));
    EXPECT_EQ(got, std::vector<float>(100, 3));
  });
  EXPECT_GT(calls_of(mock, "cuLaunchKernel"), 0);
  EXPECT_GT(calls_of(mock, "cuMemHostRegister"), 0);
}

TEST(MockDirect, AnotherGpuOfARankIsAnError) {
  std::barrier together(2);
  run_direct(MockGpuWorld(2, 2), [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    finish(reduce_on(world, on_gpu(values), 0));
    together.arrive_and_wait();
    const Device other{DeviceType::cuda, static_cast<std::int16_t>(world.rank())};
    EXPECT_THROW(finish(world.all_reduce(TensorView(values.data(), DType::float32, 4, other))),
                 Error);
    EXPECT_THAT(std::string(world.health().message()),
                testing::HasSubstr("a group works on one GPU of each rank"));
  });
}

TEST(MockDirect, ReductionsWithoutKernelsGoByWayOfTheHost) {
  MockGpuWorld mock(3);
  LoggedLines log;
  run_direct(mock, no_kernels(), [&](ProcessGroup& world) {
    compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 333});
    compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 333});
    for (const By by : kEveryBy) compare_scaled(world, Kind::reduce, DType::float16, 333, by);
    compare(world, {Kind::all_gather, ReduceOp::sum, DType::float32, 333});
  });
  EXPECT_GT(calls_of(mock, "cuMemHostRegister"), 0);
  EXPECT_EQ(calls_of(mock, "cuLaunchKernel"), 0);
  EXPECT_THAT(log.lines(), testing::Contains(testing::HasSubstr("was built without nvcc")));
}

/// Some of every kind.
void every_way(ProcessGroup& world) {
  compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 700});
  compare(world, {Kind::all_reduce, ReduceOp::sum, DType::float32, 30, 2});
  compare(world, {Kind::all_to_all, ReduceOp::sum, DType::int8, 100});
  compare_scaled(world, Kind::all_reduce, DType::float32, 300, By::each);
}

/// The inode of each socket of this process, "socket:[123]".
std::set<std::string> own_sockets() {
  std::set<std::string> all;
  std::error_code gone;  // a descriptor may be closed meanwhile
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd", gone))
    all.insert(std::filesystem::read_symlink(one.path(), gone).string());
  return all;
}

// Names of abstract sockets can be read by all users of the host.
TEST(MockDirectFaults, AStrangerThatConnectsAndSendsNothingHoldsNobodyBack) {
  constexpr int kConnections = 40;  // waits of some seconds for each would be noticed
  constexpr std::string_view kListens = "00010000";  // the flag of /proc/net/unix
  MockGpuWorld mock(2);
  std::set<std::string> names;
  std::vector<os::Fd> connections;
  mock.machine.at_load = [&] {
    const std::set<std::string> own = own_sockets();
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
      std::istringstream fields(line);
      std::string skipped;
      std::string flags;
      std::string inode;
      std::string name;
      fields >> skipped >> skipped >> skipped >> flags >> skipped >> skipped >> inode >> name;
      // A socket that is bound and does not listen yet refuses: its own rank finds it later.
      const bool ours = name.starts_with("@tutti-gpu-") && flags == kListens &&
                        own.contains("socket:[" + inode + "]");
      if (!ours || !names.insert(name).second) continue;
      for (int i = 0; i < kConnections; ++i) {
        if (auto made = os::connect_unix(name.substr(1)); made)
          connections.push_back(std::move(*made));
      }
    }
  };
  run_direct(mock, every_way);
  EXPECT_EQ(names.size(), 2U);
  EXPECT_EQ(connections.size(), 2U * kConnections);
  EXPECT_EQ(calls_of(mock, "cuMemHostRegister"), 0) << "nothing went by way of the host";
}

TEST(MockDirectFaults, WhereMemoryCannotBeSharedAllGoByWayOfTheHost) {
  std::optional<LoggedLines> log;
  const auto run = [&](MockGpuWorld& mock) {
    log.emplace();
    run_direct(mock, every_way);
  };
  const auto check = [&](MockGpuWorld& mock, const Fault& fault, const std::string& text) {
    EXPECT_EQ(text, "");
    EXPECT_TRUE(mock.machine.was_hit() || fault.occurrence > 0);
    if (!mock.machine.was_hit()) return;
    EXPECT_GT(calls_of(mock, "cuMemHostRegister"), 0);
    EXPECT_EQ(calls_of(mock, "cuLaunchKernel"), 0);
    EXPECT_THAT(log->lines(), testing::Contains(testing::AllOf(
                                  testing::HasSubstr("rank 1"),
                                  testing::HasSubstr(fault.function + " failed: a planted"))));
  };
  plant_each<MockGpuWorld>(kSharing, {0, 1, 2}, {1}, run, check);
}

TEST(MockDirectFaults, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  EXPECT_GT(expect_failures_told({"cuLaunchKernel", "cuModuleGetFunction"}, {0}, every_way,
                                 small_parts()),
            10);
}

// ---- Streams

TEST(MockDirect, TheFirstPartIsCopiedOnTheCallersStream) {
  std::barrier held(3);
  run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    finish(reduce_on(world, on_gpu(values), 0));  // the ranks agree
    std::optional<Hold> out;                      // the stream on which results come
    if (world.rank() == 2) out.emplace(world);
    held.arrive_and_wait();
    Work work = reduce_on(world, on_gpu(values), 0);
    if (world.rank() == 2) {
      EXPECT_FALSE(work.wait_for(5ms));
    } else {
      finish(std::move(work));  // rank 2 has filled its slot
      EXPECT_EQ(values, std::vector<float>(8, 9));
    }
    held.arrive_and_wait();
    out.reset();
    if (world.rank() == 2) finish(std::move(work));
    EXPECT_EQ(values, std::vector<float>(8, 9));
  });
}

// The results of a call lie for a while in the slot that is filled two parts later.
TEST(MockDirect, NoSlotIsFilledBeforeResultsHaveLeftIt) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    CallersStream first(world);
    CallersStream second(world);
    CallersStream third(world);
    std::vector<float> values(8, 1);
    std::vector<float> more(8, 1);
    std::vector<float> wide(16, 1);
    const TensorView strided = strided_on_gpu(wide);
    finish(reduce_on(world, on_gpu(values), first.handle));  // the ranks agree
    std::thread releases;
    if (world.rank() == 0) {
      auto out = std::make_unique<Hold>(world);  // the stream on which results come
      releases = std::thread([out = std::move(out)]() mutable {
        std::this_thread::sleep_for(50ms);
        out.reset();
      });
    }
    // Each on a stream of its own: only the library orders them.
    Work one = reduce_on(world, strided, first.handle);
    one.wait();
    Work two = reduce_on(world, on_gpu(values), second.handle);
    two.wait();
    Work three = reduce_on(world, on_gpu(more), third.handle);
    finish(std::move(three));
    if (releases.joinable()) releases.join();
    first.synchronize();
    second.synchronize();
    EXPECT_EQ(wide[14], 2);
    EXPECT_EQ(wide[15], 1);
    EXPECT_EQ(values, std::vector<float>(8, 4));
    EXPECT_EQ(more, std::vector<float>(8, 2));
  });
}

}  // namespace
}  // namespace tutti::test
