#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::test {

/// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::filesystem::path at(const std::string& name) const {
    return std::filesystem::path(path_) / name;
  }
  /// Writes a file into it; its path.
  [[nodiscard]] std::string file(const std::string& name, const std::string& text,
                                 bool executable = false) const {
    const std::string path = at(name).string();
    std::ofstream(path) << text;
    if (executable) std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

 private:
  std::string path_ = testing::TempDir() + "tutti_test_XXXXXX";
};

}  // namespace tutti::test
