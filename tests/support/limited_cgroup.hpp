#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "os/cgroup.hpp"

namespace tutti::test {

/// A cgroup below that of this process, with a limit, as long as this lives. Its folder is empty
/// where none can be made.
class LimitedCgroup {
 public:
  /// `first`, `second`: the files that take the limit, by version of the cgroups.
  LimitedCgroup(const std::string& controller, const std::vector<std::string>& first,
                const std::vector<std::string>& second, long limit) {
    for (const os::Cgroup& own : os::cgroups_with(controller)) {
      const std::string folder = own.folder + "/tutti_test_" + std::to_string(::getpid());
      if (!own.own || ::mkdir(folder.c_str(), 0755) != 0) continue;
      const std::vector<std::string>& files = own.second ? second : first;
      for (const std::string& file : files) std::ofstream(folder + "/" + file) << limit;
      std::ifstream set(folder + "/" + files.front());
      long most = 0;
      if (set >> most && most == limit) {
        folder_ = folder;
        return;
      }
      (void)::rmdir(folder.c_str());
    }
  }
  ~LimitedCgroup() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!folder_.empty() && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY &&
           std::chrono::steady_clock::now() < deadline) {
    }
  }
  LimitedCgroup(const LimitedCgroup&) = delete;
  LimitedCgroup& operator=(const LimitedCgroup&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// What stands before a program that is to be in it.
  [[nodiscard]] std::vector<std::string> entering() const {
    return {"sh", "-c", "echo $$ > " + folder_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }

 private:
  std::string folder_;
};

}  // namespace tutti::test
