#pragma once

#include <array>
#include <string_view>

namespace tutti::base {

// The words that variables of a Config may have, in the order of its enumerations.
inline constexpr std::array<std::string_view, 3> kAgreeWords = {"normal", "strict", "off"};
inline constexpr std::array<std::string_view, 3> kTransportWords = {"auto", "shm", "tcp"};

}  // namespace tutti::base
