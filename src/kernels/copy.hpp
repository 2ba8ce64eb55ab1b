#pragma once

#include <cstddef>

namespace tutti::kernels {

/// Copies; the ranges do not overlap.
void copy(void* dst, const void* src, std::size_t bytes) noexcept;

/// Copies past the cache, for a destination that is not read again soon. Any alignment; ends with a
/// store fence, so that a release store afterwards publishes what was written.
void copy_nt(void* dst, const void* src, std::size_t bytes) noexcept;

/// The two halves of copy_nt, for who copies in pieces.
void stream(void* dst, const void* src, std::size_t bytes) noexcept;
void stream_fence() noexcept;

}  // namespace tutti::kernels
