#include <gtest/gtest.h>
#include <malloc.h>

#include "support/operations.hpp"
#include "support/programs.hpp"
#include "transport/shm/layout.hpp"

// A large operation on strided tensors takes no copy of a tensor. Started by tuttirun.
namespace tutti {
namespace {

constexpr std::size_t kElements = std::size_t{2} << 20;
constexpr long kMostKiB = 4096;        // of the all_reduce, its first time too
constexpr long kMostOthersKiB = 6144;  // a block of them is 8 MiB: no copy of one
// What ranks of one host that exchange messages take into use once, for each other one.
constexpr long kRingKiB = long{transport::shm::kRingBytes / 1024};

/// The most that was resident since the peak began anew, in KiB.
long peak_kib() { return std::stol(test::status_of("self", "VmHWM")); }

/// The peak of what is resident begins anew, at what is resident now.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  return file.good();
}

double value(int from, std::size_t to, std::size_t i) {
  return static_cast<double>((i + to * 3 + static_cast<std::size_t>(from)) & 63);
}

/// What is resident of the other ranks' arenas. It is theirs, and counted there.
long others_kib() {
  std::ifstream maps("/proc/self/smaps");
  bool theirs = false;
  long sum = 0;
  for (std::string line; std::getline(maps, line);) {
    // The head of a mapping: "7f00-7f01 r--s 00000000 00:01 5 /memfd:...".
    const std::size_t dash = line.find('-');
    const std::size_t space = line.find(' ');
    if (dash < space && space != std::string::npos)
      theirs = line.compare(space + 1, 4, "r--s") == 0;
    if (theirs && line.rfind("Rss:", 0) == 0) sum += std::stol(line.substr(4));
  }
  return sum;
}

/// By how many KiB a call raises the peak of this process's own memory.
long raised_by(ProcessGroup& world, test::PreparedCall<float>& call) {
  const long others = others_kib();
  ::malloc_trim(0);  // what others have left in the heap would take what comes without being seen
  EXPECT_TRUE(reset_peak());
  const long before = peak_kib();
  EXPECT_GT(before, 10'000);
  call.run(world);
  return peak_kib() - before - (others_kib() - others);
}

test::PreparedCall<float> strided(const test::Operation& operation, const ProcessGroup& world,
                                  std::size_t count) {
  test::CallPlan plan =
      test::plan_of(operation, {.count = count}, world.rank(), world.size(), value);
  plan.in = plan.out = test::Form::strided;
  return test::PreparedCall<float>(plan);
}

/// Elements of float32: 64 MiB where there are two ranks, else 16 MiB, as each has its own.
std::size_t large(int ranks) { return std::size_t{ranks == 2 ? 16U : 4U} << 20; }

/// `rings`: to so many ranks of its host this one sends messages.
void measure_all_reduce(ProcessGroup& world, const test::Operation& operation, int rings) {
  test::PreparedCall<float> call = strided(operation, world, large(world.size()));
  world.barrier().wait();
  const long first = raised_by(world, call);
  EXPECT_EQ(call.wrong(), 0U) << call.text();
  world.barrier().wait();
  const long later = raised_by(world, call);
  if (world.rank() == 0) std::printf("all_reduce: %ld KiB, then %ld KiB\n", first, later);
  EXPECT_LE(first, kMostKiB + rings * kRingKiB) << "rank " << world.rank();
  EXPECT_LE(later, kMostKiB) << "rank " << world.rank();
}

/// With more than 2 ranks the all_reduce only: each has a tensor of its own, with gaps as large.
void measure(Config config, int rings) {
  config.timeout = std::chrono::seconds(60);
  ProcessGroup world = init_process_group({.config = config});
  std::vector<float> one(1, 1.0F);
  world.all_reduce(one).wait();
  for (const test::Operation& operation : test::kOperations) {
    const bool even = operation.blocks == test::Operation::Blocks::even;
    if (!has_data(operation.kind) || (!even && operation.name != "all_to_all_splits")) continue;
    if (operation.kind == Kind::all_reduce) {
      measure_all_reduce(world, operation, rings);
      continue;
    }
    if (world.size() > 2) continue;
    // Staging is taken into use once.
    if (traits_of(operation.kind).layout != Layout::same)
      strided(operation, world, kElements / 4).run(world);
    test::PreparedCall<float> call = strided(operation, world, kElements);
    world.barrier().wait();
    const long raised = raised_by(world, call);
    if (world.rank() == 0)
      std::printf("%s: %ld KiB\n", std::string(operation.name).c_str(), raised);
    EXPECT_LE(raised, kMostOthersKiB) << operation.name << ", rank " << world.rank();
    EXPECT_EQ(call.wrong(), 0U) << call.text();
  }
}

TEST(PeakMemory, OfStridedOperationsInSharedMemory) { measure({}, 0); }

/// Of as many ranks each; `apart`: neighbours are on different hosts, so all of them exchange
/// messages, else those of a host go through its memory.
void measure_on_two_hosts(bool apart) {
  const char* const rank = std::getenv("RANK");
  const char* const size = std::getenv("WORLD_SIZE");
  ASSERT_TRUE(rank != nullptr && size != nullptr);
  const int half = std::atoi(size) / 2;
  ASSERT_GE(half, 2) << "is the same as TCP: tests nothing else";
  const int host = apart ? std::atoi(rank) % 2 : std::atoi(rank) / half;
  Config config;
  config.host_id = host == 0 ? "first" : "second";
  measure(config, apart ? half - 1 : 0);
}

TEST(PeakMemory, OfStridedOperationsOnTwoHosts) { measure_on_two_hosts(false); }

TEST(PeakMemory, OfStridedOperationsOnTwoHostsByMessages) { measure_on_two_hosts(true); }

TEST(PeakMemory, OfStridedOperationsOverTcp) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  measure(config, 0);
}

}  // namespace
}  // namespace tutti
