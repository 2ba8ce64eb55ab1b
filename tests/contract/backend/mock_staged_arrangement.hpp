#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arrangement.hpp"
#include "mock_staged_ranks.hpp"
#include "support/rotation.hpp"

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
    MockGpuWorld world(size);
    const staged::DirectOptions options = direct ? small_parts() : staged::DirectOptions();
    run_mock_staged(world, {.plain = false, .copied = copied, .direct = options}, body);
    expect_clean(world.machine);
  };
  return one;
}

/// Worlds of all sizes, and one of three ranks that is copied.
inline std::vector<Arrangement> mock_staged_worlds(bool direct) {
  make_mock_staged_known();
  std::vector<Arrangement> all;
  for (const int size : world_sizes()) all.push_back(mock_staged_arrangement(size, false, direct));
  all.push_back(mock_staged_arrangement(3, true, direct));
  return all;
}

}  // namespace tutti::test
