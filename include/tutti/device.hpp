#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Kinds of memory.
enum class DeviceType : std::uint8_t {
  cpu = 0,   ///< of the process: what the CPU reads and writes, pinned memory of a GPU included
  cuda = 1,  ///< of an NVIDIA GPU
};

/// Number of kinds; every valid DeviceType is below it.
inline constexpr int kDeviceTypeCount = 2;

/// Where the memory of a tensor is.
struct Device {
  DeviceType type = DeviceType::cpu;
  std::int16_t index = 0;  ///< which GPU, as this process counts them; of the CPU: 0

  friend constexpr bool operator==(const Device&, const Device&) noexcept = default;
};

/// "cpu", "cuda:1".
[[nodiscard]] std::string to_string(Device device);

/// The GPU whose memory this is, as CUDA's driver knows it. Memory of the host that is registered
/// with CUDA (pinned) counts as memory of the GPU that it was registered with. Absent: the driver
/// does not know the memory, there is no driver, or nobody in this process has initialised CUDA,
/// which this does not.
///
/// Threads: any.
[[nodiscard]] std::optional<Device> gpu_of(const void* memory);

}  // namespace v0
}  // namespace tutti
