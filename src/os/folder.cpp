#include "os/folder.hpp"

#include <dirent.h>

#include <memory>
#include <string_view>

namespace tutti::os {

std::optional<std::vector<std::string>> names_in(const std::string& folder) {
  struct Close {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> open(::opendir(folder.c_str()));
  if (!open) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* const entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

}  // namespace tutti::os
