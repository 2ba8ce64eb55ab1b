#include "members.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <vector>

namespace tutti::jax {

std::optional<std::string> problem_of(std::span<const Member> all) {
  std::map<int, std::vector<int>> keys;
  for (const Member& one : all) keys[one.color].push_back(one.key);
  for (auto& [color, places] : keys) {
    std::ranges::sort(places);
    for (std::size_t place = 0; place < places.size(); ++place) {
      if (places[place] == static_cast<int>(place)) continue;
      return "the processes of the JAX job make communicators for sets of devices that do not fit "
             "together (the set of device " +
             std::to_string(color) +
             "). tutti.jax needs one CPU device per process (unset jax_num_cpu_devices and "
             "--xla_force_host_platform_device_count), and the same computations in the same order "
             "on all processes";
    }
  }
  return std::nullopt;
}

std::string text_of_absence(double seconds, const std::string& told) {
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", seconds);
  std::string text = "not all processes came to the first computation on a set of devices within ";
  text += limit;
  text +=
      " s (TUTTI_JAX_SPLIT_TIMEOUT). All processes of the JAX job must take part in it: a "
      "computation on devices of some of them only is not possible, and a process that comes later "
      "needs a longer limit. ";
  return text + told;
}

}  // namespace tutti::jax
