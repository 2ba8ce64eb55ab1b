#include "rendezvous/known_variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include <tutti/config.hpp>

#include "base/forks.hpp"
#include "base/library_variables.hpp"
#include "base/log.hpp"
#include "base/nearest.hpp"
#include "os/environment.hpp"
#include "os/handed_memory.hpp"
#include "rendezvous/environment.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::string_view kOurs = "TUTTI_";
// As many letters may differ in a name that does not begin like ours and is meant to be one.
constexpr std::size_t kTypo = 2;
// The shortest name of which a longer word may be meant (ALGORITHM: ALGO).
constexpr std::size_t kLeastBeginning = 4;

/// No name whose beginning differs by more is within kTypo letters of one of ours: leaves most of
/// an environment out at little cost.
bool may_be_ours(std::string_view name) {
  return base::edit_distance(name.substr(0, kOurs.size()), kOurs) <= 2 * kTypo;
}

/// The variable that a similar name is meant to be. The common prefix makes none more similar.
std::optional<std::string> meant_by(std::string_view name, std::span<const std::string> known) {
  const std::string_view word = name.substr(kOurs.size());
  std::vector<std::string> words;
  for (const std::string& one : known) words.push_back(one.substr(kOurs.size()));
  std::optional<std::string> found = base::nearest(word, words);
  const auto is_near = [&](const std::string& one) {
    return one.starts_with(word) ||
           base::edit_distance(word, one) <= std::max<std::size_t>(1, word.size() / 3);
  };
  if (found && !is_near(*found)) found.reset();
  for (const std::string& one : words) {
    if (!found && one.size() >= kLeastBeginning && word.starts_with(one)) found = one;
  }
  if (found) found->insert(0, kOurs);
  return found;
}

}  // namespace

std::vector<std::string> setting_variables() {
  std::vector<std::string> names;
  // Config is asked, so none can be forgotten here.
  static_cast<void>(Config::from_environment([&](const char* name) {
    names.emplace_back(name);
    return nullptr;
  }));
  return names;
}

std::vector<std::string> known_variables() {
  std::vector<std::string> names = setting_variables();
  names.insert(names.end(), kRendezvousVariables.begin(), kRendezvousVariables.end());
  names.insert(names.end(), base::kLibraryVariables.begin(), base::kLibraryVariables.end());
  names.insert(names.end(), base::kIntegrationVariables.begin(), base::kIntegrationVariables.end());
  names.emplace_back(os::kRecordVariable);
  return names;
}

std::vector<StrangeVariable> strange_variables(std::span<const std::string> names) {
  const std::vector<std::string> known = known_variables();
  std::vector<StrangeVariable> strange;
  for (const std::string& name : names) {
    if (!may_be_ours(name) || std::ranges::find(known, name) != known.end()) continue;
    if (name.starts_with(kOurs)) {
      strange.push_back({name, meant_by(name, known)});
      continue;
    }
    std::optional<std::string> meant = base::nearest(name, known);
    if (meant && base::edit_distance(name, *meant) <= kTypo)
      strange.push_back({name, std::move(meant)});
  }
  return strange;
}

void warn_of_misspelt_variables() {
  struct Told {
    base::ForkMutex mutex;
    std::set<std::string> names;
  };
  static auto* const told = new Told;  // never destroyed: used as long as there are threads
  std::vector<std::string> names;
  for (const auto& [name, value] : os::environment()) names.push_back(name);
  for (const StrangeVariable& one : strange_variables(names)) {
    if (!one.meant) continue;
    {
      const std::lock_guard lock(told->mutex);
      if (!told->names.insert(one.name).second) continue;
    }
    base::log(base::Level::warning, one.name + " is set and means nothing; did you mean " +
                                        *one.meant + "? `tutti doctor` looks at all settings");
  }
}

}  // namespace tutti::rendezvous
