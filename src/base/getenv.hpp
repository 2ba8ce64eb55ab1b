#pragma once

#include <cstdlib>
#include <string>

namespace tutti::base {

/// As std::getenv; empty if the variable is not set.
[[nodiscard]] inline std::string getenv(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace tutti::base
