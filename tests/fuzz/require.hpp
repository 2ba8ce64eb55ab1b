#pragma once

#include <cstdlib>

namespace tutti::fuzz {

/// Ends the fuzzer, which keeps the input, unless the condition holds.
inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace tutti::fuzz
