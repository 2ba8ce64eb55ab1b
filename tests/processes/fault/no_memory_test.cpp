// If an allocation fails, each operation ends, well or with an error, and the process goes on.

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <new>
#include <set>

#include "support/thread_worlds.hpp"
#include "support/told.hpp"

namespace {
/// Allocations until the one that fails; 0 or less: none fails.
std::atomic<long> until_failure{0};
std::atomic<bool> has_failed{false};
/// On this thread no allocation of so many bytes succeeds.
thread_local std::size_t refused_bytes = ~std::size_t{0};
}  // namespace

// Not inlined: else compilers see malloc and free of pointers that they know from new and delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  // relaxed: a count that orders nothing.
  const bool counted = until_failure.load(std::memory_order_relaxed) > 0;
  if ((counted && until_failure.fetch_sub(1) == 1) || size >= refused_bytes) {
    has_failed = true;
    throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t size) { return ::operator new(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

using namespace std::chrono_literals;
using test::name_of;
using test::Way;

Config config_for(Way way) {
  Config config = test::config_of(way, 0, 1);
  config.timeout = 20s;
  config.cpus = 1;
  if (way == Way::shm) config.transport = Config::TransportChoice::shm;
  return config;
}

// --- One rank has no memory for a large operation.

class NoMemoryFor : public testing::TestWithParam<std::tuple<Way, int>> {};

TEST_P(NoMemoryFor, ALargeOperationIsToldOnEachRank) {
  const auto [way, ranks] = GetParam();
  static constexpr int kPoor = 1;
  const auto body = [](ProcessGroup& world) {
    std::vector<float> values(std::size_t{1} << 20, 1.0F);
    if (world.rank() == kPoor) refused_bytes = std::size_t{1} << 20;
    const test::Told told = test::told<Error>([&] {
      world.barrier().wait();
      world.all_reduce(values, {.op = ReduceOp::premul_sum, .factor = 2.0}).wait();
    });
    EXPECT_EQ(told.code, Errc::resource) << told.text;
    EXPECT_EQ(told.culprit, kPoor) << told.text;
    EXPECT_THAT(told.text, testing::HasSubstr("has no memory for an operation"));
    refused_bytes = ~std::size_t{0};
    EXPECT_THROW(world.barrier().wait(), BackendError);  // the group is broken for all
  };
  run_threads(ranks, body, config_for(way));
}

INSTANTIATE_TEST_SUITE_P(Each, NoMemoryFor,
                         testing::Combine(testing::Values(Way::shm, Way::tcp, Way::tls),
                                          testing::Values(2, 4)),
                         [](const auto& which) {
                           return name_of(std::get<0>(which.param)) +
                                  std::to_string(std::get<1>(which.param));
                         });

// --- Any one allocation fails.

constexpr int kRanks = 2;
constexpr std::size_t kLarge = std::size_t{1} << 16;

/// Each way to take memory: scaled copies, scratch, queues, rings, blocks of other sizes,
/// callbacks.
void run_operations(ProcessGroup& world, std::atomic<int>& called) {
  const auto rank = world.rank();
  std::vector<float> values(kLarge, 1.0F);
  world.all_reduce(values, {.op = ReduceOp::premul_sum, .factor = 2.0}).wait();
  world.broadcast(values, {.root = 0}).wait();
  std::vector<float> both(kRanks * kLarge);
  world.all_gather(both, values).wait();
  std::vector<std::vector<int>> small(12, std::vector<int>(3, rank));
  std::vector<Work> queued;
  for (std::vector<int>& one : small) queued.push_back(world.all_reduce(one));
  queued.back().on_done(
      {[](void* context, const Outcome&) noexcept { ++*static_cast<std::atomic<int>*>(context); },
       &called});
  for (Work& work : queued) work.wait();
  std::vector<int> got(2000);
  std::vector<int> given(2000, rank);
  Work receive = world.irecv(got, 1 - rank);
  world.isend(given, 1 - rank).wait();
  receive.wait();
  world.barrier().wait();
}

struct Attempt {
  bool failed = false;
  std::set<Errc> codes;
};

/// A world of its own, whose n-th allocation from the first operation on fails.
Attempt fail_allocation(long n, const Config& config) {
  Attempt outcome;
  std::mutex mutex;
  const auto note = [&](Errc code) {
    const std::lock_guard lock(mutex);
    outcome.codes.insert(code);
  };
  std::atomic<int> called{0};
  std::atomic<int> ready{0};
  has_failed = false;
  try {
    run_threads(
        kRanks,
        [&](ProcessGroup& world) {
          world.barrier().wait();
          if (++ready == kRanks) until_failure = n;
          try {
            run_operations(world, called);
          } catch (const std::bad_alloc&) {  // of the test's own vectors, or at the call
            note(Errc::resource);
            world.abort("no memory");
          } catch (const Error& error) {
            if (!has_failed) ADD_FAILURE() << error.what();
            note(error.code());
          }
        },
        config);
  } catch (const std::bad_alloc&) {
    note(Errc::resource);
  } catch (const Error& error) {
    note(error.code());
  }
  until_failure = 0;
  outcome.failed = has_failed;
  return outcome;
}

class NoMemory : public testing::TestWithParam<Way> {};

TEST_P(NoMemory, EachOperationEnds) {
  const Config config = config_for(GetParam());
  set_log_sink([](LogLevel, std::string_view) {});
  int failures = 0;
  int resources = 0;
  for (long n = 1;; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    const Attempt outcome = fail_allocation(n, config);
    for (const Errc code : outcome.codes) {
      // The other rank may hear of the break, or find that this one has gone.
      EXPECT_TRUE(code == Errc::resource || code == Errc::peer_left || code == Errc::aborted)
          << to_string(code);
    }
    if (!outcome.failed) {
      EXPECT_TRUE(outcome.codes.empty()) << to_string(*outcome.codes.begin());
      break;
    }
    ++failures;
    if (outcome.codes.contains(Errc::resource)) ++resources;
    if (testing::Test::HasFailure()) break;
  }
  set_log_sink({});
  EXPECT_GT(failures, 20);
  EXPECT_GT(resources, 10);
}

INSTANTIATE_TEST_SUITE_P(Each, NoMemory, testing::Values(Way::shm, Way::tcp, Way::tls),
                         [](const auto& which) { return name_of(which.param); });

}  // namespace
}  // namespace tutti
