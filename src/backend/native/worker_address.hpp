#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "transport/shm/host.hpp"

namespace tutti::native {

/// A worker_address takes no more, as text.
inline constexpr std::size_t kMostWorkerAddressBytes = 32 * 1024;
/// Nor does a text on it.
inline constexpr std::size_t kMostWorkerAddressText = 1024;

/// What all others must know of a rank to reach it. Travels through the store in which they meet.
struct WorkerAddress {
  transport::shm::HostAddress host;
  /// Where it is dialled; empty where it is alone. An unspecified host: see dial_addresses.
  std::string address;
  std::string store_host;      ///< by which address it has reached the store; empty: by none
  std::uint64_t settings = 0;  ///< what all ranks must have alike
};

[[nodiscard]] std::string encode(const WorkerAddress& worker_address);
/// From what stands in the store, which may be anything. Everything in the result is in its range
/// and may be shown. Error: store.
[[nodiscard]] Result<WorkerAddress> decode(std::string_view text);

}  // namespace tutti::native
