#include "apps/bench/figures.hpp"

#include <algorithm>

#include "apps/bench/statistics.hpp"

namespace tutti::bench {

std::optional<Figures> figures_of(const Point& point, const Series& series) {
  if (series.means.empty()) return std::nullopt;
  Figures figures;
  figures.avg = median(series.means);
  figures.min = median(series.fastest);
  figures.max = median(series.slowest);
  if (!series.calls.empty()) {
    figures.p50 = quantile(series.calls, 0.5);
    figures.p99 = quantile(series.calls, 0.99);
  }
  const double calls = static_cast<double>(series.iterations) * point.ranks;
  figures.voluntary = mean(series.voluntary_switches) / calls;
  figures.involuntary = mean(series.involuntary_switches) / calls;
  const auto moved = bytes_moved(point.operation, point.bytes, point.ranks);
  if (moved > 0 && figures.avg > 0) figures.algbw = static_cast<double>(moved) / figures.avg;
  const auto factor = bus_factor(point.operation, point.ranks);
  if (figures.algbw && factor) figures.busbw = *figures.algbw * *factor;
  return figures;
}

std::uint64_t element_count(const Point& point) { return point.bytes / sizeof(float); }

std::uint64_t bytes_moved(Operation operation, std::uint64_t bytes, int ranks) {
  if (operation == Operation::send) return 2 * bytes;
  if (operation == Operation::recv) return kSendWindow * bytes;
  return bytes * std::max(input_blocks(operation, ranks), output_blocks(operation, ranks));
}

std::optional<double> bus_factor(Operation operation, int ranks) {
  const double n = ranks;
  const KindTraits& traits = traits_of(operation);
  if (traits.layout == Layout::none || traits.prefix) return std::nullopt;
  if (!in_place(operation)) return (n - 1) / n;
  return traits.reduces && !traits.rooted ? 2 * (n - 1) / n : 1;
}

}  // namespace tutti::bench
