#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::kernels {

/// Copies; the ranges do not overlap.
void copy(void* dst, const void* src, std::size_t bytes) noexcept;

/// The same, for a source in memory rather than in a cache: it is read in several runs at a time,
/// each of which keeps fetches of its own under way. For 16 KiB and more.
void copy_in_runs(void* dst, const void* src, std::size_t bytes) noexcept;

/// Copies with non-temporal stores, for a destination that is not read again soon. Any alignment;
/// ends with a store fence, so that a release store afterwards publishes what was written.
void copy_nt(void* dst, const void* src, std::size_t bytes) noexcept;

/// The two halves of copy_nt, for callers that copy in pieces.
void stream(void* dst, const void* src, std::size_t bytes) noexcept;
void stream_fence() noexcept;

/// Plain copy of 8 to 16 bytes, as two words that may overlap: the smallest messages.
inline void copy_few(void* dst, const void* src, std::size_t bytes) noexcept {
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
  std::memcpy(&head, src, 8);
  std::memcpy(&tail, static_cast<const std::byte*>(src) + bytes - 8, 8);
  std::memcpy(dst, &head, 8);
  std::memcpy(static_cast<std::byte*>(dst) + bytes - 8, &tail, 8);
}

}  // namespace tutti::kernels
