#include <dlfcn.h>
#include <gmock/gmock.h>

#include "arrangement.hpp"

// The plug-in for NCCL and the library that it loads, which is that of
// tests/support/mock_nccl_library.cpp, with ranks as processes. TUTTI_BACKEND names the backend.
namespace tutti::test {
namespace {

using testing::HasSubstr;

ProcessGroup make_world() { return launched_world(Config::from_environment().value().backend); }

/// Memory of the host is that of each GPU of the mock of CUDA's driver.
template <class T>
TensorView on_own_gpu(const ProcessGroup& world, std::vector<T>& values) {
  return TensorView(values.data(), *dtype_of<T>(), values.size(),
                    {DeviceType::cuda, static_cast<std::int16_t>(world.rank())});
}

/// Of the library that the plug-in has loaded.
struct Counts {
  int operations = -1;
  int factors_on_gpus = -1;
  int communicators = -1;
};
Counts counts() {
  void* const library = ::dlopen(std::getenv("TUTTI_NCCL_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  Counts now;
  if (library == nullptr) return now;
  const auto ask = reinterpret_cast<void (*)(int*, int*, int*)>(::dlsym(library, "tuttiTestNccl"));
  ask(&now.operations, &now.factors_on_gpus, &now.communicators);
  ::dlclose(library);
  return now;
}

TEST(NcclLibraryOfOne, RunsCollectivesAndGetsBackAllThatItMakes) {
  {
    ProcessGroup world = make_world();
    std::vector<float> values{1, 2, 3};
    world.all_reduce(on_own_gpu(world, values)).synchronize();
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(counts().operations, 1);
    EXPECT_EQ(counts().communicators, 1);
    std::vector<float> gathered(3, 0);
    world.all_gather(on_own_gpu(world, gathered), on_own_gpu(world, values)).synchronize();
    EXPECT_EQ(gathered, values);
    EXPECT_EQ(counts().operations, 2);
    ProcessGroup part = world.new_subgroups(1);
    world.broadcast(on_own_gpu(world, values)).synchronize();
    part.all_reduce(on_own_gpu(world, values)).synchronize();
    EXPECT_EQ(counts().operations, 4);
    EXPECT_EQ(counts().communicators, 2);
  }
  EXPECT_EQ(counts().communicators, 0);
}

template <class T>
void expect_scaled(ProcessGroup& world) {
  std::vector<T> values{T(1), T(3), T(100)};
  world.all_reduce(on_own_gpu(world, values), {.op = ReduceOp::premul_sum, .factor = 2.0})
      .synchronize();
  EXPECT_EQ(values, (std::vector<T>{T(2), T(6), T(200)}));
}

TEST(NcclLibraryOfOne, MultipliesByTheFactorOfAPremulSum) {
  ProcessGroup world = make_world();
  expect_scaled<float>(world);
  expect_scaled<double>(world);
  expect_scaled<std::int32_t>(world);
  expect_scaled<std::int64_t>(world);
  expect_scaled<std::uint8_t>(world);
}

/// Where NCCL takes it itself: as one of native's ranks it would have been multiplied before.
TEST(NcclLibraryOfOneItself, ReadsTheFactorOfAPremulSumOnTheGpu) {
  ProcessGroup world = make_world();
  const Counts before = counts();
  std::vector<float> values{1, 3, 100};
  std::vector<float> factor{2};
  world
      .all_reduce(on_own_gpu(world, values),
                  {.op = ReduceOp::premul_sum, .factors = on_own_gpu(world, factor)})
      .synchronize();
  EXPECT_EQ(values, (std::vector<float>{2, 6, 200}));
  EXPECT_LE(before.factors_on_gpus, 0);  // -1: the library was not loaded
  EXPECT_EQ(counts().factors_on_gpus, 1);
}

TEST(NcclLibraryOfSeveral, ItsErrorIsToldWithItsTextAndItHasSeenTheVariables) {
  ProcessGroup world = make_world();
  ASSERT_EQ(world.size(), 2);
  std::vector<float> values(4, 1);
  const Outcome error =
      error_of<Error>([&] { world.all_reduce(on_own_gpu(world, values)).synchronize(); });
  EXPECT_THAT(error.message(), HasSubstr("all_reduce(SUM, float32 x 4"));
  EXPECT_THAT(error.message(),
              HasSubstr("ncclCommInitRankConfig failed: invalid usage (5): this NCCL has "
                        "communicators of 1 rank, not of 2; NCCL_DEBUG=TRACE"));
  EXPECT_EQ(counts().communicators, 0);
  EXPECT_EQ(values, std::vector<float>(4, 1));
  EXPECT_FALSE(world.health().ok());
}

}  // namespace
}  // namespace tutti::test
