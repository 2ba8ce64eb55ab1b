#pragma once

#include <array>
#include <string_view>

namespace tutti::base {

// The words for the values of Config's enumerations, in their order.
inline constexpr std::array<std::string_view, 3> kAgreeWords = {"normal", "strict", "off"};
inline constexpr std::array<std::string_view, 3> kTransportWords = {"auto", "shm", "tcp"};

}  // namespace tutti::base
