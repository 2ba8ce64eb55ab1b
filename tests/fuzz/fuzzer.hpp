#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string_view>

namespace tutti::fuzz {

using Fuzzer = int (*)(const std::uint8_t* data, std::size_t size);

/// All fuzzers of the program, by name.
inline std::map<std::string_view, Fuzzer>& fuzzers() {
  static std::map<std::string_view, Fuzzer> all;
  return all;
}

/// Ends the fuzzer, which keeps the input, unless the condition holds.
inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace tutti::fuzz

/// Stands before the parameters (data, size) and the body of a fuzzer, and registers it.
#define TUTTI_FUZZER(name)                                     \
  static int name(const std::uint8_t* data, std::size_t size); \
  [[maybe_unused]] static const bool name##_is_registered =    \
      tutti::fuzz::fuzzers().emplace(#name, name).second;      \
  static int name
