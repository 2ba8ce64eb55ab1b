#pragma once

/// Seconds and bytes are told in these.
namespace tutti::bench {

inline constexpr double kMicro = 1e6;
inline constexpr double kNano = 1e9;
inline constexpr double kGiga = 1e-9;

}  // namespace tutti::bench
