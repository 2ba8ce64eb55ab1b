#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "transport/shm/host.hpp"

namespace tutti::native {

/// The text of an encoded address has at most so many bytes.
inline constexpr std::size_t kMostWorkerAddressBytes = 32 * 1024;
/// Each text in it has at most so many bytes.
inline constexpr std::size_t kMostWorkerAddressText = 1024;

/// All that other ranks must know of a rank to reach it. It travels through the store of the
/// rendezvous.
struct WorkerAddress {
  transport::shm::HostAddress host;
  /// Where it is dialled; empty where it is alone. An unspecified host: see dial_addresses.
  std::string address;
  std::string store_host;      ///< by which address it has reached the store; empty: by none
  std::uint64_t settings = 0;  ///< what all ranks must have alike
};

[[nodiscard]] std::string encode(const WorkerAddress& worker_address);
/// `text` may be anything that somebody put into the store. Every field of the result is in its
/// range and can be shown. Error: store.
[[nodiscard]] Result<WorkerAddress> decode(std::string_view text);

}  // namespace tutti::native
