#include "os/descriptors.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace tutti::os {

std::optional<std::size_t> free_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  std::error_code none;
  const std::filesystem::directory_iterator open("/proc/self/fd", none);
  if (none) return std::nullopt;
  // One of them is that of looking there.
  const auto used = static_cast<std::size_t>(std::distance(begin(open), end(open))) - 1;
  return static_cast<std::size_t>(limit.rlim_cur) - std::min<std::size_t>(used, limit.rlim_cur);
}

rlimit raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {RLIM_INFINITY, RLIM_INFINITY};
  const rlimit most{limit.rlim_max, limit.rlim_max};
  (void)setrlimit(RLIMIT_NOFILE, &most);  // what was allowed before stays so
  return limit;
}

}  // namespace tutti::os
