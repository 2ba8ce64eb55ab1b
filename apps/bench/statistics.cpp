#include "apps/bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace tutti::bench {

namespace {

/// The distance of a ratio from 1, the same for r and 1 / r.
double distance(double ratio) { return std::max(ratio, 1 / ratio) - 1; }

/// The chance that one of three equal builds is the slowest in `least` or more of `pairs`.
double chance(int pairs, int least) {
  double sum = 0;
  for (int k = least; k <= pairs; ++k) {
    const double ways = std::lgamma(pairs + 1) - std::lgamma(k + 1) - std::lgamma(pairs - k + 1);
    sum += std::exp(ways + k * std::log(1.0 / 3) + (pairs - k) * std::log(2.0 / 3));
  }
  return sum;
}

}  // namespace

double quantile(std::vector<double> values, double part) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const double at = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double lower_quartile(std::vector<double> values) { return quantile(std::move(values), 0.25); }

int needed_pairs(int pairs, int cells) {
  int needed = pairs + 1;
  // Slower or faster: two chances.
  while (needed > 1 && 2 * chance(pairs, needed - 1) * cells <= kFalseAlarm) --needed;
  return needed;
}

int fewest_pairs(int cells) {
  int pairs = 1;
  while (needed_pairs(pairs, cells) > pairs) ++pairs;
  return pairs;
}

Verdict judge(const std::vector<Pair>& pairs, int needed) {
  Verdict verdict;
  std::vector<double> ratios;
  std::vector<double> controls;
  std::vector<double> distances;
  std::vector<double> differences;
  for (const Pair& pair : pairs) {
    ratios.push_back(pair.build / pair.reference);
    controls.push_back(pair.control / pair.reference);
    distances.push_back(distance(controls.back()));
    differences.push_back(pair.build - pair.reference);
    if (pair.build > std::max(pair.reference, pair.control)) ++verdict.slower;
    if (pair.build < std::min(pair.reference, pair.control)) ++verdict.faster;
  }
  verdict.ratio = median(ratios);
  verdict.control = median(controls);
  verdict.band = quantile(distances, 0.75);
  verdict.difference_s = median(differences);
  const bool beyond = distance(verdict.ratio) > std::max(verdict.band, kSmallestEffect);
  if (beyond && verdict.slower >= needed && verdict.ratio > 1) verdict.finding = Finding::slower;
  if (beyond && verdict.faster >= needed && verdict.ratio < 1) verdict.finding = Finding::faster;
  return verdict;
}

std::vector<Pair> geometric_means(const std::vector<std::vector<Pair>>& cells) {
  if (cells.empty()) return {};
  const auto mean = [&](std::size_t pair, double Pair::*member) {
    double sum = 0;
    for (const auto& cell : cells) sum += std::log(cell[pair].*member);
    return std::exp(sum / static_cast<double>(cells.size()));
  };
  std::vector<Pair> means;
  for (std::size_t i = 0; i < cells.front().size(); ++i) {
    means.push_back({mean(i, &Pair::reference), mean(i, &Pair::build), mean(i, &Pair::control)});
  }
  return means;
}

}  // namespace tutti::bench
