#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/tutti.hpp>

#include "arrangement.hpp"
#include "backend/nccl/nccl_backend.hpp"
#include "backend/nccl/promises.hpp"
#include "group/thread_ranks.hpp"
#include "mock_gpu_calls.hpp"
#include "mock_nccl.hpp"
#include "on_gpu.hpp"

namespace tutti::test {

/// The backend on NCCL over mocks of NCCL and of CUDA's driver, whose ranks are threads.
inline constexpr std::string_view kMockNcclBackend = "nccl_mock";

/// GPUs and NCCL for the ranks of one process.
struct MockNcclWorld {
  explicit MockNcclWorld(int ranks) : MockNcclWorld(ranks, ranks) {}
  /// Each rank sees so many GPUs.
  MockNcclWorld(int ranks, int devices) : machine(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      cuda.push_back(std::make_unique<MockCuda>(machine, rank, devices));
      nccl.push_back(std::make_unique<MockNccl>(machine, network, rank));
    }
  }
  MockMachine machine;
  MockNetwork network;
  std::vector<std::unique_ptr<MockCuda>> cuda;
  std::vector<std::unique_ptr<MockNccl>> nccl;
};

/// How the ranks of a MockNcclWorld run.
struct MockNcclRun {
  bool plain = true;    ///< as it is, without OnGpu
  bool copied = false;  ///< tensors are copied to the mock's memory, as to that of a real GPU
  /// Of operations: to make the world a rank may need longer, on a busy machine.
  std::chrono::nanoseconds timeout = kForever;
  std::string_view backend = kMockNcclBackend;
  std::vector<Backend*>* backends = nullptr;  ///< gets that of each rank; absent: nobody asks
};

/// The libraries of the ranks of the world that is made next, and how they run.
struct MockNcclChoice {
  MockNcclWorld* world = nullptr;
  MockNcclRun how;
};
inline MockNcclChoice& mock_nccl_choice() {
  static MockNcclChoice choice;
  return choice;
}

inline void make_mock_nccl_known() {
  static std::once_flag once;
  std::call_once(once, [] {
    BackendFactory factory;
    factory.name = kMockNcclBackend;
    factory.make_world = [](const WorldOptions& options) -> Result<Backend*> {
      const MockNcclChoice choice = mock_nccl_choice();
      const auto rank = static_cast<std::size_t>(options.identity.rank);
      Result<Backend*> made = nccl::NcclBackend::make_world(*choice.world->nccl[rank],
                                                            *choice.world->cuda[rank], options);
      if (made && choice.how.backends != nullptr) choice.how.backends->at(rank) = *made;
      if (!made || choice.how.plain) return made;
      const Gpu gpu{*choice.world->cuda[rank], 0};
      return static_cast<Backend*>(new OnGpu(
          *made, kMockNcclBackend, choice.how.copied ? std::optional(gpu) : std::nullopt));
    };
    factory.make_beside = [](Backend* cpus, const WorldOptions& options) {
      MockNcclWorld& world = *mock_nccl_choice().world;
      const auto rank = static_cast<std::size_t>(options.identity.rank);
      return nccl::NcclBackend::make_beside(*world.nccl[rank], *world.cuda[rank], cpus, options);
    };
    factory.promises = nccl::kPromises;
    register_backend(std::move(factory));
  });
}

/// Runs the body on each rank. The first error of a rank is thrown.
inline void run_mock_nccl(MockNcclWorld& world, const MockNcclRun& how,
                          const Arrangement::Body& body) {
  make_mock_nccl_known();
  mock_nccl_choice() = {&world, how};
  Config config = patient();
  config.backend = how.backend;
  group::run_thread_ranks(
      static_cast<int>(world.nccl.size()),
      [&](ProcessGroup& group) {
        group.set_timeout(how.timeout);
        body(group);
      },
      [&](int) { return config; });
}
inline void run_mock_nccl(MockNcclWorld& world, const Arrangement::Body& body) {
  run_mock_nccl(world, {}, body);
}

/// The same, and nothing is left at its end.
inline void run_nccl(MockNcclWorld& world, const MockNcclRun& how, const Arrangement::Body& body) {
  run_mock_nccl(world, how, body);
  expect_clean(world.machine);
}
inline void run_nccl(MockNcclWorld& world, const Arrangement::Body& body) {
  run_nccl(world, {}, body);
}

}  // namespace tutti::test
