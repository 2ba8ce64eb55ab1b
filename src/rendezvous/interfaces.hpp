#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

#include "os/route.hpp"
#include "rendezvous/environment.hpp"

namespace tutti::rendezvous {

inline constexpr std::size_t kMostInterfaces = 64;

/// Which network interfaces a variable asks for.
struct InterfaceChoice {
  bool excludes = false;  ///< any but these
  bool exact = false;     ///< whole names, not how a name begins
  std::vector<std::string> names;

  /// Place in the list of the first entry that the interface matches, or nothing. For one that
  /// excludes: 0 for whatever is not excluded.
  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view interface) const;
};

/// "eth0,ib": names, or how they begin; "=eth0": whole names; "^docker,lo": any but these;
/// "^=eth0". `exact` is what a list without "=" means. Pure. Errors: invalid_argument, which names
/// the variable.
Result<InterfaceChoice> parse_interfaces(std::string_view variable, std::string_view text,
                                         bool exact);

/// An interface that the environment has asked for.
struct ChosenInterface {
  const char* variable = "";  ///< which asked: one of kInterfaceVariables
  os::Interface interface;    ///< its first address of the family, else of any
};
/// The best interface of this host that is up, among those that the program asks for (`given`:
/// Config::interfaces, may be empty), else the environment. Nothing if none is asked for. Errors:
/// invalid_argument if none matches, which names the variable and the interfaces that there are;
/// those of `parse_interfaces`.
Result<std::optional<ChosenInterface>> choose_interface(const Environment& environment, int family,
                                                        const std::string& given = {});

}  // namespace tutti::rendezvous
