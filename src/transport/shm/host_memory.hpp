#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/shared_memory.hpp"
#include "transport/region.hpp"

namespace tutti::transport::shm {

/// The memory of a host (layout.hpp) in this process: one mapping, in which the control part and
/// the arenas of this process's own ranks can be written. Ranks that are threads of one process
/// share it, because a sanitizer that watches addresses would see nothing through two.
class HostMemory {
 public:
  [[nodiscard]] static Result<os::Fd> make(std::size_t ranks);
  /// Maps what `make` has made, once in a process for each `id`: of the rank that has made it.
  [[nodiscard]] static Result<std::shared_ptr<HostMemory>> map(os::Fd memory, std::size_t ranks,
                                                               std::uint64_t id);

  /// False: this process maps parts of it, because its address space is limited.
  [[nodiscard]] bool whole() const noexcept { return mapping_.whole(); }
  /// The rank with that local index, as a peer of this process. Where the address space is limited,
  /// of its arena only the ring to `reader` and the staging ring are mapped.
  [[nodiscard]] Result<RegionPeer> peer(std::size_t local, std::size_t reader);
  /// Shows that this process has that rank. Returns its arena, which it may write from now on.
  [[nodiscard]] Result<std::byte*> own(std::size_t local, int rank);
  /// Maps a range of an arena.
  [[nodiscard]] Outcome add(std::size_t local, std::size_t begin, std::size_t bytes);
  /// Allocates pages that this process may write, and maps them if they are not. An error if
  /// memory, or the address space, is short.
  [[nodiscard]] Outcome populate(std::byte* data, std::size_t size);

 private:
  HostMemory(os::PartialMapping mapping, std::size_t ranks) noexcept
      : mapping_(std::move(mapping)), layout_{ranks} {}
  [[nodiscard]] Outcome check() const;
  [[nodiscard]] RegionControl control(std::size_t local) const noexcept {
    return {mapping_.data(), layout_.ranks, local};
  }

  std::mutex mutex_;  ///< ranks that are threads map parts
  os::PartialMapping mapping_;
  HostLayout layout_;
};

}  // namespace tutti::transport::shm
