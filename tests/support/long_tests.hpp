#pragma once

#include <cstdlib>
#include <string_view>

namespace tutti::test {

/// TUTTI_LONG_TESTS=1: tests that go over random or generated cases take many more of them.
inline bool long_tests() {
  const char* const text = std::getenv("TUTTI_LONG_TESTS");
  return text != nullptr && std::string_view(text) != "0" && std::string_view(text) != "";
}

}  // namespace tutti::test
