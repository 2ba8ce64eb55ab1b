#include <csignal>
#include <latch>

#include "mock_nccl_ranks.hpp"
#include "support/temporary_folder.hpp"

// A rank is killed that no operation of our own engine waits for: the others name it. On NCCL each
// rank is a process with a mock of its own, whose operations never end, and which tells nothing.
namespace tutti::test {
namespace {

constexpr int kVictim = 2;

/// Tells the fault of the error that a survivor got; empty: it names the victim.
std::string wrong_with(const Outcome& told) {
  if (told.ok()) return "no error";
  const std::string text(told.message());
  if (told.code() != Errc::peer_lost || told.culprit() != kVictim ||
      text.find("lost rank 2 ") == std::string::npos)
    return "another error: " + text;
  return {};
}

std::string wrong_with(Work& work) {
  (void)work.wait_for(std::chrono::nanoseconds::max());
  return wrong_with(work.error());
}

/// How the ranks of a test make their world.
struct Way {
  std::string backend = std::string(kMockNcclBackend);
  Config::TransportChoice transport = Config::TransportChoice::automatic;
  bool direct = false;  ///< tensors go from GPU to GPU
};
const Way kDirect{.backend = std::string(kMockStagedBackend), .direct = true};
using Body = std::function<std::string(ProcessGroup& world, std::vector<float>& values)>;

/// One rank; throws what is wrong with its error.
void run_rank(int rank, const std::string& file, const Way& way, const Body& body) {
  make_mock_nccl_known();
  make_mock_staged_known();
  MockNcclWorld mock(kRanks);
  mock_world() = &mock;
  mock_run() = {};
  if (way.direct) mock_run().direct = small_parts();
  Config config = patient(way.backend);
  config.transport = way.transport;
  config.cuda_ipc = way.direct;
  std::vector<float> values(4, 1);
  ProcessGroup world = init_process_group(
      {.init_method = "file://" + file, .rank = rank, .size = kRanks, .config = config});
  const std::string wrong = body(world, values);
  if (!wrong.empty()) throw std::runtime_error("rank " + std::to_string(rank) + ": " + wrong);
}

void expect_victim_named(const Way& way, const Body& body) {
  const TemporaryFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(start_child([&] { run_rank(rank, folder.at("meet"), way, body); }));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(end_of(ranks[static_cast<std::size_t>(rank)]), rank == kVictim ? -SIGKILL : 0)
        << "rank " << rank;
  }
}

/// Rank 2 dies when all ranks have come here.
void kill_victim(ProcessGroup& world) {
  const std::string passed = "passed ";
  world.store()->set(passed + std::to_string(world.rank()), "1");
  if (world.rank() != kVictim) return;
  for (int rank = 0; rank < kRanks; ++rank) (void)world.store()->get(passed + std::to_string(rank));
  ::raise(SIGKILL);
}

std::string die_before_the_call(ProcessGroup& world, std::vector<float>& values) {
  kill_victim(world);
  Work work = world.all_reduce(on_gpu(values));
  return wrong_with(work);
}

std::string die_while_nccl_works(ProcessGroup& world, std::vector<float>& values) {
  Work work = world.all_reduce(on_gpu(values));
  world.barrier().wait();  // behind the comparison of the calls: only NCCL is waited for
  kill_victim(world);
  return wrong_with(work);
}

constexpr auto kTcp = Config::TransportChoice::tcp;

TEST(KilledRank, IsNamedOnNcclIfItHasNotCalled) { expect_victim_named({}, die_before_the_call); }

TEST(KilledRank, IsNamedOnNcclWhileNcclWorks) { expect_victim_named({}, die_while_nccl_works); }

TEST(KilledRank, IsNamedOnNcclOfAnotherHost) {
  expect_victim_named({.transport = kTcp}, die_while_nccl_works);
}

/// No rank has given its input to the CPUs.
TEST(KilledRank, IsNamedWhileAStreamIsWaitedFor) {
  expect_victim_named({.backend = std::string(kMockStagedBackend)},
                      [](ProcessGroup& world, std::vector<float>& values) {
                        CallersStream stream(world);
                        stream.hold(true);
                        Work work = reduce_on(world, on_gpu(values), stream.handle);
                        kill_victim(world);
                        const std::string wrong = wrong_with(work);
                        stream.hold(false);
                        return wrong;
                      });
}

/// Its memory stays where the others have mapped it.
TEST(KilledRank, IsNamedBetweenCallsFromGpuToGpu) {
  expect_victim_named(kDirect, [](ProcessGroup& world, std::vector<float>& values) {
    finish(world.all_reduce(on_gpu(values)));
    return die_before_the_call(world, values);
  });
}

TEST(KilledRank, IsNamedInTheMiddleOfACallFromGpuToGpu) {
  expect_victim_named(kDirect, [](ProcessGroup& world, std::vector<float>& values) {
    finish(world.all_reduce(on_gpu(values)));
    std::vector<float> large(5000, 1);
    std::optional<Hold> copies;  // so the others wait for it in the first part
    if (world.rank() == kVictim) copies.emplace(world);
    Work work = world.all_reduce(on_gpu(large));
    kill_victim(world);
    return wrong_with(work);
  });
}

/// Rank 1 has no part in it.
TEST(KilledRank, IsNamedInTheMiddleOfAMessageFromGpuToGpu) {
  for (const bool sends : {false, true}) {
    expect_victim_named(kDirect, [sends](ProcessGroup& world, std::vector<float>& values) {
      std::vector<float> large(100'000, 1);
      const bool takes_part = world.rank() != 1;
      const auto begin = [&] {
        const int other = kVictim - world.rank();
        return sends == (world.rank() == kVictim) ? world.isend(on_gpu(large), other)
                                                  : world.irecv(on_gpu(large), other);
      };
      if (takes_part) finish(begin());
      std::optional<Hold> copies;
      if (world.rank() == kVictim) copies.emplace(world);
      Work work = takes_part ? begin() : world.all_reduce(on_gpu(values));
      kill_victim(world);
      return wrong_with(work);
    });
  }
}

/// The progress thread is held in a callback, so nobody but `health` can notice it.
TEST(KilledRank, IsToldByHealthThoughNobodyWaitsForIt) {
  expect_victim_named({.backend = "native"}, [](ProcessGroup& world, std::vector<float>&) {
    world.barrier().wait();
    static std::latch held(1);  // of this process; they outlive the callback
    static std::latch over(1);
    Work work = world.barrier();
    work.on_done({[](void*, const Outcome&) noexcept {
                    held.count_down();
                    over.wait();
                  },
                  nullptr});
    held.wait();
    kill_victim(world);
    EXPECT_TRUE(breaks_soon(world));
    const std::string wrong = wrong_with(world.health());
    over.count_down();
    return wrong;
  });
}

}  // namespace
}  // namespace tutti::test
