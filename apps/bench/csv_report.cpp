#include "apps/bench/csv_report.hpp"

#include <optional>

#include "apps/bench/figures.hpp"
#include "apps/bench/units.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

std::string number(std::optional<double> value, double unit) {
  return value ? base::format("{:.6g}", *value * unit) : "";
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

std::string to_csv(const Results& results) {
  std::string csv =
      "operation,ranks,library,size,count,avg_us,min_us,max_us,p50_us,p99_us,voluntary_switches,"
      "involuntary_switches,algbw_gb_s,"
      "busbw_gb_s,ratio,cores,others_cpu,failure\n";
  for (const auto& point : results.points) {
    for (const auto& series : point.series) {
      csv += base::format("{},{},{},{},{}", name_of(point.operation), point.ranks, series.name,
                          point.bytes, element_count(point));
      if (const auto figures = figures_of(point, series)) {
        for (const std::optional<double> time :
             {std::optional(figures->avg), std::optional(figures->min), std::optional(figures->max),
              figures->p50, figures->p99}) {
          csv += "," + number(time, kMicro);
        }
        csv += "," + number(figures->voluntary, 1) + "," + number(figures->involuntary, 1);
        csv += "," + number(figures->algbw, kGiga) + "," + number(figures->busbw, kGiga);
      } else {
        csv += ",,,,,,,,,";
      }
      const auto ratio = is_ours(series.name) ? point.ratio(series.name) : std::optional<double>();
      csv += base::format(",{},{},{:.3f},{}\n", number(ratio, 1), name_of(point.state()),
                          point.others, quoted(series.failure));
    }
  }
  return csv;
}

}  // namespace tutti::bench
