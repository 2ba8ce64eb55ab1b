#pragma once

#include <vector>

#include "models/checker.hpp"

namespace tutti::models {

/// A small program that runs the library's code of a protocol, and what it must never do.
struct Model {
  const char* protocol;
  const char* name;
  Options options;
  Make make;
};

[[nodiscard]] std::vector<Model> memory_models();  ///< lines, counters, rings
[[nodiscard]] std::vector<Model> sleep_models();   ///< park words, driver lock

template <class P, class... Args>
Model model(const char* protocol, const char* name, Options options, Args... args) {
  return {protocol, name, options, [=] { return std::make_unique<P>(args...); }};
}

}  // namespace tutti::models
