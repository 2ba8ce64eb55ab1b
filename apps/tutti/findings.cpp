#include "apps/tutti/findings.hpp"

#include "base/format.hpp"

namespace tutti::cli {
namespace {

constexpr int kNameWidth = 20;

}  // namespace

void Findings::section(std::string_view title) {
  if (!facts_.empty()) facts_ += '\n';
  facts_ += base::format("{}\n", title);
}

void Findings::fact(std::string_view name, std::string_view text) {
  facts_ += base::format("  {:<{}}{}\n", name, kNameWidth, text);
}

void Findings::more(std::string_view text) { fact("", text); }

std::string Findings::text() const {
  std::string text = facts_;
  if (!hints_.empty()) text += "\nHints\n";
  for (const std::string& hint : hints_) text += base::format("  - {}\n", hint);
  text += wrong_.empty() ? "\nNothing is wrong.\n" : "\nWrong\n";
  for (const std::string& one : wrong_) text += base::format("  - {}\n", one);
  return text;
}

}  // namespace tutti::cli
