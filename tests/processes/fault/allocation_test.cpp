#include <sys/mman.h>
#include <sys/syscall.h>

#include <tutti/tutti.hpp>

#include "job.hpp"
#include "support/long_tests.hpp"
#include "support/rotation.hpp"

// After warm-up an operation asks the system for no memory. This program counts: its own malloc and
// mmap stand before the C library's, for every thread.

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
std::atomic<long> mappings{0};
void count(std::atomic<long>& counter) {
  // relaxed: read when all have been joined or have passed a barrier.
  if (counting.load(std::memory_order_relaxed)) counter.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) {
  count(allocations);
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) {
  count(allocations);
  return __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) {
  count(allocations);
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count(allocations);
  return __libc_memalign(alignment, size);
}
void* mmap(void* address, std::size_t size, int protection, int flags, int fd, off_t offset) {
  count(mappings);
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}
}

namespace tutti::fault {
namespace {

const int kCalls = test::long_tests() ? 2500 : 600;
constexpr int kWarmUp = 2000;

void count_after_warm_up(ProcessGroup& world, bool first, const std::function<void(int)>& calls) {
  calls(kWarmUp);
  world.barrier().wait();
  if (first) counting = true;
  world.barrier().wait();
  calls(kCalls);
  world.barrier().wait();
  if (first) counting = false;
  world.barrier().wait();
}

/// What so many calls of each operation have cost, counted between two barriers.
void measure(ProcessGroup& world, bool first) {
  std::vector<float> data(16, 0.0F);
  std::vector<double> more(1000, 0.0);
  std::vector<float> blocks(16 * static_cast<std::size_t>(world.size()));  // one for each rank
  std::vector<float> blocks_out(blocks.size());
  const auto calls = [&](int n) {
    for (int i = 0; i < n; ++i) world.all_reduce(data).wait();
    for (int i = 0; i < n; ++i) world.all_reduce(more, {.op = ReduceOp::max}).wait();
    for (int i = 0; i < n; ++i) world.broadcast(data, {.root = i % world.size()}).wait();
    for (int i = 0; i < n; ++i) world.reduce(data, {.root = i % world.size()}).wait();
    // Rank 0 waits for nobody in them, and calls behind a full window take memory.
    for (int i = 0; i < n; ++i) {
      if (i % 2 == 0)
        world.scan(data).wait();
      else
        world.scan(more, {.exclusive = true}).wait();
      world.barrier().wait();
    }
    for (int i = 0; i < n; ++i) world.all_gather(blocks, data).wait();
    for (int i = 0; i < n; ++i) world.gather(blocks, data, {.root = i % world.size()}).wait();
    for (int i = 0; i < n; ++i) world.scatter(data, blocks, {.root = i % world.size()}).wait();
    for (int i = 0; i < n; ++i) world.reduce_scatter(data, blocks).wait();
    for (int i = 0; i < n; ++i) world.all_to_all(blocks_out, blocks).wait();
    for (int i = 0; i < n; ++i) world.barrier().wait();
  };
  // How far ranks run ahead of each other below depends on who is faster: as far as they can, once.
  for (int turn = 0; turn < 2 * world.size(); ++turn) {
    const int late = turn / 2;
    const std::size_t count = turn % 2 == 0 ? 16 : 1000;  // in small frames and in large ones
    world.barrier().wait();
    if (late == world.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::array<Work, 16> many;
    std::array<std::vector<double>, 16> each;
    for (std::size_t i = 0; i < many.size(); ++i) {
      each[i].resize(count);
      const int root = (late + 1) % world.size();
      if (i > 0 && late == world.rank()) many[i - 1].wait();  // what comes meanwhile is held
      many[i] = i % 2 == 0 ? world.broadcast(each[i], {.root = root}) : world.all_reduce(each[i]);
    }
    for (Work& work : many) work.wait();
  }
  count_after_warm_up(world, first, calls);
}

/// The same for messages to `peer`: received as they come, and several that wait for their recv.
void measure_messages(ProcessGroup& world, int peer, bool first) {
  const std::vector<float> mine(16, 1.0F);
  const std::vector<float> more(400, 1.0F);
  std::vector<float> theirs(400);
  std::array<Work, 8> sends;
  const auto calls = [&](int n) {
    for (int i = 0; i < n; ++i) {
      Work sent = world.isend(mine, peer);
      world.recv(std::span(theirs).first(16), peer);
      sent.wait();
    }
    for (int i = 0; i < n / 8; ++i) {
      for (std::size_t s = 0; s < sends.size(); ++s)
        sends[s] = world.isend(s % 2 == 0 ? mine : more, peer, {.tag = i + static_cast<int>(s)});
      for (std::size_t s = sends.size(); s-- > 0;)
        world.recv(std::span(theirs).first(s % 2 == 0 ? 16 : 400), any_source,
                   {.tag = i + static_cast<int>(s)});
      for (Work& work : sends) work.wait();
    }
  };
  // How many wait for their recv below depends on who is faster: more of them once, of each size.
  for (const std::vector<float>* const message : {&mine, &more}) {
    std::array<Work, 64> many;
    for (std::size_t i = 0; i < many.size(); ++i)
      many[i] = world.isend(*message, peer, {.tag = static_cast<int>(i)});
    world.barrier().wait();
    for (std::size_t i = 0; i < many.size(); ++i)
      world.recv(std::span(theirs).first(message->size()), peer, {.tag = static_cast<int>(i)});
    for (Work& work : many) work.wait();
    world.barrier().wait();
  }
  for (int i = 0; i < 16; ++i) world.barrier().wait();  // each slot of their window
  count_after_warm_up(world, first, calls);
}

/// Ranks that are threads allocate nothing.
void expect_none(const std::function<void(ProcessGroup&)>& body, const Config& config = {}) {
  allocations = 0;
  mappings = 0;
  run_threads(2, body, config);
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(mappings, 0);
}

TEST(Allocation, MessagesMakeNoneAfterWarmUp) {
  for (const auto transport : {Config::TransportChoice::automatic, Config::TransportChoice::tcp}) {
    const bool tcp = transport == Config::TransportChoice::tcp;
    const auto body = [&](ProcessGroup& world) {  // to oneself where there is no other way
      measure_messages(world, tcp ? 1 - world.rank() : world.rank(), world.rank() == 0);
    };
    Config config;
    config.transport = transport;
    expect_none(body, config);
  }
}

TEST(Allocation, ThreadRanksMakeNoneAfterWarmUp) {
  expect_none([](ProcessGroup& world) { measure(world, world.rank() == 0); });
}

class Processes : public ::testing::TestWithParam<const char*> {};
/// One of them, by rotation, unless there is time.
std::vector<const char*> some_ways() {
  std::vector<const char*> some;
  for (const char* const way : {"auto", "ring", "tcp"})
    if (test::has_its_turn(static_cast<std::uint64_t>(way[0]), 3)) some.push_back(way);
  return some;
}
INSTANTIATE_TEST_SUITE_P(Allocation, Processes, ::testing::ValuesIn(some_ways()), name_of_way);

TEST_P(Processes, MakeNoneAfterWarmUp) {
  JobOptions options = job_of(GetParam(), {"--rank"}, "60", 2);
  options.program = "/proc/self/exe";
  auto workers = start_job(options);
  for (Worker& worker : workers) {
    ASSERT_NO_FATAL_FAILURE(expect_success(worker));
    const auto counted = worker.heard("counted");
    ASSERT_TRUE(counted);
    EXPECT_EQ(counted->text, "0 0") << "allocations and mappings";
  }
}

int rank_main() {
  try {
    auto world = init_process_group();
    measure(world, true);
    std::printf("counted 0 %ld %ld\n", allocations.load(), mappings.load());
    return 0;
  } catch (const std::exception& error) {
    std::printf("error 0 %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace tutti::fault

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--rank") return tutti::fault::rank_main();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
