#pragma once

#include <numeric>

#include "backend/nccl/nccl_backend.hpp"
#include "backend/nccl/promises.hpp"
#include "mock_staged_ranks.hpp"
#include "support/mock_nccl.hpp"

namespace tutti::test {

/// The backend on NCCL over mocks of NCCL and of CUDA's driver, whose ranks are threads.
inline constexpr std::string_view kMockNcclBackend = "nccl_mock";

/// Tensors of the CPU on our own engine, those of GPUs on NCCL.
inline constexpr std::string_view kRoutes = "cpu:native,cuda:nccl_mock";

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
  auto& world = static_cast<MockNcclWorld&>(*mock_world());
  nccl::Api& nccl = *world.nccl[static_cast<std::size_t>(rank)];
  return nccl::NcclBackend::make_gpu_group(nccl, world.cuda_of(rank), cpus, options);
}

inline void make_mock_nccl_known() {
  if (is_available(kMockNcclBackend)) return;
  const auto make_world = [](const WorldOptions& options) -> Result<Backend*> {
    const int rank = options.identity.rank;
    auto& world = static_cast<MockNcclWorld&>(*mock_world());
    Result<Backend*> made = nccl::NcclBackend::make_world(
        *world.nccl[static_cast<std::size_t>(rank)], world.cuda_of(rank), options);
    if (!made) return made;
    return wrapped(*made, rank);
  };
  const auto make_gpu_group = [](Backend* cpus, const WorldOptions& options) {
    return make_mock_nccl_beside(cpus, options, options.identity.rank);
  };
  register_backend({.name = std::string(kMockNcclBackend),
                    .make_world = make_world,
                    .make_gpu_group = make_gpu_group,
                    .promises = nccl::kPromises});
}

/// Runs the body on each rank, on NCCL if nothing else is given. The first error of a rank is
/// thrown.
template <class World>
void run_mock_nccl(World&& world, const MockRun& how, const Arrangement::Body& body) {
  make_mock_nccl_known();
  run_mock(world, how, kMockNcclBackend, body);
}
template <class World>
void run_mock_nccl(World&& world, const Arrangement::Body& body) {
  run_mock_nccl(world, {}, body);
}

/// The same, and nothing is left at its end.
template <class World>
void run_nccl(World&& world, const MockRun& how, const Arrangement::Body& body) {
  run_mock_nccl(world, how, body);
  expect_clean(world.machine);
}
template <class World>
void run_nccl(World&& world, const Arrangement::Body& body) {
  run_nccl(world, {}, body);
}

/// Our own engine whose groups may choose NCCL; ranks are threads.
inline constexpr std::string_view kChoosing = "choosing_mock";

inline Result<Backend*> make_choosing(const WorldOptions& options) {
  const auto make = [rank = options.identity.rank, config = options.config](
                        Backend* cpus, const std::string& group) {
    WorldOptions its;
    its.name = group;
    its.config = config;
    return make_mock_nccl_beside(cpus, its, rank);
  };
  return make_mock_staged(options, {.name = "nccl", .make = make});
}

/// Each rank has a GPU of its own.
inline std::vector<int> gpu_of_each(int ranks) {
  std::vector<int> gpus(static_cast<std::size_t>(ranks));
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus;
}

/// `gpus`: that of each rank; all say cuda:0.
template <class World>
void run_mock_choice(World&& mock, const std::vector<int>& gpus, const Arrangement::Body& body,
                     const gpu::DirectOptions& direct = {}) {
  if (!is_available(kChoosing))
    register_backend({.name = std::string(kChoosing), .make_world = make_choosing});
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    mock.machine.first_gpu[static_cast<int>(rank)] = gpus[rank];
  run_mock(mock, {.direct = direct}, kChoosing, body);
}

template <class World>
void run_choice(World&& mock, const std::vector<int>& gpus, const Arrangement::Body& body,
                const gpu::DirectOptions& direct = {}) {
  run_mock_choice(mock, gpus, body, direct);
  expect_clean(mock.machine);
}

}  // namespace tutti::test
