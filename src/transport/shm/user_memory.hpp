#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <tutti/error.hpp>

#include "base/forks.hpp"
#include "transport/shm/host_memory.hpp"

namespace tutti::transport::shm {

/// Hands out the part of this rank's arena that its user may have (kUserOffset): the other ranks of
/// the host read it where it lies.
///
/// Lifetime: what was handed out keeps it, and may outlive the world.
/// Threads:  any.
class UserMemory : public std::enable_shared_from_this<UserMemory> {
 public:
  UserMemory(std::shared_ptr<HostMemory> memory, std::byte* arena)
      : memory_(std::move(memory)), begin_(arena + kUserOffset) {
    free_[0] = kArenaBytes - kUserOffset;
  }

  /// Zeroed memory, whole pages. resource: the system has no more. Null: this part of the arena is
  /// full.
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes);

 private:
  /// These bytes are zero.
  void give_back(std::size_t begin, std::size_t bytes) noexcept;

  const std::uint64_t forks_ = base::fork_generation();
  const std::shared_ptr<HostMemory> memory_;
  std::byte* const begin_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< begin and end of what is free, apart
};

}  // namespace tutti::transport::shm
