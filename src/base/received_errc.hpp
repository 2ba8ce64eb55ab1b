#pragma once

#include <cstdint>

#include <tutti/error.hpp>

namespace tutti::base {

/// The code of an error that another process has told; `internal` for one that no error has.
[[nodiscard]] constexpr Errc received_errc(std::int64_t code) noexcept {
  return code > 0 && code <= static_cast<std::int64_t>(Errc::no_quorum) ? static_cast<Errc>(code)
                                                                        : Errc::internal;
}

}  // namespace tutti::base
