#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <optional>

#include "support/programs.hpp"
#include "support/temporary_folder.hpp"

namespace tutti::test {

/// A program that runs in an environment of its own, with a folder of its own for files. It is
/// killed if it still runs at the end of the test.
class CommandRun {
 public:
  /// `errors`: where its standard error goes; absent: to the output.
  CommandRun(Words argv, Words environment, std::optional<int> errors = {}) {
    for (auto& word : argv)
      if (word.starts_with("@")) word = at(word.substr(1)).string();
    os::SpawnOptions options;
    options.argv = std::move(argv);
    options.environment = std::move(environment);
    const int log = ::open(at("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    options.fds = {{log, 1}, {errors.value_or(log), 2}};
    process_ = os::spawn(options).value();
    ::close(log);
  }
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;
  ~CommandRun() {
    if (code_) return;
    EXPECT_TRUE(process_.kill(SIGKILL).ok());
    finish();
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
  [[nodiscard]] std::string output() const { return file("log"); }
  /// The file that its arguments call "@name".
  [[nodiscard]] std::filesystem::path at(const std::string& name) const { return folder_.at(name); }
  [[nodiscard]] std::string file(const std::string& name) const { return text_of(at(name)); }

 private:
  const TemporaryFolder folder_;
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
