#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::cli {

/// The findings of `tutti doctor`, as text for people.
class Findings {
 public:
  void section(std::string_view title);
  /// A fact: "  cpus           2 usable".
  void fact(std::string_view name, std::string_view text);
  /// A row under the last fact.
  void more(std::string_view text);
  /// Worth to know, and no fault.
  void hint(std::string text) { hints_.push_back(std::move(text)); }
  /// Something that will fail, and what to do.
  void wrong(std::string text) { wrong_.push_back(std::move(text)); }

  [[nodiscard]] bool good() const noexcept { return wrong_.empty(); }
  /// All of it, what is wrong last.
  [[nodiscard]] std::string text() const;

 private:
  std::string facts_;
  std::vector<std::string> hints_;
  std::vector<std::string> wrong_;
};

}  // namespace tutti::cli
