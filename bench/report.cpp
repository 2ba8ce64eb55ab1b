#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/library.hpp"
#include "bench/sizes.hpp"

namespace tutti::bench {

namespace {

constexpr double kMicro = 1e6;
constexpr double kNano = 1e9;

/// Three digits that mean something.
std::string figure(double value) {
  if (value < 10) return fmt::format("{:.2f}", value);
  if (value < 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string cell(const Series* series) {
  if (series == nullptr) return "-";
  if (!series->failure.empty()) return "failed";
  const auto middle = series->median();
  return middle ? figure(*middle * kMicro) : "-";
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
                      {"state", name_of(point.state())},
                      {"hops_us", micros(point.hops)},
                      {"others_cpu", point.others}};
  for (const auto& series : point.series) {
    nlohmann::json entry{{"us_per_round", micros(series.seconds)},
                         {"iterations", series.iterations},
                         {"involuntary_switches", series.involuntary_switches}};
    if (const auto middle = series.median()) entry["us"] = *middle * kMicro;
    if (!series.failure.empty()) entry["failure"] = series.failure;
    json["libraries"][series.name] = std::move(entry);
  }
  if (const Series* best = point.best_peer()) json["best_peer"] = best->name;
  if (const auto ratio = point.ratio()) json["ratio"] = *ratio;
  if (const auto ratio = point.ratio(kOursUnchecked)) json["ratio_unchecked"] = *ratio;
  return json;
}

}  // namespace

Table::Table(std::vector<std::string> libraries)
    : libraries_(std::move(libraries)),
      unchecked_(std::find(libraries_.begin(), libraries_.end(), kOursUnchecked) !=
                 libraries_.end()) {}

std::string Table::head() const {
  std::string line = fmt::format("{:<15}{:>5} {:>6}  {:<7}{:>7}{:>8}", "operation", "ranks",
                                 "bytes", "cores", "hop ns", "others");
  for (const auto& library : libraries_) line += fmt::format("{:>10}", library);
  line += fmt::format("  {:<8}{:>6}", "best", "ratio");
  return line + (unchecked_ ? fmt::format("{:>17}\n", "unchecked ratio") : "\n");
}

std::string Table::row(const Point& point) const {
  const std::string hop =
      point.hops.empty() ? "-" : fmt::format("{:.0f}", median(point.hops) * kNano);
  std::string line = fmt::format(
      "{:<15}{:>5} {:>6}  {:<7}{:>7}{:>7.0f}%", bench::name_of(point.operation), point.ranks,
      size_text(point.bytes), name_of(point.state()), hop, point.others * 100);
  for (const auto& library : libraries_) line += fmt::format("{:>10}", cell(point.of(library)));
  const Series* best = point.best_peer();
  const auto text = [](std::optional<double> ratio) { return ratio ? figure(*ratio) : "-"; };
  line += fmt::format("  {:<8}{:>6}", best == nullptr ? "-" : best->name, text(point.ratio()));
  line += unchecked_ ? fmt::format("{:>17}\n", text(point.ratio(kOursUnchecked))) : "\n";
  for (const auto& series : point.series) {
    if (!series.failure.empty()) line += fmt::format("  {}\n", series.failure);
  }
  return line;
}

std::string describe(const Started& started) {
  if (!started.failure.empty()) {
    return fmt::format("{}, {} ranks: {}\n", started.name, started.ranks, started.failure);
  }
  return fmt::format("{}, {} ranks: {}{}{}\n", started.name, started.ranks, started.version,
                     started.settings.empty() ? "" : "; ", started.settings);
}

nlohmann::json to_json(const Settings& settings, const Results& results) {
  nlohmann::json json{{"mode", name_of(settings.mode)},
                      {"rounds", settings.rounds},
                      {"budget_ms", settings.budget.count()},
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
