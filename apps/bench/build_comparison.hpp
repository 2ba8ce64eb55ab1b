#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/bench/measure.hpp"
#include "apps/bench/statistics.hpp"

/// Two builds of ours, measured in turns: is one of them slower?
namespace tutti::bench {

/// A and Control are two starts of the same build.
enum class Side { reference, build, control };
inline constexpr std::array<Side, 3> kSides{Side::reference, Side::build, Side::control};

/// A, B, A'
const char* name_of(Side side);

struct BuildSettings {
  Settings common;  ///< `programs` is the build that is judged; no libraries, no rounds
  std::filesystem::path reference;  ///< folder of the programs of the other one
  int pairs = 11;
};

/// The measurements of one point.
struct CellPairs {
  Operation operation = Operation::all_reduce;
  int ranks = 0;
  std::uint64_t bytes = 0;
  std::vector<double> hops;  ///< seconds, one per pair
  std::vector<Pair> pairs;
  std::uint64_t iterations = 0;  ///< of one window
};

struct Comparison {
  std::array<std::string, 3> versions;  ///< as the workers of each side call themselves
  std::vector<CellPairs> cells;
  double others = 0;  ///< part of the CPU time, 0 to 1, that processes of others took

  [[nodiscard]] std::vector<Verdict> verdicts() const;
  /// Of the geometric means over all cells.
  [[nodiscard]] Verdict overall() const;
  [[nodiscard]] int needed() const;
  /// Each cell is one question, and all of them together are one more.
  [[nodiscard]] int questions() const { return static_cast<int>(cells.size()) + 1; }
};

/// Each pair starts all three sides anew. Within a pair each point is measured in short windows
/// that take turns. Throws JobError if a side fails; `on_pair` is told the number of each pair.
Comparison compare_builds(const BuildSettings& settings, const std::function<void(int)>& on_pair);

}  // namespace tutti::bench
