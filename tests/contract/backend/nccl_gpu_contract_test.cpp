#include "backend/nccl/library.hpp"
#include "backend/nccl/nccl_backend.hpp"
#include "backend/nccl/promises.hpp"
#include "backend_contract.hpp"
#include "on_gpu.hpp"

// The promises of every backend, on NCCL and the memory of real GPUs. tools/gpu_suite starts it,
// with ranks as processes; a machine without a GPU does not build a world on it.
namespace tutti::test {
namespace {

constexpr std::string_view kBackend = "nccl_gpu";

void make_known() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto make_world = [](const WorldOptions& options) -> Result<Backend*> {
      Result<nccl::Libraries> found = nccl::open_libraries();
      if (!found) return found.status();
      int count = 0;
      if (found->cuda->init() != 0 || found->cuda->device_count(count) != 0 || count == 0)
        return Outcome(Errc::unsupported, "CUDA finds no GPU");
      Result<Backend*> made = nccl::NcclBackend::make_world(*found->nccl, *found->cuda, options);
      if (!made) return made;
      const Gpu gpu{*found->cuda, number_of("LOCAL_RANK", 0) % count};
      return static_cast<Backend*>(new OnGpu(*made, kBackend, gpu));
    };
    register_backend({.name = std::string(kBackend),
                      .missing = nccl::missing_libraries,
                      .make_world = make_world,
                      .promises = nccl::kPromises});
  });
}

/// As the launcher has said.
std::vector<Arrangement> launched() {
  make_known();
  Arrangement one = launched_arrangement("Gpu", kBackend);
  one.lacks.assign(std::begin(nccl::kLacks), std::end(nccl::kLacks));
  return {one};
}

INSTANTIATE_TEST_SUITE_P(Nccl, BackendContract, testing::ValuesIn(launched()), name_of);
INSTANTIATE_TEST_SUITE_P(Nccl, BackendContractOfSeveral, testing::ValuesIn(of_several(launched())),
                         name_of);

}  // namespace
}  // namespace tutti::test
