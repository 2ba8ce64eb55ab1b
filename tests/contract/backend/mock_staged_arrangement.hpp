#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arrangement.hpp"
#include "mock_staged_ranks.hpp"

namespace tutti::test {

/// A world whose tensors are on one mock of a GPU, of which nothing is left at its end and all
/// accesses are ordered. `copied`: as on a real GPU. `direct`: from GPU to GPU.
inline Arrangement mock_staged_arrangement(int size, bool copied, bool direct) {
  Arrangement one;
  one.name = (copied ? "CopiedMock" : "Mock") + std::string(direct ? "Direct" : "Staged") +
             std::to_string(size);
  one.size = size;
  one.backend = kMockStagedBackend;
  one.foreign = std::nullopt;
  one.run = [size, copied, direct](const Arrangement::Body& body) {
    Config config;
    config.timeout = kForever;
    config.cuda_ipc = direct;
    MockGpuWorld world(size);
    run_mock_staged(world, size, config, false, body, copied,
                    direct ? small_parts() : staged::DirectOptions());
    EXPECT_EQ(world.machine.misuses(), "");
    EXPECT_EQ(world.machine.leaks(), "");
  };
  return one;
}

/// Worlds of these sizes, and one of three ranks that is copied.
inline std::vector<Arrangement> mock_staged_arrangements(const std::vector<int>& sizes,
                                                         bool direct) {
  make_mock_staged_known();
  std::vector<Arrangement> all;
  for (const int size : sizes) all.push_back(mock_staged_arrangement(size, false, direct));
  all.push_back(mock_staged_arrangement(3, true, direct));
  return all;
}

}  // namespace tutti::test
