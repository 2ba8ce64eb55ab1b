#include "base/agreed_settings.hpp"

#include <algorithm>
#include <map>

#include "base/config_words.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "base/split.hpp"

namespace tutti::base {
namespace {

constexpr std::size_t kMostTold = 800;  // bytes of TUTTI_ALGO
constexpr std::size_t kMostShown = 100;

std::map<std::string_view, std::string_view> values_of(std::string_view lines) {
  std::map<std::string_view, std::string_view> values;
  for (const std::string_view line : split(lines, '\n')) {
    const std::size_t equals = std::min(line.find('='), line.size());
    values[line.substr(0, equals)] = line.substr(std::min(equals + 1, line.size()));
  }
  return values;
}

}  // namespace

std::string agreed_settings_of(const Config& config) {
  std::string algorithms = config.algorithms;
  std::ranges::replace(algorithms, '\n', ' ');
  if (algorithms.size() > kMostTold)
    algorithms =
        base::format("{}... ({:016x})", algorithms.substr(0, kMostShown), fnv_of(algorithms));
  return base::format(
      "TUTTI_AGREE={}\nTUTTI_TRANSPORT={}\nTUTTI_ALGO={}\nTUTTI_TLS={}\nTUTTI_CUDA_IPC={}",
      at(kAgreeWords, static_cast<int>(config.agree)),
      at(kTransportWords, static_cast<int>(config.transport)), algorithms, config.tls ? 1 : 0,
      config.cuda_ipc ? "on" : "off");
}

std::string settings_that_differ(std::string_view one, int rank_of_one, std::string_view other,
                                 int rank_of_other) {
  const auto ours = values_of(one);
  const auto theirs = values_of(other);
  std::string text;
  for (const auto& [name, value] : ours) {
    const auto found = theirs.find(name);
    const std::string_view their_value = found == theirs.end() ? "" : found->second;
    if (value == their_value) continue;
    text += base::format("{}{} is '{}' on rank {} and '{}' on rank {}", text.empty() ? "" : ", ",
                         name, shown_on_line(value, kMostShown), rank_of_one,
                         shown_on_line(their_value, kMostShown), rank_of_other);
  }
  return text;
}

}  // namespace tutti::base
