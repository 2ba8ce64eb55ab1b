#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/backend/registry.hpp>
#include <tutti/export.hpp>
#include <tutti/log.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The number of the interface between a plug-in and the library: Backend, Operations,
/// BackendFactory, and all that they use.
inline constexpr std::uint32_t kBackendAbi = 15;

/// Tells whether two compilers and standard libraries give the interface the same sizes.
[[nodiscard]] constexpr std::uint64_t backend_layout() noexcept {
  return sizeof(BackendFactory) + (sizeof(WorldOptions) << 12) +
         (static_cast<std::uint64_t>(sizeof(Config)) << 24) +
         (static_cast<std::uint64_t>(sizeof(Collective)) << 36) +
         (static_cast<std::uint64_t>(sizeof(Outcome)) << 48);
}

/// A backend in its own shared library, which is loaded when somebody asks for the backend: a file
/// `tutti_backend_<name>.so` in a folder of TUTTI_BACKEND_PATH, in `lib/tutti` of the prefix that
/// the library or program lies in, or where the library was installed.
///
/// It defines  extern "C" const tutti::BackendPlugin* tutti_backend_plugin();
/// and is linked with its own copy of the library, hidden (-Wl,--exclude-libs,ALL).
struct BackendPlugin {
  std::uint32_t abi = kBackendAbi;
  std::uint64_t layout = backend_layout();
  /// Fills in the backend to register. Threads: once, under a lock of the library.
  void (*describe)(BackendFactory& factory) = nullptr;
  /// Sets the log sink of the plug-in's copy of the library.
  void (*set_log)(void (*sink)(LogLevel level, std::string_view text)) = nullptr;
};

}  // namespace v0
}  // namespace tutti
