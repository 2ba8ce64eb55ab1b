#pragma once

#include <vector>

/// Computes results from the times of a run; no clock, no process.
namespace tutti::bench {

/// The value below which `part` of the values lie, between two of them in proportion. NaN of
/// nothing.
double quantile(std::vector<double> values, double part);

/// NaN of nothing.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

/// The value at the lower quarter: what calls take when nobody disturbs them.
double lower_quartile(std::vector<double> values);

/// The times of one pair at one cell, in seconds per call. `reference` and `control` are two
/// starts of the same build, `build` is the one that is judged.
struct Pair {
  double reference = 0;
  double build = 0;
  double control = 0;
};

enum class Finding { none, slower, faster };

struct Verdict {
  double ratio = 1;         ///< median of build / reference
  double control = 1;       ///< median of control / reference
  double band = 0;          ///< three quarters of control / reference are nearer to 1 than this
  int slower = 0;           ///< pairs in which the build was slower than both others
  int faster = 0;           ///< pairs in which it was faster than both
  double difference_s = 0;  ///< median of build - reference
  Finding finding = Finding::none;
};

/// Nearer to 1 than this is never a finding.
constexpr double kSmallestEffect = 0.01;

/// The chance of any finding between two equal builds, over all cells of a run.
constexpr double kFalseAlarm = 0.01;

/// In how many of `pairs` a build must be the slowest of the three (or the fastest) for a finding.
/// If the builds are equal, each of the three is the slowest in a third of the pairs, so the number
/// is binomial. More than `pairs` if so few pairs can prove nothing.
int needed_pairs(int pairs, int cells);

/// The fewest pairs that can prove anything about so many cells.
int fewest_pairs(int cells);

/// A finding: slowest (or fastest) in `needed` pairs, and a ratio beyond both the band and
/// kSmallestEffect.
Verdict judge(const std::vector<Pair>& pairs, int needed);

/// The geometric means over all cells, pair by pair. Cells hold equally many pairs.
std::vector<Pair> geometric_means(const std::vector<std::vector<Pair>>& cells);

}  // namespace tutti::bench
