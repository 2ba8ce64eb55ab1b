#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "mock_gpu_calls.hpp"
#include "mock_staged_ranks.hpp"

// How tests run ranks whose tensors go from GPU to GPU, over a mock of CUDA's driver.
namespace tutti::test {

inline Config patient() {
  Config config;
  config.timeout = kForever;
  config.cuda_ipc = true;
  return config;
}

inline void run_checked(MockGpuWorld& mock, int ranks,
                        const std::function<void(ProcessGroup& world)>& body,
                        const staged::DirectOptions& direct = small_parts()) {
  run_mock_staged(mock, ranks, patient(), true, body, false, direct);
  EXPECT_EQ(mock.machine.misuses(), "");
  EXPECT_EQ(mock.machine.leaks(), "");
  EXPECT_EQ(mock.machine.looked_again, 0);
}

}  // namespace tutti::test
