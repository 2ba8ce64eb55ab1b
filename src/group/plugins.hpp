#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tutti/backend/registry.hpp>

namespace tutti::group {

struct PluginFolder {
  std::string path;
  bool named = false;  ///< by TUTTI_BACKEND_PATH: its files are trusted
};

/// The folders in which backends in shared libraries are looked for, in this order: those of
/// TUTTI_BACKEND_PATH, of add_backend_folder, `backends` beside the file that holds this library,
/// `../lib/tutti` of it, and where the library was installed.
[[nodiscard]] std::vector<PluginFolder> plugin_folders();

/// The backend of this name from the first folder that has a file for it. One that cannot be used,
/// or that another user may have put there, is a backend that says why (BackendFactory::missing).
/// Without a file: no name.
[[nodiscard]] BackendFactory load_plugin(std::string_view name);

/// The names of all plug-ins in these folders.
[[nodiscard]] std::vector<std::string> plugin_names();

}  // namespace tutti::group
