#include <gmock/gmock.h>

#include <tutti/backend/registry.hpp>

#include "arrangement.hpp"
#include "cuda/library.hpp"
#include "group/thread_ranks.hpp"
#include "support/logged_lines.hpp"

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
    const Outcome not_here(Errc::unsupported, "not here");
    const auto make_gpu_group = [=](Backend* cpus, const WorldOptions&) -> Result<Backend*> {
      cpus->drop_reference();
      return not_here;
    };
    const auto version = [] {
      const std::lock_guard lock(versions().mutex);
      return versions().of_ranks.at(versions().asked++);
    };
    register_backend({.name = "nccl",
                      .make_world = [=](const WorldOptions&) { return not_here; },
                      .make_gpu_group = make_gpu_group,
                      .version = version});
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
        Config config = patient(wanted[static_cast<std::size_t>(rank)]);
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
  LoggedLines log(LogLevel::info);
  EXPECT_EQ(backends_of(automatic, {22105, 22105, 22105}, true), native) << "NCCL does not encrypt";
  EXPECT_EQ(log.worst(), LogLevel::info);
  EXPECT_THAT(log.lines(), testing::Contains(testing::HasSubstr(
                               "not to NCCL: TUTTI_TLS is 1, and NCCL does not encrypt")));
  EXPECT_EQ(backends_of({"auto", "native", "auto"}, {22105, 22105}), native);
  ::unsetenv("TUTTI_CUDA_LIBRARY");
}

}  // namespace
}  // namespace tutti::test
