#pragma once

#include <string>
#include <string_view>

namespace tutti::store {

/// Removes the files of stores in `folder` whose name is `begin` and a private_name behind it, if
/// they belong to this user and no living process uses them: its jobs were killed. A process that
/// opens such a file at the same time makes a new one. Removes nothing else; fails silently.
void sweep_files(const std::string& folder, std::string_view begin) noexcept;

}  // namespace tutti::store
