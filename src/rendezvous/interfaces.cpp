#include "rendezvous/interfaces.hpp"

#include <net/if.h>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "base/split.hpp"
#include "os/host.hpp"

namespace tutti::rendezvous {

std::optional<std::size_t> InterfaceChoice::place_of(std::string_view interface) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (exact ? interface == names[i] : interface.starts_with(names[i]))
      return excludes ? std::nullopt : std::optional<std::size_t>(i);
  }
  return excludes ? std::optional<std::size_t>(0) : std::nullopt;
}

Result<InterfaceChoice> parse_interfaces(std::string_view variable, std::string_view text,
                                         bool exact) {
  const auto bad = [&](std::string_view why) {
    return cannot_join(base::format(
        "{} is \"{}\", which {}; it must be names with commas between, such as eth0,eth1, with = "
        "before them for whole names only, or ^ for any but these",
        variable, base::shown(text, 128), why));
  };
  InterfaceChoice choice;
  choice.exact = exact;
  std::string_view rest = text;
  if (rest.starts_with('^')) {
    choice.excludes = true;
    rest.remove_prefix(1);
  }
  if (rest.starts_with('=')) {
    choice.exact = true;
    rest.remove_prefix(1);
  }
  for (const std::string_view name : base::split(rest, ',')) {
    if (name.empty()) return bad("holds an empty name");
    if (name.size() >= IFNAMSIZ) return bad("holds a name that is too long for an interface");
    for (const char c : name) {
      if (static_cast<unsigned char>(c) <= ' ' || c == '/' || c == '^' || c == '=')
        return bad("holds a character that no name of an interface has");
    }
    if (choice.names.size() == kMostInterfaces) return bad("holds too many names");
    choice.names.emplace_back(name);
  }
  return choice;
}

Result<std::optional<ChosenInterface>> choose_interface(const Environment& environment, int family,
                                                        const std::string& given) {
  for (const char* const variable : kInterfaceVariables) {
    // The given value has the form of the first variable.
    const auto text = given.empty() ? environment.filled(variable) : std::optional(given);
    if (!text) continue;
    auto choice = parse_interfaces(variable, *text, variable[0] == 'G');
    if (!choice) return choice.status();
    auto all = os::interfaces();
    if (!all) return all.status();
    const os::Interface* best = nullptr;
    std::size_t best_cost = 0;
    std::string known;
    for (const os::Interface& one : *all) {
      if (known.find(one.name) == std::string::npos) known += " " + one.name;
      const auto place = choice->place_of(one.name);
      if (!place || (choice->excludes && one.is_loopback)) continue;
      // The place in the list counts most, then the family, then whether others can use it at all.
      const std::size_t cost = *place * 4 + (one.address.family() == family ? 0U : 2U) +
                               (one.address.is_link_local() ? 1U : 0U);
      if (best != nullptr && best_cost <= cost) continue;
      best = &one;
      best_cost = cost;
    }
    if (best == nullptr) {
      return cannot_join(base::format(
          "{} is \"{}\", but no interface of host {} that is up matches it; there are{}", variable,
          base::shown(*text, 128), os::host_name(), known));
    }
    return std::optional(ChosenInterface{variable, *best});
  }
  return std::optional<ChosenInterface>();
}

}  // namespace tutti::rendezvous
