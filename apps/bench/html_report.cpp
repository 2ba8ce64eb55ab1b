#include "apps/bench/html_report.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "apps/bench/figures.hpp"
#include "apps/bench/plot.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/sizes.hpp"
#include "apps/bench/units.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

constexpr std::string_view kStyle = R"(
:root { --ink: #1c2024; --soft: #5c6670; --grid: #e3e7eb; --paper: #ffffff; --shade: #f5f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #9aa5b0; --grid: #333b43; --paper: #16191d; --shade: #1e2329; }
}
body { margin: 2rem auto; max-width: 78rem; padding: 0 1.5rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: 0.3rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.4rem; border-top: 1px solid var(--grid);
  padding-top: 1.2rem; }
p, li { color: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; margin: 0.3rem 0; }
.legend span { color: var(--ink); display: inline-flex; align-items: center; gap: 0.4rem; }
.legend svg { width: 14px; height: 14px; flex: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin-top: 0.6rem; }
th, td { text-align: right; padding: 0.22rem 0.8rem; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--grid); }
td { border-bottom: 1px solid var(--grid); }
tr.first td { border-top: 1px solid var(--soft); }
tr.ours td { background: var(--shade); font-weight: 600; }
th:first-child, td:first-child, td.text { text-align: left; }
td.text { white-space: normal; color: var(--soft); }
)";

using Points = std::span<const Point>;

/// The place of a library among all of the run: its colour.
int place_of(const Settings& settings, const std::string& library) {
  const auto& all = settings.libraries;
  return static_cast<int>(std::find(all.begin(), all.end(), library) - all.begin());
}

std::string figure(std::optional<double> value, double unit) {
  if (!value) return "";
  const double number = *value * unit;
  return number >= 1000 ? base::format("{:.0f}", number) : base::format("{:.3g}", number);
}

/// A curve per library that has figures at some size. `value`: none where it does not exist.
template <class Value>
std::vector<Curve> curves_of(const Settings& settings, Points points, Value value) {
  std::vector<Curve> curves;
  for (const auto& library : settings.libraries) {
    Curve curve{library, place_of(settings, library), {}};
    for (const auto& point : points) {
      const Series* series = point.of(library);
      const auto figures = series == nullptr ? std::nullopt : figures_of(point, *series);
      const auto y = figures ? value(*figures) : std::optional<double>();
      if (y && *y > 0) curve.spots.push_back({static_cast<double>(point.bytes), *y});
    }
    std::sort(curve.spots.begin(), curve.spots.end(),
              [](const auto& a, const auto& b) { return a.x < b.x; });
    if (!curve.spots.empty()) curves.push_back(std::move(curve));
  }
  return curves;
}

std::string plots(const Settings& settings, Points points) {
  if (points.front().bytes == 0) return {};  // a barrier
  const auto times = curves_of(settings, points, [](const Figures& figures) {
    return std::optional<double>(figures.avg * kMicro);
  });
  if (times.empty()) return {};
  const bool has_bus = bus_factor(points.front().operation, points.front().ranks).value_or(0) > 0;
  const auto rates = curves_of(settings, points, [&](const Figures& figures) {
    const auto rate = has_bus ? figures.busbw : figures.algbw;
    return rate ? std::optional<double>(*rate * kGiga) : rate;
  });
  std::string html = "<div class='legend'>";
  for (const auto& curve : times) {
    html += base::format(
        "<span><svg viewBox='0 0 14 14'><rect class='c{}' x='1' y='4' width='12' height='6'/></svg>"
        "{}</span>",
        curve.colour % 7, escaped(curve.name));
  }
  html += "</div>\n<div class='plots'>\n" + log_plot("Latency (avg)", "microseconds", times);
  html += log_plot(has_bus ? "Bandwidth (busbw)" : "Bandwidth (algbw)", "GB/s", rates);
  return html + "</div>\n";
}

std::string row(const Point& point, const Series& series) {
  std::string classes = &series == point.series.data() ? "first" : "";
  if (is_ours(series.name) && point.series.size() > 1) classes += " ours";
  std::string html =
      base::format("<tr class='{}'><td>{}</td><td>{}</td><td>{}</td>", classes,
                   escaped(series.name), size_text(point.bytes), element_count(point));
  const auto figures = figures_of(point, series);
  if (!figures) {
    const std::string why = series.failure.empty() ? "not measured" : series.failure;
    return html + base::format("<td class='text' colspan='10'>{}</td></tr>\n", escaped(why));
  }
  for (const std::optional<double> time :
       {std::optional(figures->avg), std::optional(figures->min), std::optional(figures->max),
        figures->p50, figures->p99}) {
    html += base::format("<td>{}</td>", figure(time, kMicro));
  }
  const auto ratio = is_ours(series.name) ? point.ratio(series.name) : std::optional<double>();
  const std::string best = &series == point.best_peer() ? "best" : "";
  return html + base::format("<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0f} %</td></tr>\n",
                             figure(figures->algbw, kGiga), figure(figures->busbw, kGiga),
                             ratio ? figure(ratio, 1) : best, name_of(point.state()),
                             point.others * 100);
}

std::string section(const Settings& settings, Points points) {
  const Point& first = points.front();
  std::string html = base::format("<h2>{}, {} ranks</h2>\n", name_of(first.operation), first.ranks);
  html += plots(settings, points);
  html +=
      "<div class='scroll'><table><thead><tr><th>library</th><th>size</th><th>count</th>"
      "<th>avg us</th><th>min us</th><th>max us</th><th>p50 us</th><th>p99 us</th>"
      "<th>algbw GB/s</th><th>busbw GB/s</th><th>ratio</th><th>cores</th><th>others</th>"
      "</tr></thead><tbody>\n";
  for (const auto& point : points) {
    for (const auto& series : point.series) html += row(point, series);
  }
  return html + "</tbody></table></div>\n";
}

/// How many points from `begin` on are of one operation and number of ranks.
std::size_t run_of(const std::vector<Point>& points, std::size_t begin) {
  std::size_t end = begin;
  while (end < points.size() && points[end].operation == points[begin].operation &&
         points[end].ranks == points[begin].ranks) {
    ++end;
  }
  return end - begin;
}

}  // namespace

std::string to_html(const Settings& settings, const Results& results) {
  std::string html =
      "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width, initial-scale=1'>"
      "<title>tutti bench</title>\n<style>";
  html += kStyle;
  html += kPlotStyle;
  html += base::format(
      "</style></head><body>\n<h1>tutti bench</h1>\n"
      "<p>float32, mode {}, {} rounds in turns. avg, min and max: a call on average, of all ranks, "
      "of the fastest and of the slowest rank (median of the rounds). p50 and p99: single calls, "
      "the mean over the ranks. algbw is size / avg and busbw what nccl-tests make of it. ratio: "
      "ours / best peer, round by round. cores: how near two cores are to each other. others: CPU "
      "time that other processes took.</p>\n<ul>\n",
      name_of(settings.mode), settings.rounds);
  for (const auto& started : results.started) {
    html += base::format("<li>{}</li>\n", escaped(describe(started)));
  }
  html += "</ul>\n";
  const Points points(results.points);
  for (std::size_t begin = 0; begin < points.size();) {
    const std::size_t length = run_of(results.points, begin);
    html += section(settings, points.subspan(begin, length));
    begin += length;
  }
  return html + "</body></html>\n";
}

}  // namespace tutti::bench
