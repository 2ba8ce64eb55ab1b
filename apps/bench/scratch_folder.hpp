#pragma once

#include <filesystem>

namespace tutti::bench {

/// A folder of this run, gone with everything in it when the object is. The next run
/// removes the folder of a run that was killed.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  ///< held as long as the run lives: tells a used folder from a left one
};

}  // namespace tutti::bench
