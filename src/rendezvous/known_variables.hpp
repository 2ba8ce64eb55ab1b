#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

// Which environment variables are ours, and which only look so.
namespace tutti::rendezvous {

/// Names that Config reads.
[[nodiscard]] std::vector<std::string> setting_variables();
/// All variables of ours that the library reads: the settings, then those by which ranks meet.
[[nodiscard]] std::vector<std::string> known_variables();

/// A variable that looks like one of ours and is none.
struct StrangeVariable {
  std::string name;
  std::optional<std::string> meant;  ///< what it is most likely meant to be
};
/// Those among these names, in their order.
[[nodiscard]] std::vector<StrangeVariable> strange_variables(std::span<const std::string> names);

/// Warns of each variable of this process that is most likely meant to be one of ours, once per
/// process. Those that only begin like ours are left to `tutti doctor`: tests, tools and other
/// versions have some of their own.
void warn_of_misspelt_variables();

}  // namespace tutti::rendezvous
