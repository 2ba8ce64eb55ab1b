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

/// The folders that are searched for plug-ins, in this order: those of TUTTI_BACKEND_PATH, those of
/// add_backend_folder, `backends` and `../lib/tutti` relative to the file of this library, and the
/// folder of the installation.
[[nodiscard]] std::vector<PluginFolder> plugin_folders();

/// The backend of this name from the first folder that has a file for it. If the plug-in cannot be
/// used, or another user may have put it there, BackendFactory::missing has the reason. Without a
/// file the name is empty.
[[nodiscard]] BackendFactory load_plugin(std::string_view name);

/// The names of all plug-ins in these folders.
[[nodiscard]] std::vector<std::string> plugin_names();

}  // namespace tutti::group
