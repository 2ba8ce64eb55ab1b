#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/tutti.hpp>

#include "arrangement.hpp"
#include "cuda/library.hpp"
#include "group/thread_ranks.hpp"

// Which NCCL the ranks have, as they tell each other at init.
namespace tutti::test {
namespace {

/// The NCCL of each rank, by the order in which the ranks ask.
struct Versions {
  std::mutex mutex;
  std::vector<int> of_ranks;
  std::size_t asked = 0;
};
Versions& versions() {
  static Versions all;
  return all;
}

/// The name of the backend that each rank has, on a host with GPUs.
std::vector<std::string> backends_of(const std::vector<std::string>& wanted,
                                     const std::vector<int>& nccls, bool tls = false) {
  static std::once_flag once;
  std::call_once(once, [] {
    BackendFactory factory;
    factory.name = "nccl";
    factory.make_world = [](const WorldOptions&) -> Result<Backend*> {
      return Status(Errc::unsupported, "not here");
    };
    factory.make_beside = [](Backend* cpus, const WorldOptions&) -> Result<Backend*> {
      cpus->drop_reference();
      return Status(Errc::unsupported, "not here");
    };
    factory.version = [] {
      const std::lock_guard lock(versions().mutex);
      return versions().of_ranks.at(versions().asked++);
    };
    register_backend(std::move(factory));
  });
  versions().of_ranks = nccls;
  versions().asked = 0;
  std::vector<std::string> names(wanted.size());
  group::run_thread_ranks(
      static_cast<int>(wanted.size()),
      [&](ProcessGroup& world) {
        names[static_cast<std::size_t>(world.rank())] = world.backend();
        std::vector<int> values(3, 1);
        world.all_reduce(values).wait();
        EXPECT_EQ(values[0], world.size());
      },
      [&](int rank) {
        Config config;
        config.timeout = kForever;
        config.backend = wanted[static_cast<std::size_t>(rank)];
        config.tls = tls;
        return config;
      });
  return names;
}

TEST(MockChoiceInit, GroupsMayChooseWhereAllRanksHaveTheSameNccl) {
  using Names = std::vector<std::string>;
  const Names automatic(3, "auto");
  const Names native(3, "native");
  ::unsetenv("TUTTI_CUDA_LIBRARY");
  if (!cuda::has_gpu()) {
    EXPECT_EQ(backends_of(automatic, {}), native) << "without a GPU nobody looks for NCCL";
  }
  ::setenv("TUTTI_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
  EXPECT_EQ(backends_of(automatic, {22105, 22105, 22105}), automatic);
  EXPECT_EQ(backends_of(automatic, {22105, 0, 22105}), native);
  EXPECT_EQ(backends_of(automatic, {0, 0, 0}), native);
  EXPECT_EQ(backends_of(automatic, {22105, 22105, 23203}), native);
  EXPECT_EQ(backends_of(native, {}), native) << "a name switches it off";
  std::string heard;
  std::mutex mutex;
  set_log_sink(
      [&](LogLevel level, std::string_view text) {
        const std::lock_guard lock(mutex);
        if (level == LogLevel::info) heard += text;
      },
      LogLevel::info);
  EXPECT_EQ(backends_of(automatic, {22105, 22105, 22105}, true), native) << "NCCL does not encrypt";
  set_log_sink({});
  EXPECT_NE(heard.find("not to NCCL: TUTTI_TLS is 1, and NCCL does not encrypt"), heard.npos);
  EXPECT_EQ(backends_of({"auto", "native", "auto"}, {22105, 22105}), native);
  ::unsetenv("TUTTI_CUDA_LIBRARY");
}

}  // namespace
}  // namespace tutti::test
