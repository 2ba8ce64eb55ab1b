#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
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

inline Work message(ProcessGroup& world, Kind kind, const TensorView& view, int other, int tag = 0,
                    std::uintptr_t stream = 0,
                    std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
  Details details;
  details.stream = stream;
  Collective call;
  call.kind = kind;
  call.root = other;
  call.tag = tag;
  (kind == Kind::send ? call.input : call.output) = view;
  call.details = &details;
  return world.submit(call, timeout, false);
}

inline Work send_to(ProcessGroup& world, const TensorView& view, int to, int tag = 0,
                    std::uintptr_t stream = 0) {
  return message(world, Kind::send, view, to, tag, stream);
}

inline Work recv_from(ProcessGroup& world, const TensorView& view, int from, int tag = 0,
                      std::uintptr_t stream = 0) {
  return message(world, Kind::recv, view, from, tag, stream);
}

}  // namespace tutti::test
