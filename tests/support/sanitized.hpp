#pragma once

namespace tutti::test {

/// Every access is checked: tests then take fewer rounds, as each takes many times as long.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace tutti::test
