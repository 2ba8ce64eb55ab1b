#include "apps/bench/report.hpp"

#include <optional>
#include <utility>

#include "apps/bench/figures.hpp"
#include "apps/bench/library.hpp"
#include "apps/bench/sizes.hpp"
#include "apps/bench/units.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

/// Three digits that mean something.
std::string figure(double value) {
  if (value < 10) return base::format("{:.2f}", value);
  if (value < 100) return base::format("{:.1f}", value);
  return base::format("{:.0f}", value);
}

std::string rate(std::optional<double> bytes_per_second) {
  if (!bytes_per_second) return "-";
  const double value = *bytes_per_second * kGiga;
  return value < 0.1 ? base::format("{:.4f}", value) : figure(value);
}

std::string network_name(const Settings& settings) {
  return settings.links ? settings.links->text : "veth";
}

std::string hogs_name(const Settings& settings) {
  if (settings.hogs == 0) return {};
  return base::format("{}{}", settings.hogs, settings.hogs_bound ? ",bound" : "");
}

std::vector<double> micros(const std::vector<double>& seconds) {
  std::vector<double> list;
  for (const double value : seconds) list.push_back(value * kMicro);
  return list;
}

nlohmann::json to_json(const Point& point) {
  nlohmann::json json{{"operation", bench::name_of(point.operation)},
                      {"ranks", point.ranks},
                      {"bytes", point.bytes},
                      {"count", element_count(point)},
                      {"state", name_of(point.state())},
                      {"hops_us", micros(point.hops)},
                      {"others_cpu", point.others}};
  for (const auto& series : point.series) {
    nlohmann::json entry{{"us_per_round", micros(series.seconds)},
                         {"iterations", series.iterations},
                         {"voluntary_switches", series.voluntary_switches},
                         {"involuntary_switches", series.involuntary_switches}};
    if (const auto middle = series.median()) entry["us"] = *middle * kMicro;
    if (const auto figures = figures_of(point, series)) {
      entry["avg_us"] = figures->avg * kMicro;
      entry["min_us"] = figures->min * kMicro;
      entry["max_us"] = figures->max * kMicro;
      if (figures->p50) entry["p50_us"] = *figures->p50 * kMicro;
      if (figures->p99) entry["p99_us"] = *figures->p99 * kMicro;
      if (figures->algbw) entry["algbw_gb_s"] = *figures->algbw * kGiga;
      if (figures->busbw) entry["busbw_gb_s"] = *figures->busbw * kGiga;
    }
    if (!series.failure.empty()) entry["failure"] = series.failure;
    json["libraries"][series.name] = std::move(entry);
  }
  if (const Series* best = point.best_peer()) json["best_peer"] = best->name;
  if (const auto ratio = point.ratio()) json["ratio"] = *ratio;
  if (const auto ratio = point.ratio(kOursUnchecked)) json["ratio_unchecked"] = *ratio;
  return json;
}

}  // namespace

std::string table_head(const Point& point) {
  return base::format(
      "{}, {} ranks\n{:<10}{:>6}{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}{:>7}{:>8}{:>8}{:>7}  "
      "{:<7}{:>7}{:>8}\n",
      bench::name_of(point.operation), point.ranks, "library", "size", "avg", "min", "max", "p50",
      "p99", "vcs", "ivcs", "algbw", "busbw", "ratio", "cores", "hop ns", "others");
}

std::string table_rows(const Point& point) {
  const std::string hop =
      point.hops.empty() ? "-" : base::format("{:.0f}", median(point.hops) * kNano);
  const std::string state =
      base::format("  {:<7}{:>7}{:>7.0f}%", name_of(point.state()), hop, point.others * 100);
  const Series* best = point.best_peer();
  std::string rows;
  for (const auto& series : point.series) {
    rows += base::format("{:<10}{:>6}", series.name, size_text(point.bytes));
    if (const auto figures = figures_of(point, series)) {
      std::string ratio = &series == best ? "best" : "";
      if (is_ours(series.name)) {
        if (const auto own = point.ratio(series.name)) ratio = figure(*own);
      }
      for (const std::optional<double> time :
           {std::optional(figures->avg), std::optional(figures->min), std::optional(figures->max),
            figures->p50, figures->p99}) {
        rows += base::format("{:>9}", time ? figure(*time * kMicro) : "-");
      }
      for (const double switches : {figures->voluntary, figures->involuntary})
        rows += base::format("{:>7}", switches < 0.005 ? "0" : figure(switches));
      rows += base::format("{:>8}{:>8}{:>7}", rate(figures->algbw), rate(figures->busbw), ratio);
      // They hold for the whole point.
      if (&series == point.series.data()) rows += state;
    } else {
      rows += "  " + (series.failure.empty() ? "not measured" : series.failure);
    }
    while (rows.back() == ' ') rows.pop_back();
    rows += '\n';
  }
  return rows;
}

std::string describe(const Started& started) {
  if (!started.failure.empty()) {
    return base::format("{}, {} ranks: {}\n", started.name, started.ranks, started.failure);
  }
  return base::format("{}, {} ranks: {}{}{}\n", started.name, started.ranks, started.version,
                      started.settings.empty() ? "" : "; ", started.settings);
}

std::string describe(const Settings& settings) {
  std::string text =
      base::format("mode {}, {} rounds in turns", name_of(settings.mode), settings.rounds);
  if (settings.hosts > 1)
    text += base::format(", {} hosts joined by {}", settings.hosts, network_name(settings));
  if (settings.hogs > 0)
    text += base::format(", beside processes that use a core each: {}", hogs_name(settings));
  return text;
}

nlohmann::json to_json(const Settings& settings, const Results& results) {
  nlohmann::json json{{"mode", name_of(settings.mode)},
                      {"rounds", settings.rounds},
                      {"budget_ms", settings.budget.count()},
                      {"hosts", settings.hosts},
                      {"network", settings.hosts == 1 ? "" : network_name(settings)},
                      {"hogs", hogs_name(settings)},
                      {"libraries", nlohmann::json::array()},
                      {"points", nlohmann::json::array()}};
  for (const auto& started : results.started) {
    nlohmann::json entry{{"library", started.name}, {"ranks", started.ranks}};
    if (started.failure.empty()) {
      entry["version"] = started.version;
      entry["settings"] = started.settings;
    } else {
      entry["failure"] = started.failure;
    }
    json["libraries"].push_back(std::move(entry));
  }
  for (const auto& point : results.points) json["points"].push_back(to_json(point));
  return json;
}

}  // namespace tutti::bench
