#pragma once

#include <thread>
#include <vector>

namespace tutti::test {

/// Runs body(0), body(1), ..., each on a thread of its own, the last begun first; returns when all
/// have ended.
template <class Body>
void in_threads(int count, const Body& body) {
  std::vector<std::jthread> threads;
  while (count > 0) threads.emplace_back([&body, number = --count] { body(number); });
}

}  // namespace tutti::test
