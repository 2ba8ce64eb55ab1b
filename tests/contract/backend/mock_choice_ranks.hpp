#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/tutti.hpp>

#include "mock_nccl_ranks.hpp"
#include "mock_staged_ranks.hpp"

namespace tutti::test {

/// Our own engine whose groups may choose NCCL; ranks are threads.
inline constexpr std::string_view kChoosing = "choosing_mock";

inline MockNcclWorld*& chosen_world() {
  static MockNcclWorld* world = nullptr;
  return world;
}

inline staged::DirectOptions& chosen_direct() {
  static staged::DirectOptions direct;
  return direct;
}

inline Result<Backend*> make_choosing(const WorldOptions& options) {
  MockNcclWorld& mock = *chosen_world();
  const int rank = options.identity.rank;
  const auto place = static_cast<std::size_t>(rank);
  MockCuda& cuda = *mock.cuda[place];
  Result<Backend*> cpus = native::factory().make_world(options);
  if (!cpus) return cpus;
  staged::BesideOptions beside;
  beside.name = "nccl";
  beside.make = [&mock, &cuda, place, config = options.config](Backend* mesh,
                                                               const std::string& group) {
    WorldOptions its;
    its.name = group;
    its.config = config;
    return nccl::NcclBackend::make_beside(*mock.nccl[place], cuda, mesh, its);
  };
  return staged::StagedBackend::make(
      new Witness(*cpus, mock.machine, rank, options.name), options.name,
      [&cuda]() -> Result<cuda::CudaApi*> { return &cuda; }, chosen_direct(), std::move(beside));
}

inline void make_choosing_known() {
  static std::once_flag once;
  std::call_once(once, [] {
    BackendFactory factory;
    factory.name = kChoosing;
    factory.make_world = make_choosing;
    register_backend(std::move(factory));
  });
}

/// `gpus`: that of each rank; all say cuda:0.
inline void run_mock_choice(MockNcclWorld& mock, const std::vector<int>& gpus,
                            const Arrangement::Body& body) {
  make_choosing_known();
  chosen_world() = &mock;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) mock.cuda[rank]->first_gpu = gpus[rank];
  Config config = patient();
  config.backend = kChoosing;
  group::run_thread_ranks(static_cast<int>(gpus.size()), body, [&](int) { return config; });
}

inline void run_choice(MockNcclWorld& mock, const std::vector<int>& gpus,
                       const Arrangement::Body& body) {
  run_mock_choice(mock, gpus, body);
  expect_clean(mock.machine);
}

}  // namespace tutti::test
