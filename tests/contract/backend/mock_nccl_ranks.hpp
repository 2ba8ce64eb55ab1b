#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/tutti.hpp>

#include "backend/nccl/nccl_backend.hpp"
#include "backend/nccl/promises.hpp"
#include "mock_nccl.hpp"
#include "mock_staged_ranks.hpp"

namespace tutti::test {

/// The backend on NCCL over mocks of NCCL and of CUDA's driver, whose ranks are threads.
inline constexpr std::string_view kMockNcclBackend = "nccl_mock";

/// GPUs and NCCL for the ranks of one process. Each rank sees so many GPUs: one for each, if it is
/// not told.
struct MockNcclWorld : MockGpuWorld {
  explicit MockNcclWorld(int ranks) : MockNcclWorld(ranks, ranks) {}
  MockNcclWorld(int ranks, int devices) : MockGpuWorld(ranks, devices) {
    for (int rank = 0; rank < ranks; ++rank) nccl.push_back(make_mock_nccl(machine, network, rank));
  }
  MockNetwork network;
  std::vector<std::unique_ptr<nccl::Api>> nccl;
};

/// NCCL for the tensors of GPUs in a group of the world that is made next.
inline Result<Backend*> make_mock_nccl_beside(Backend* cpus, const WorldOptions& options,
                                              int rank) {
  auto& world = static_cast<MockNcclWorld&>(*mock_choice().world);
  nccl::Api& nccl = *world.nccl[static_cast<std::size_t>(rank)];
  return nccl::NcclBackend::make_beside(nccl, world.cuda_of(rank), cpus, options);
}

inline void make_mock_nccl_known() {
  if (is_available(kMockNcclBackend)) return;
  BackendFactory factory;
  factory.name = kMockNcclBackend;
  factory.make_world = [](const WorldOptions& options) -> Result<Backend*> {
    const MockChoice choice = mock_choice();
    const int rank = options.identity.rank;
    auto& world = static_cast<MockNcclWorld&>(*choice.world);
    Result<Backend*> made = nccl::NcclBackend::make_world(
        *world.nccl[static_cast<std::size_t>(rank)], world.cuda_of(rank), options);
    if (!made) return made;
    return choice.wrapped(*made, rank);
  };
  factory.make_beside = [](Backend* cpus, const WorldOptions& options) {
    return make_mock_nccl_beside(cpus, options, options.identity.rank);
  };
  factory.promises = nccl::kPromises;
  register_backend(std::move(factory));
}

/// Runs the body on each rank, on NCCL if nothing else is given. The first error of a rank is
/// thrown.
inline void run_mock_nccl(MockNcclWorld& world, const MockRun& how, const Arrangement::Body& body) {
  make_mock_nccl_known();
  run_mock(world, how, kMockNcclBackend, body);
}
inline void run_mock_nccl(MockNcclWorld& world, const Arrangement::Body& body) {
  run_mock_nccl(world, {}, body);
}

/// The same, and nothing is left at its end.
inline void run_nccl(MockNcclWorld& world, const MockRun& how, const Arrangement::Body& body) {
  run_mock_nccl(world, how, body);
  expect_clean(world.machine);
}
inline void run_nccl(MockNcclWorld& world, const Arrangement::Body& body) {
  run_nccl(world, {}, body);
}

}  // namespace tutti::test
