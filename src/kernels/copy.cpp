#include "kernels/copy.hpp"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tutti::kernels {

namespace {
constexpr std::size_t kLine = 64;
}

void copy(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes > 0) std::memcpy(dst, src, bytes);
}

void copy_in_runs(void* dst, const void* src, std::size_t bytes) noexcept {
  constexpr std::size_t kRuns = 4;
  auto* const to = static_cast<std::byte*>(dst);
  const auto* const from = static_cast<const std::byte*>(src);
  const std::size_t run = bytes / kRuns / kLine * kLine;
  for (std::size_t at = 0; at < run; at += kLine) {
    for (std::size_t k = 0; k < kRuns; ++k)
      std::memcpy(to + k * run + at, from + k * run + at, kLine);
  }
  copy(to + kRuns * run, from + kRuns * run, bytes - kRuns * run);
}

#if defined(__SSE2__) || defined(__aarch64__)

namespace {

/// `to` is aligned to a line.
void stream_line(std::byte* to, const std::byte* from) noexcept {
#if defined(__SSE2__)
  const auto* const in = reinterpret_cast<const __m128i_u*>(from);
  auto* const out = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(in);
  const __m128i b = _mm_loadu_si128(in + 1);
  const __m128i c = _mm_loadu_si128(in + 2);
  const __m128i d = _mm_loadu_si128(in + 3);
  _mm_stream_si128(out, a);
  _mm_stream_si128(out + 1, b);
  _mm_stream_si128(out + 2, c);
  _mm_stream_si128(out + 3, d);
#else
  asm volatile(
      "ldp q0, q1, [%1]\n\t"
      "ldp q2, q3, [%1, #32]\n\t"
      "stnp q0, q1, [%0]\n\t"
      "stnp q2, q3, [%0, #32]" ::"r"(to),
      "r"(from)
      : "v0", "v1", "v2", "v3", "memory");
#endif
}

}  // namespace

void stream(void* dst, const void* src, std::size_t bytes) noexcept {
  auto* const to = static_cast<std::byte*>(dst);
  const auto* const from = static_cast<const std::byte*>(src);
  // Whole lines only: a line written in parts would leave the write-combining buffer in parts.
  const std::size_t head = std::min(bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  copy(to, from, head);
  std::size_t at = head;
  for (; bytes - at >= kLine; at += kLine) stream_line(to + at, from + at);
  copy(to + at, from + at, bytes - at);
}

#else

void stream(void* dst, const void* src, std::size_t bytes) noexcept { copy(dst, src, bytes); }

#endif

void stream_fence() noexcept {
#if defined(__SSE2__)
  _mm_sfence();  // elsewhere a release store orders these stores as it does others
#endif
}

void copy_nt(void* dst, const void* src, std::size_t bytes) noexcept {
  stream(dst, src, bytes);
  stream_fence();
}

}  // namespace tutti::kernels
