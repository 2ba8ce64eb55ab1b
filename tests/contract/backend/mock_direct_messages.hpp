#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

#include "engine/credit_account.hpp"
#include "mock_direct_ranks.hpp"

// Messages whose tensors are on GPUs, over a mock of CUDA's driver.
namespace tutti::test {

inline constexpr std::size_t kSmall = 100;                                 // by way of the host
inline constexpr std::size_t kMost = engine::kEagerLimit / sizeof(float);  // the largest of those
inline constexpr std::size_t kLarge = 5 * engine::kEagerLimit / 8;         // five parts
inline constexpr Device kOther{DeviceType::cuda, 1};

inline TensorView on_cpu(std::vector<float>& values) {
  return TensorView(values.data(), DType::float32, values.size());
}

inline std::vector<float> numbers(std::size_t count, int first) {
  std::vector<float> made(count);
  std::iota(made.begin(), made.end(), static_cast<float>(first));
  return made;
}

}  // namespace tutti::test
