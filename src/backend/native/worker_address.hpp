#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "transport/shm/host_address.hpp"

namespace tutti::native {

/// The most bytes of an encoded address.
inline constexpr std::size_t kMostWorkerAddressBytes = 32 * 1024;
/// The most bytes of each text in it.
inline constexpr std::size_t kMostWorkerAddressText = 1024;

/// All that other ranks must know of a rank to reach it. It travels through the store of the
/// rendezvous.
struct WorkerAddress {
  transport::shm::HostAddress host;
  /// The address that others connect to; empty without TCP. An unspecified host: see
  /// dial_addresses.
  std::string address;
  std::string store_host;  ///< the address by which it has reached the store; empty: none
  std::string settings;    ///< those that must be equal on all ranks (base/agreed_settings.hpp)
};

/// The fields that the ranks of a host mostly have in common come first.
[[nodiscard]] std::string encode(const WorkerAddress& worker_address);
/// `text` comes from the store and may be anything. Every field of the result is in its range and
/// can be printed. Error: store.
[[nodiscard]] Result<WorkerAddress> decode(std::string_view text);

/// `decode` of many addresses: what begins as the one before is not parsed again.
class WorkerAddressReader {
 public:
  [[nodiscard]] Result<WorkerAddress> read(std::string_view text);

 private:
  [[nodiscard]] Outcome read_common(std::string_view text);

  std::string common_;       ///< the beginning of the last text
  WorkerAddress of_common_;  ///< what it says
};

}  // namespace tutti::native
