#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "plan/schedule.hpp"

namespace tutti::cli::explain {

/// How many hops the elements in some memory have made.
class Hops {
 public:
  void set(plan::Range range, int hops) {
    if (range.count == 0) return;
    const std::size_t end = range.first + range.count;
    split(range.first);
    split(end);
    runs_.erase(runs_.lower_bound(range.first), runs_.lower_bound(end));
    runs_[range.first] = {end, hops};
  }
  /// The most in a range; 0 if nothing was written.
  [[nodiscard]] int most(plan::Range range) const {
    const std::size_t end = range.first + range.count;
    auto run = runs_.upper_bound(range.first);
    if (run != runs_.begin()) --run;
    int most = 0;
    for (; run != runs_.end() && run->first < end; ++run) {
      if (run->second.first > range.first) most = std::max(most, run->second.second);
    }
    return most;
  }

 private:
  void split(std::size_t at) {
    auto run = runs_.upper_bound(at);
    if (run == runs_.begin()) return;
    --run;
    if (run->first == at || run->second.first <= at) return;
    const auto rest = run->second;
    run->second.first = at;
    runs_[at] = rest;
  }
  std::map<std::size_t, std::pair<std::size_t, int>> runs_;  // begin: end, hops
};

}  // namespace tutti::cli::explain
