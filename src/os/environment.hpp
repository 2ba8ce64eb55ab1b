#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::os {

using Variables = std::map<std::string, std::string>;

/// The environment of this process.
[[nodiscard]] Variables environment();

/// The same as a program is started with: "NAME=value".
[[nodiscard]] std::vector<std::string> entries_of(const Variables& variables);

/// The folders of PATH.
[[nodiscard]] std::vector<std::filesystem::path> search_path();

/// The first program of this name in PATH; absent: there is none.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::string& name);

}  // namespace tutti::os
