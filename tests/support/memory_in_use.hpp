#pragma once

#include <malloc.h>

#include <cstddef>

namespace tutti::test {

/// Bytes that this program has from malloc now. Under sanitizers, which bring a malloc of their
/// own, always the same.
inline std::size_t memory_in_use() {
  const struct mallinfo2 all = ::mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace tutti::test
