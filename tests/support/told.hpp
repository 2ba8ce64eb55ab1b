#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <tutti/error.hpp>

namespace tutti::test {

/// What an error says; no culprit: -1.
struct Told {
  std::string text;
  int culprit = -1;
  Errc code = Errc::ok;
};

/// What the error says that a call must end with. Another error goes on to the caller.
template <class E>
Told told(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return {error.what(), error.culprit().value_or(-1), error.code()};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace tutti::test
