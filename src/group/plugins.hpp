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

/// The folders that are searched for plug-ins, each once, in this order: those of
/// TUTTI_BACKEND_PATH, those of add_backend_folder, those where a prefix that holds the file of
/// this code has its plug-ins, and the folder of the installation. An empty entry in
/// TUTTI_BACKEND_PATH stands for the second and third, as in MANPATH.
[[nodiscard]] std::vector<PluginFolder> plugin_folders();

/// The backend of this name from the first folder that has a file for it. If the plug-in cannot be
/// used, or another user may have put it there, BackendFactory::missing has the reason. Without a
/// file the name is empty.
[[nodiscard]] BackendFactory load_plugin(std::string_view name);

/// The reason for an empty name, with the folders.
[[nodiscard]] std::string why_no_plugin(std::string_view name);

/// The names of all plug-ins in these folders.
[[nodiscard]] std::vector<std::string> plugin_names();

/// The TUTTI_BACKEND_PATH with which processes find the plug-ins that this one finds, wherever
/// their programs lie: its own, and behind them the other folders, if all in there may be loaded.
[[nodiscard]] std::string plugin_path_of_children();

}  // namespace tutti::group
