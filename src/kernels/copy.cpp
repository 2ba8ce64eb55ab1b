#include "kernels/copy.hpp"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tutti::kernels {

void copy(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes > 0) std::memcpy(dst, src, bytes);
}

void copy_in_runs(void* dst, const void* src, std::size_t bytes) noexcept {
  constexpr std::size_t kRuns = 4;
  constexpr std::size_t kLine = 64;
  auto* const to = static_cast<std::byte*>(dst);
  const auto* const from = static_cast<const std::byte*>(src);
  const std::size_t run = bytes / kRuns / kLine * kLine;
  for (std::size_t at = 0; at < run; at += kLine) {
    for (std::size_t k = 0; k < kRuns; ++k)
      std::memcpy(to + k * run + at, from + k * run + at, kLine);
  }
  copy(to + kRuns * run, from + kRuns * run, bytes - kRuns * run);
}

#if defined(__SSE2__)

void stream(void* dst, const void* src, std::size_t bytes) noexcept {
  constexpr std::size_t kLine = 64;
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  // Whole lines only: a line written in parts would leave the write-combining buffer in parts.
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  copy(to, from, head);
  std::size_t at = head;
  for (; bytes - at >= kLine; at += kLine) {
    const auto* in = reinterpret_cast<const __m128i_u*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  copy(to + at, from + at, bytes - at);
}

void stream_fence() noexcept { _mm_sfence(); }

#else

void stream(void* dst, const void* src, std::size_t bytes) noexcept { copy(dst, src, bytes); }

void stream_fence() noexcept {}

#endif

void copy_nt(void* dst, const void* src, std::size_t bytes) noexcept {
  stream(dst, src, bytes);
  stream_fence();
}

}  // namespace tutti::kernels
