#pragma once

#include <tutti/error.hpp>

namespace tutti::group {

/// True if an error of this code only follows from the failure of another rank.
[[nodiscard]] constexpr bool is_consequence(Errc code) noexcept {
  return code == Errc::peer_lost || code == Errc::peer_left || code == Errc::aborted;
}

}  // namespace tutti::group
