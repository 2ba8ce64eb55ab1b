#include "apps/tutti/explain_html.hpp"

#include <algorithm>
#include <vector>

#include "apps/bench/plot.hpp"
#include "apps/tutti/explain_picture.hpp"
#include "apps/tutti/explain_words.hpp"
#include "base/format.hpp"
#include "base/index.hpp"

namespace tutti::cli::explain {
namespace {

/// More make a page slow.
constexpr std::size_t kMostRows = 4000;

constexpr std::string_view kPageStyle = R"(
:root { --ink: #1c2024; --soft: #59636e; --grid: #e3e7eb; --paper: #ffffff; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #a7b1bb; --grid: #333b43; --paper: #16191d; }
}
body { margin: 2rem auto; max-width: 90rem; padding: 0 1.5rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.2rem; }
dt { color: var(--soft); }
dd { margin: 0; white-space: pre-wrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.2rem 0.9rem 0.2rem 0; white-space: nowrap;
  border-bottom: 1px solid var(--grid); }
th { color: var(--soft); }
.n { text-align: right; }
)";

/// A table; columns whose name begins with a blank hold numbers.
class Table {
 public:
  explicit Table(const std::vector<std::string>& names) {
    text_ = "<div class='scroll'><table><thead><tr>";
    for (const std::string& name : names) {
      numbers_.push_back(name.starts_with(' '));
      text_ +=
          base::format("<th{}>{}</th>", numbers_.back() ? " class='n'" : "", bench::escaped(name));
    }
    text_ += "</tr></thead><tbody>\n";
  }
  void row(const std::vector<std::string>& cells) {
    text_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      text_ +=
          base::format("<td{}>{}</td>", numbers_[i] ? " class='n'" : "", bench::escaped(cells[i]));
    text_ += "</tr>\n";
  }
  [[nodiscard]] std::string take() { return std::move(text_) + "</tbody></table></div>\n"; }

 private:
  std::vector<bool> numbers_;
  std::string text_;
};

std::string space_text(const Transfer& t) {
  if (t.how == How::line || t.how == How::counter) return "";
  switch (t.lands) {
    case plan::Space::output: return "its output";
    case plan::Space::stage: return "its staging";
    case plan::Space::scratch: return "its scratch";
    case plan::Space::input: break;
  }
  return "";
}

std::string moves(const Explanation& e) {
  std::vector<Arrow> rows = arrows_of(e.flow, false);
  const std::size_t all = rows.size();
  std::string note;
  if (all > kMostRows) {
    rows = arrows_of(e.flow, true);
    note =
        base::format("<p>{}: those of one piece that differ in the chunk only are one row.</p>\n",
                     counted(all, "move"));
  }
  if (rows.size() > kMostRows) {
    note = base::format("<p>{}: the table shows the first {}.</p>\n", counted(all, "move"),
                        number_text(kMostRows));
    rows.resize(kMostRows);
  }
  Table table({" round", " from rank", " to rank", "how", "what", " bytes", "into"});
  for (const Arrow& row : rows)
    table.row({base::format("{}", row.first.round), base::format("{}", row.first.from),
               base::format("{}", row.first.to), how_text(row.first.how), piece_text(row, e.flow),
               number_text(row.bytes), space_text(row.first)});
  return note + table.take();
}

std::string rounds(const Explanation& e) {
  Table table({" round", " moves", " bytes"});
  for (int round = 1; round <= e.flow.rounds; ++round) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (const Transfer& t : e.flow.transfers) {
      if (t.round != round) continue;
      ++count;
      bytes += t.bytes;
    }
    table.row({base::format("{}", round), number_text(count), number_text(bytes)});
  }
  return table.take();
}

std::string ranks(const Explanation& e) {
  Table table({" rank", " host", " messages", " bytes sent", " bytes staged",
               " bytes read of others", " lines awaited"});
  for (int r = 0; r < e.topology.size(); ++r) {
    const RankTotals& t = base::at(e.flow.ranks, r);
    table.row({base::format("{}", r), base::format("{}", base::at(e.topology.host_of, r)),
               number_text(t.messages), number_text(t.sent), number_text(t.staged),
               number_text(t.read), number_text(t.lines)});
  }
  return table.take();
}

}  // namespace

std::string html_of(const Explanation& e) {
  const std::string title = bench::escaped(title_of(e));
  std::string html = base::format(
      "<!DOCTYPE html>\n<html lang='en'>\n<head><meta charset='utf-8'/>"
      "<meta name='viewport' content='width=device-width'/><title>{0}</title>\n<style>{1}</style>"
      "</head>\n<body>\n<h1>{0}</h1>\n<dl>\n",
      title, kPageStyle);
  for (const Fact& fact : facts_of(e)) {
    html += base::format("<dt>{}</dt><dd>", bench::escaped(fact.name));
    for (const std::string& line : fact.lines)
      html += base::format("{}{}", &line == fact.lines.data() ? "" : "\n", bench::escaped(line));
    html += "</dd>\n";
  }
  html += "</dl>\n";
  const std::string picture = picture_of(e);
  if (picture.empty()) {
    html += base::format(
        "<h2>Rounds</h2>\n<p>There is no picture: {} and {} are too many for one. The tables have "
        "sums.</p>\n",
        counted(base::as_size(e.topology.size()), "rank"),
        counted(e.flow.transfers.size(), "move"));
    html += rounds(e);
  } else {
    html += "<h2>Round by round</h2>\n<div class='scroll'>\n" + picture + "</div>\n";
  }
  html += "<h2>Ranks</h2>\n" + ranks(e);
  html += "<h2>All that moves between ranks</h2>\n" + moves(e);
  return html + "</body>\n</html>\n";
}

}  // namespace tutti::cli::explain
