#pragma once

#include <filesystem>
#include <string>

#include <tutti/error.hpp>

#include "options.hpp"
#include "os/fd.hpp"

namespace tutti::launcher {

/// The files of the workers' output, where torchrun puts them too:
/// FOLDER/NAME_XXXXXX/attempt_N/LOCAL-RANK/stdout.log and stderr.log. The name is that of the run,
/// of this host, of this node, and of its ranks: the nodes may share a disk.
class Logs {
 public:
  /// Makes the folder of this run. Without a --log-dir it lies where temporary files go.
  static Result<Logs> make(const Options& options, const std::string& run_id);

  /// A new file for `stream` (1 or 2) of a worker.
  struct File {
    os::Fd fd;
    std::string path;
  };
  Result<File> open(int restart, int local_rank, int stream) const;
  [[nodiscard]] std::string folder() const { return folder_.string(); }

 private:
  explicit Logs(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

/// The last part of a file that a worker has written itself; empty where it cannot be read.
std::string tail_of(const std::string& path);

}  // namespace tutti::launcher
