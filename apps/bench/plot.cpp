#include "apps/bench/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "apps/bench/sizes.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 340;
constexpr double kLeft = 62;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 46;
constexpr int kColours = 7;  // as many as kPlotStyle has

/// A logarithmic axis: values from `low` to `high` lie between two places of the drawing.
struct Axis {
  double low = 1;
  double high = 10;
  double begin = 0;
  double end = 1;

  [[nodiscard]] double at(double value) const {
    return begin + (end - begin) * std::log(value / low) / std::log(high / low);
  }
};

std::string value_text(double value) {
  return value >= 1000 ? base::format("{:.0f}", value) : base::format("{:.3g}", value);
}

/// 1, 2, 5, 10, 20 ...; only powers of ten where there would be too many.
std::vector<double> ticks(const Axis& axis) {
  const double decades = std::log10(axis.high / axis.low);
  const std::vector<double> steps =
      decades > 3 ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
  std::vector<double> all;
  const double slack = 1e-9;
  for (double ten = std::pow(10, std::floor(std::log10(axis.low))); ten <= axis.high * (1 + slack);
       ten *= 10) {
    for (const double step : steps) {
      const double tick = ten * step;
      if (tick >= axis.low * (1 - slack) && tick <= axis.high * (1 + slack)) all.push_back(tick);
    }
  }
  return all;
}

/// From a 1, 2 or 5 below all values to one above them.
Axis value_axis(const std::vector<Curve>& curves) {
  double low = INFINITY;
  double high = 0;
  for (const auto& curve : curves) {
    for (const auto& spot : curve.spots) {
      low = std::min(low, spot.y);
      high = std::max(high, spot.y);
    }
  }
  const auto round = [](double value, bool up) {
    const double ten = std::pow(10, std::floor(std::log10(value)));
    const double digit = value / ten;
    if (up) return ten * (digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
    return ten * (digit < 2 ? 1 : digit < 5 ? 2 : 5);
  };
  return {round(low, false), round(high, true), kHeight - kBottom, kTop};
}

/// The sizes that are named: all, or every second, third ... where they would overlap.
std::vector<double> named_sizes(const std::set<double>& sizes, const Axis& axis) {
  constexpr double kRoom = 38;
  std::vector<double> named;
  for (const double size : sizes) {
    if (named.empty() || axis.at(size) - axis.at(named.back()) >= kRoom) named.push_back(size);
  }
  return named;
}

/// A shape per colour, so that curves are told apart without it.
std::string marker(int colour, double x, double y) {
  constexpr double r = 3.6;
  switch (colour % 4) {
    case 0: return base::format("<circle cx='{:.1f}' cy='{:.1f}' r='{}'>", x, y, r);
    case 1:
      return base::format("<rect x='{:.1f}' y='{:.1f}' width='{}' height='{}'>", x - r, y - r,
                          2 * r, 2 * r);
    case 2:
      return base::format("<polygon points='{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}'>", x,
                          y - r - 1, x - r - 1, y + r, x + r + 1, y + r);
    default:
      return base::format(
          "<polygon points='{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}'>", x,
          y - r - 1, x - r - 1, y, x, y + r + 1, x + r + 1, y);
  }
}

std::string_view tag_of(int colour) {
  switch (colour % 4) {
    case 0: return "circle";
    case 1: return "rect";
    default: return "polygon";
  }
}

std::string drawn(const Curve& curve, const Axis& sizes, const Axis& values,
                  std::string_view unit) {
  std::string points;
  std::string markers;
  for (const auto& [x, y] : curve.spots) {
    const double at_x = sizes.at(x);
    const double at_y = values.at(y);
    points += base::format("{:.1f},{:.1f} ", at_x, at_y);
    markers +=
        base::format("{}<title>{}, {}: {} {}</title></{}>\n", marker(curve.colour, at_x, at_y),
                     escaped(curve.name), size_text(static_cast<std::uint64_t>(x)), value_text(y),
                     unit, tag_of(curve.colour));
  }
  return base::format("<g class='curve c{}'><polyline points='{}'/>\n{}</g>\n",
                      curve.colour % kColours, points, markers);
}

}  // namespace

const std::string_view kPlotStyle = R"(
svg { width: 100%; max-width: 620px; height: auto; }
svg text { font-size: 11px; fill: var(--soft); }
svg text.title { font-size: 13px; font-weight: 600; fill: var(--ink); }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; fill: none; }
svg .curve polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.c0 { stroke: #0072b2; fill: #0072b2; } .c1 { stroke: #d55e00; fill: #d55e00; }
.c2 { stroke: #009e73; fill: #009e73; } .c3 { stroke: #cc79a7; fill: #cc79a7; }
.c4 { stroke: #b58900; fill: #b58900; } .c5 { stroke: #56b4e9; fill: #56b4e9; }
.c6 { stroke: #7a7a7a; fill: #7a7a7a; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string log_plot(std::string_view title, std::string_view unit,
                     const std::vector<Curve>& curves) {
  std::set<double> sizes;
  for (const auto& curve : curves) {
    for (const auto& spot : curve.spots) sizes.insert(spot.x);
  }
  if (sizes.empty()) return {};
  // A single size stands in the middle.
  const double widen = sizes.size() == 1 ? 2 : 1;
  const double margin = 14;
  const Axis across{*sizes.begin() / widen, *sizes.rbegin() * widen, kLeft + margin,
                    kWidth - kRight - margin};
  const Axis up = value_axis(curves);
  std::string svg = base::format(
      "<svg viewBox='0 0 {} {}' role='img' aria-label='{}'>\n"
      "<text class='title' x='{}' y='18'>{}</text>\n",
      kWidth, kHeight, escaped(title), kLeft, escaped(title));
  for (const double tick : ticks(up)) {
    const double y = up.at(tick);
    svg += base::format(
        "<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/>"
        "<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n",
        kLeft, kWidth - kRight, y, y, kLeft - 7, y + 4, value_text(tick));
  }
  for (const double size : named_sizes(sizes, across)) {
    const double x = across.at(size);
    svg += base::format(
        "<line class='grid' x1='{:.1f}' x2='{:.1f}' y1='{}' y2='{}'/>"
        "<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n",
        x, x, kTop, kHeight - kBottom, x, kHeight - kBottom + 16,
        size_text(static_cast<std::uint64_t>(size)));
  }
  svg += base::format(
      "<rect class='axis' x='{}' y='{}' width='{}' height='{}'/>"
      "<text x='{}' y='{}' text-anchor='middle'>size in bytes</text>"
      "<text transform='translate(14 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
      kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom, (kLeft + kWidth - kRight) / 2,
      kHeight - 8, (kTop + kHeight - kBottom) / 2, unit);
  // The first curve, ours, on top.
  for (auto curve = curves.rbegin(); curve != curves.rend(); ++curve) {
    svg += drawn(*curve, across, up, unit);
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::bench
