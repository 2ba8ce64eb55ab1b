#pragma once

#include <string>

namespace tutti::test {

/// What the error of this class says that the call throws.
template <class Expected, class Call>
std::string text_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tutti::test
