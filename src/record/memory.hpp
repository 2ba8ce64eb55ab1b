#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "os/fd.hpp"
#include "os/shared_memory.hpp"
#include "record/layout.hpp"

// Memory of the flight recorder that this process writes.
namespace tutti::record {

struct MappedMemory {
  os::Fd fd;  ///< stays open: `tutti status` finds the memory by it
  os::Mapping mapping;

  [[nodiscard]] Memory& memory() const noexcept {
    return *reinterpret_cast<Memory*>(mapping.data());
  }
  [[nodiscard]] Header& header() const noexcept { return memory().header; }
};

[[nodiscard]] Result<MappedMemory> new_memory();
/// The memory that a launcher has handed to this process (TUTTI_RECORD_FD), if it can be reached.
[[nodiscard]] std::optional<MappedMemory> handed_memory();
/// Writes the id of this process there. False: that of another process that lives is there.
[[nodiscard]] bool take_place(std::atomic<std::int32_t>& place) noexcept;
/// The present time by both clocks.
[[nodiscard]] ClockPair clocks() noexcept;

/// Cuts a text that is too long.
template <std::size_t size>
void put(std::array<char, size>& to, std::string_view text) noexcept {
  to.fill(0);
  std::memcpy(to.data(), text.data(), std::min(text.size(), size - 1));
}

}  // namespace tutti::record
