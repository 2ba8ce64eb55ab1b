#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tutti/backends.hpp>

namespace tutti::group {

/// The folders in which backends in shared libraries are looked for, in this order: those of
/// TUTTI_BACKEND_PATH, `backends` beside the file that holds this library, `../lib/tutti` of it,
/// and where the library was installed.
[[nodiscard]] std::vector<std::string> plugin_folders();

/// The backend of this name from the first folder that has a file for it. One that cannot be used
/// is a backend that says why (BackendFactory::missing). Without a file: no name.
[[nodiscard]] BackendFactory load_plugin(std::string_view name);

/// The names of all plug-ins in these folders.
[[nodiscard]] std::vector<std::string> plugin_names();

}  // namespace tutti::group
