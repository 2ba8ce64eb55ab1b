#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/bench/measure.hpp"

/// Points as a run makes them, with known times.
namespace tutti::bench {

/// Three rounds, whose medians are: fastest rank `us` - 1, all ranks `us`, slowest `us` + 1; and a
/// hundred single calls of 1, 2, ... 100 us; 20 and 1 context switches in the 10 calls of a round.
inline Series measured(std::string library, double us) {
  Series one{.name = std::move(library), .seconds = {}};
  one.iterations = 10;
  for (const double round : {us, us * 9, us / 9}) {
    one.seconds.push_back((round + 1) * 1e-6);
    one.fastest.push_back((round - 1) * 1e-6);
    one.means.push_back(round * 1e-6);
    one.slowest.push_back((round + 1) * 1e-6);
    one.voluntary_switches.push_back(20);
    one.involuntary_switches.push_back(1);
  }
  for (int i = 100; i > 0; --i) one.calls.push_back(i * 1e-6);
  return one;
}

inline Series failed(std::string library, std::string why) {
  return {.name = std::move(library), .seconds = {}, .failure = std::move(why)};
}

inline Point point_of(Operation operation, int ranks, std::uint64_t bytes,
                      std::vector<Series> series) {
  return {operation, ranks, bytes, {}, 0, std::move(series)};
}

}  // namespace tutti::bench
