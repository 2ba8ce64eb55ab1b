#pragma once

#include <any>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/tutti.hpp>

#include "arrangement.hpp"
#include "backend/nccl/nccl_backend.hpp"
#include "backend/nccl/promises.hpp"
#include "group/thread_ranks.hpp"
#include "mock_gpu.hpp"
#include "mock_nccl.hpp"
#include "on_gpu.hpp"

namespace tutti::test {

/// The backend on NCCL over mocks of NCCL and of CUDA's driver, whose ranks are threads.
inline constexpr std::string_view kMockNcclBackend = "nccl_mock";

/// GPUs and NCCL for the ranks of one process.
struct MockNcclWorld {
  explicit MockNcclWorld(int ranks) : machine(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      cuda.push_back(std::make_unique<MockCuda>(machine, rank, ranks));
      nccl.push_back(std::make_unique<MockNccl>(machine, network, rank));
    }
  }
  MockMachine machine;
  MockNetwork network;
  std::vector<std::unique_ptr<MockCuda>> cuda;
  std::vector<std::unique_ptr<MockNccl>> nccl;
};

/// The libraries of the ranks of the world that is made next; `plain`: as it is, without OnGpu.
struct MockNcclChoice {
  MockNcclWorld* world = nullptr;
  bool plain = false;
  bool staged = false;  ///< tensors are copied to the mock's memory, as to that of a real GPU
  std::vector<Backend*>* backends = nullptr;  ///< gets that of each rank; absent: nobody asks
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
      if (made && choice.backends != nullptr) choice.backends->at(rank) = *made;
      if (!made || choice.plain) return made;
      const Gpu gpu{*choice.world->cuda[rank], 0};
      return static_cast<Backend*>(
          new OnGpu(*made, kMockNcclBackend, choice.staged ? std::optional(gpu) : std::nullopt));
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

/// Runs the body on each rank. The first error of a rank is thrown. The timeout is that of its
/// operations: to make the world a rank may need longer, on a busy machine.
inline void run_mock_nccl(MockNcclWorld& world, int ranks, Config config, bool plain,
                          const std::function<void(ProcessGroup& group)>& body,
                          std::vector<Backend*>* backends = nullptr, bool staged = false) {
  make_mock_nccl_known();
  mock_nccl_choice() = {&world, plain, staged, backends};
  if (config.backend == Config().backend) config.backend = kMockNcclBackend;
  const auto timeout = std::exchange(config.timeout, kForever);
  group::run_thread_ranks(
      ranks,
      [&](ProcessGroup& group) {
        group.set_timeout(timeout);
        body(group);
      },
      [&](int) { return config; });
}

}  // namespace tutti::test
