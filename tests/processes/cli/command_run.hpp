#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "os/process.hpp"
#include "support/programs.hpp"
#include "support/stacks.hpp"

namespace tutti::test {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A program that runs in an environment of its own, with a folder of its own for files. It is
/// killed if it still runs at the end of the test.
class CommandRun {
 public:
  /// `errors`: where its standard error goes; absent: to the output.
  CommandRun(Words argv, Words environment, std::optional<int> errors = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_command.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (auto& word : argv)
      if (word.starts_with("@")) word = (folder_ / word.substr(1)).string();
    os::SpawnOptions options;
    options.argv = std::move(argv);
    options.environment = std::move(environment);
    const int log = ::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    options.fds = {{log, 1}, {errors.value_or(log), 2}};
    process_ = os::spawn(options).value();
    ::close(log);
  }
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;
  ~CommandRun() {
    if (!code_) {
      EXPECT_TRUE(process_.kill(SIGKILL).ok());
      finish();
    }
    std::filesystem::remove_all(folder_);
  }

  /// Its exit status, as a shell tells it; -1: it did not end in time.
  int finish() {
    const auto status = process_.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    if (!status.ok() || !status.value()) {
      print_stacks_of_children();
      return -1;
    }
    code_ = status.value()->shell_code();
    EXPECT_TRUE(process_.collect().ok());
    return *code_;
  }

  void signal(int number) { EXPECT_TRUE(process_.kill(number).ok()); }
  [[nodiscard]] std::string output() const { return text_of(folder_ / "log"); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// What it has written to the file that its arguments call "@name".
  [[nodiscard]] std::string file(const std::string& name) const { return text_of(folder_ / name); }

 private:
  std::filesystem::path folder_;
  os::Process process_;
  std::optional<int> code_;
};

/// Of a program that has ended.
struct Answer {
  int code = -1;
  std::string text;
};
inline Answer answer_of(const Words& argv, const Words& environment = {}) {
  CommandRun run(argv, environment);
  const int code = run.finish();
  return {code, run.output()};
}

}  // namespace tutti::test
