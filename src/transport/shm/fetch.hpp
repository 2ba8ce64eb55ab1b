#pragma once

// Hints to the CPU about cache lines that several ranks use. They change no memory and need no
// order.
namespace tutti::transport::shm {

/// Begins to fetch a line that another rank has written.
inline void fetch_to_read(const void* place) noexcept { __builtin_prefetch(place); }

/// Begins to fetch a line from the caches of others, for a write that comes soon.
inline void fetch_to_write(const void* place) noexcept {
#if defined(__x86_64__)
  // The compiler emits it only for newer CPUs; older ones take it for a no-op.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

}  // namespace tutti::transport::shm
