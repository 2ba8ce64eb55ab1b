#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace tutti::fault {

/// A quantile of some values; 0 of none.
inline double at(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
}

/// Where a job of ours puts temporary files (TMPDIR), and no other program does.
class OwnFolder : public test::TemporaryFolder {
 public:
  /// What lies there.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
      names.insert(entry.path().string());
    return names;
  }
};

/// What a job could leave behind in shared memory, where tutti makes no files with names at all: so
/// other programs of it do not disturb.
inline std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with("tutti") && !name.starts_with("tutti-bench.");
    if (ours || name.starts_with("memfd")) names.insert(name);
  }
  return names;
}

}  // namespace tutti::fault
