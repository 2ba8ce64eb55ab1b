#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "os/fd.hpp"
#include "os/shared_memory.hpp"
#include "record/layout.hpp"

// The memory of a recorder, as those see it who write there.
namespace tutti::record {

struct OwnMemory {
  os::Fd fd;  ///< by it `tutti status` finds the memory
  os::Mapping mapping;

  [[nodiscard]] Memory& memory() const noexcept {
    return *reinterpret_cast<Memory*>(mapping.data());
  }
  [[nodiscard]] Header& header() const noexcept { return memory().header; }
};

/// New and empty.
[[nodiscard]] Result<OwnMemory> make_own_memory();
/// That which a launcher has handed to this process (TUTTI_RECORD_FD), if it can be reached.
[[nodiscard]] std::optional<OwnMemory> handed_memory();
/// Takes the place for this process. False: another process that lives has it.
[[nodiscard]] bool take_place(std::atomic<std::int32_t>& place) noexcept;
[[nodiscard]] ClockPair clocks() noexcept;

/// Cut, if it is too long.
template <std::size_t size>
void put(std::array<char, size>& to, std::string_view text) noexcept {
  to.fill(0);
  std::memcpy(to.data(), text.data(), std::min(text.size(), size - 1));
}

}  // namespace tutti::record
