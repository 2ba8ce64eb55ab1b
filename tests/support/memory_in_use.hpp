#pragma once

#include <malloc.h>

#include <cstddef>

namespace tutti::test {

/// Bytes that this program has from malloc now; always the same under sanitizers, which replace it.
inline std::size_t memory_in_use() {
  const struct mallinfo2 all = ::mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace tutti::test
