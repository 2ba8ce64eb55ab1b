#include "apps/bench/build_report.hpp"

#include <array>
#include <cmath>
#include <fstream>

#include "apps/bench/sizes.hpp"
#include "apps/bench/units.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

constexpr double kPercent = 100;

const char* phrase_of(Finding finding) {
  constexpr std::array kPhrases = {"no difference", "slower", "faster"};
  return kPhrases[static_cast<std::size_t>(finding)];
}

/// Its CMAKE_BUILD_TYPE; empty if it is not a build folder.
std::string build_type(const fs::path& programs) {
  std::ifstream cache(programs.parent_path() / "CMakeCache.txt");
  constexpr std::string_view kKey = "CMAKE_BUILD_TYPE:STRING=";
  for (std::string line; std::getline(cache, line);) {
    if (line.starts_with(kKey)) return line.substr(kKey.size());
  }
  return {};
}

std::string folder_text(const fs::path& programs) {
  const std::string type = build_type(programs);
  return type.empty() ? programs.string() : base::format("{} ({})", programs.string(), type);
}

std::vector<double> seconds_of(const std::vector<Pair>& pairs, double Pair::*side) {
  std::vector<double> all;
  for (const Pair& pair : pairs) all.push_back(pair.*side);
  return all;
}

std::string cell_text(const CellPairs& cell) {
  return base::format("{:<15}{:>5} {:>6}", name_of(cell.operation), cell.ranks,
                      size_text(cell.bytes));
}

std::string ratios_text(const Verdict& verdict) {
  return base::format("{:>8.3f}{:>8.3f}{:>7.1f}%{:>7}{:>7}", verdict.ratio, verdict.control,
                      verdict.band * kPercent, verdict.slower, verdict.faster);
}

std::string finding_text(const Verdict& verdict) {
  if (verdict.finding == Finding::none) return "\n";
  return base::format("  {}\n", phrase_of(verdict.finding));
}

std::string row(const CellPairs& cell, const Verdict& verdict) {
  const auto middle = [&](double Pair::*side) {
    return median(seconds_of(cell.pairs, side)) * kMicro;
  };
  return cell_text(cell) +
         base::format("  {:<7}{:>10.3f}{:>10.3f}", name_of(state_of(cell.hops)),
                      middle(&Pair::reference), middle(&Pair::build)) +
         ratios_text(verdict) + finding_text(verdict);
}

nlohmann::json to_json(const Verdict& verdict) {
  return {{"ratio", verdict.ratio},         {"control", verdict.control},
          {"band", verdict.band},           {"slower_pairs", verdict.slower},
          {"faster_pairs", verdict.faster}, {"finding", phrase_of(verdict.finding)}};
}

std::vector<double> micros(const std::vector<Pair>& pairs, double Pair::*side) {
  std::vector<double> all = seconds_of(pairs, side);
  for (double& value : all) value *= kMicro;
  return all;
}

}  // namespace

std::string describe(const BuildSettings& settings) {
  const fs::path& programs = settings.common.programs;
  const int cells = point_count(settings.common);
  std::string text = base::format(
      "A:  {}, and once more as A'\nB:  {}, this build\n\n"
      "{} cells, {} pairs; each starts A, B and A' anew and measures them in turns, in windows of "
      "1 "
      "ms.\nA cell is beyond the noise if B is slower (or faster) than both A and A' in {} of the "
      "pairs,\nand the median of B/A is farther from 1 than three quarters of the A'/A, and than "
      "{:.0f} %.\nWith equal builds the chance of any finding is {:.0f} %.\n",
      folder_text(settings.reference), folder_text(programs), cells, settings.pairs,
      needed_pairs(settings.pairs, cells + 1), kSmallestEffect * kPercent, kFalseAlarm * kPercent);
  const std::string ours = build_type(programs);
  const std::string theirs = build_type(settings.reference);
  if (!ours.empty() && !theirs.empty() && ours != theirs) {
    text += base::format("WARNING: A is configured as {} and B as {}; compare equal build types\n",
                         theirs, ours);
  }
  return text;
}

std::string describe(const BuildSettings& settings, const Comparison& comparison) {
  const auto verdicts = comparison.verdicts();
  const Verdict overall = comparison.overall();
  std::string text = base::format(
      "A:  {}\nB:  {}\n\n{:<15}{:>5} {:>6}  {:<7}{:>10}{:>10}{:>8}{:>8}{:>8}{:>7}{:>7}\n",
      comparison.versions[0], comparison.versions[1], "operation", "ranks", "bytes", "cores",
      "A us", "B us", "B/A", "A'/A", "noise", "slower", "faster");
  std::string beyond;
  int found = 0;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const auto& cell = comparison.cells[i];
    text += row(cell, verdicts[i]);
    if (verdicts[i].finding == Finding::none) continue;
    ++found;
    beyond += base::format(
        "  {}  {} by {:.0f} ns, {:.1f} %\n", cell_text(cell), phrase_of(verdicts[i].finding),
        std::abs(verdicts[i].difference_s) * kNano, std::abs(verdicts[i].ratio - 1) * kPercent);
  }
  text += base::format("{:<55}", "geometric mean of all cells") + ratios_text(overall) +
          finding_text(overall);
  text += base::format("\nOther processes took {:.0f} % of the CPU time.\n",
                       comparison.others * kPercent);
  if (overall.finding != Finding::none) {
    text += base::format("Beyond the noise: B as a whole is {} by {:.1f} %.\n",
                         phrase_of(overall.finding), std::abs(overall.ratio - 1) * kPercent);
  }
  text += base::format("Beyond the noise: {} of {} cells{}\n{}", found, verdicts.size(),
                       found == 0 ? "." : ":", beyond);
  if (found > 0 && settings.pairs < 15) text += "Measure these cells again with --pairs 15.\n";
  return text;
}

nlohmann::json to_json(const BuildSettings& settings, const Comparison& comparison) {
  nlohmann::json json{
      {"mode", name_of(settings.common.mode)}, {"pairs", settings.pairs},
      {"needed_pairs", comparison.needed()},   {"budget_ms", settings.common.budget.count()},
      {"others_cpu", comparison.others},       {"builds", nlohmann::json::object()},
      {"cells", nlohmann::json::array()},      {"overall", to_json(comparison.overall())}};
  for (const Side side : kSides) {
    const fs::path& programs = side == Side::build ? settings.common.programs : settings.reference;
    json["builds"][name_of(side)] = {
        {"programs", programs.string()},
        {"version", comparison.versions[static_cast<std::size_t>(side)]}};
  }
  const auto verdicts = comparison.verdicts();
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const auto& cell = comparison.cells[i];
    nlohmann::json entry = to_json(verdicts[i]);
    entry["operation"] = name_of(cell.operation);
    entry["ranks"] = cell.ranks;
    entry["bytes"] = cell.bytes;
    entry["state"] = name_of(state_of(cell.hops));
    entry["iterations"] = cell.iterations;
    entry["us_per_pair"] = {{name_of(Side::reference), micros(cell.pairs, &Pair::reference)},
                            {name_of(Side::build), micros(cell.pairs, &Pair::build)},
                            {name_of(Side::control), micros(cell.pairs, &Pair::control)}};
    json["cells"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tutti::bench
