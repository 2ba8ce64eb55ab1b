#include "os/environment.hpp"

#include <unistd.h>

#include <string_view>
#include <system_error>

#include "base/getenv.hpp"
#include "base/split.hpp"

namespace tutti::os {

Variables environment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::vector<std::string> entries_of(const Variables& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<std::filesystem::path> search_path() {
  std::vector<std::filesystem::path> folders;
  const std::string path = base::getenv("PATH");
  for (const std::string_view folder : base::split(path, ':'))
    if (!folder.empty()) folders.emplace_back(folder);
  return folders;
}

std::optional<std::filesystem::path> find_program(const std::string& name) {
  for (const std::filesystem::path& folder : search_path()) {
    std::filesystem::path file = folder / name;
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return std::nullopt;
}

}  // namespace tutti::os
