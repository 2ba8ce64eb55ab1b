#include "apps/tutti/usage.hpp"

#include <fmt/ranges.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <vector>

#include "apps/tuttirun/option_text.hpp"
#include "base/format.hpp"
#include "base/nearest.hpp"
#include "base/shown.hpp"

namespace tutti::cli {
namespace {

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string meant(std::string_view word, const std::vector<std::string>& known) {
  const auto found = base::nearest(word, known);
  return found ? base::format("; did you mean {}?", *found) : "";
}

/// `word` is what nothing has taken.
std::string unexpected(const CLI::App& command, const std::string& word) {
  const std::string shown = base::shown_on_line(word, 200);
  if (word.starts_with('-')) {
    const std::string name = word.substr(0, word.find('='));
    return base::format("unknown option {}{}", shown, meant(name, options_of(command)));
  }
  const std::vector<std::string> commands = commands_of(command);
  if (commands.empty()) return base::format("\"{}\" is one argument too many", shown);
  return base::format("there is no command \"{}\"{}", shown, meant(word, commands));
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto given = app.get_subcommands();
  const CLI::App& command = given.empty() ? app : *given.front();
  const std::string name = given.empty() ? "tutti" : "tutti " + command.get_name();
  std::vector<std::string> rest = app.remaining(true);
  std::erase(rest, "--");
  // An option is named first: the words behind an unknown one may be its value.
  const auto option =
      std::ranges::find_if(rest, [](const auto& word) { return word.starts_with('-'); });
  std::string text;
  if (!rest.empty())
    text = unexpected(command, option != rest.end() ? *option : rest.front());
  else if (given.empty())
    text = base::format("no command given; there are {}", fmt::join(commands_of(app), ", "));
  else
    text = launcher::option_text(error);
  return base::format("{}: {}{} see {} --help", name, text, text.ends_with('?') ? "" : ";", name);
}

}  // namespace tutti::cli
