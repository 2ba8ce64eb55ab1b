#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/backend/registry.hpp>
#include <tutti/log.hpp>

namespace tutti {

/// Changes with every change of what a plug-in and the library pass to each other: Backend,
/// Operations, BackendFactory, and what is in them. A test knows the interface of each number.
inline constexpr std::uint32_t kBackendAbi = 12;

/// The sizes of these as this compiler and standard library lay them out.
[[nodiscard]] constexpr std::uint64_t backend_layout() noexcept {
  return sizeof(BackendFactory) + (sizeof(WorldOptions) << 12) +
         (static_cast<std::uint64_t>(sizeof(Config)) << 24) +
         (static_cast<std::uint64_t>(sizeof(Collective)) << 36) +
         (static_cast<std::uint64_t>(sizeof(Outcome)) << 48);
}

/// A backend in a shared library of its own, which is found when somebody asks for it: a file
/// `tutti_backend_<name>.so` in a folder of TUTTI_BACKEND_PATH, beside the program or module that
/// holds this library, in `../lib/tutti` of it, or where the library was installed.
///
/// It defines  extern "C" const tutti::BackendPlugin* tutti_backend_plugin();
/// and is linked with its own copy of the library, hidden (-Wl,--exclude-libs,ALL).
struct BackendPlugin {
  std::uint32_t abi = kBackendAbi;
  std::uint64_t layout = backend_layout();
  /// The backends to register. Threads: once, under a lock of the library.
  void (*describe)(BackendFactory& factory) = nullptr;
  /// The log sink of its copy of the library from now on.
  void (*set_log)(void (*sink)(LogLevel level, std::string_view text)) = nullptr;
};

}  // namespace tutti
