#include "apps/tutti/explain_text.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "apps/tutti/explain_words.hpp"
#include "base/format.hpp"

namespace tutti::cli::explain {
namespace {

constexpr std::size_t kMostLines = 16;  ///< of a round
constexpr int kMostRounds = 24;

constexpr std::size_t kMostNames = 8;  ///< of a line

using Arrows = std::span<const Arrow>;

/// The first ones of a list, and how many there are if that is not all.
std::string joined(const std::vector<std::string>& names, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNames; ++i) {
    if (i > 0) text += between;
    text += names[i];
  }
  if (names.size() > kMostNames) text += base::format(" ... ({} in all)", names.size());
  return text;
}

/// "part 1", or "parts 1, 2, 3" of several arrows; empty: they have too little in common.
std::string common_pieces(Arrows arrows, const Flow& flow) {
  std::vector<std::string> texts;
  for (const Arrow& arrow : arrows) texts.push_back(piece_text(arrow, flow));
  if (std::ranges::adjacent_find(texts, std::ranges::not_equal_to()) == texts.end())
    return texts.front();
  const Piece& first = arrows.front().first.piece;
  const bool alike = std::ranges::all_of(arrows, [&](const Arrow& arrow) {
    const Piece& piece = arrow.first.piece;
    return piece.shape == first.shape && piece.parts == 1 && piece.part >= 0 &&
           arrow.chunks == arrows.front().chunks;
  });
  if (!alike) return {};
  std::vector<std::string> numbers;
  for (const Arrow& arrow : arrows) numbers.push_back(base::format("{}", arrow.first.piece.part));
  const std::string text =
      (texts.front().starts_with("block") ? "blocks " : "parts ") + joined(numbers, ", ");
  const std::size_t comma = texts.front().find(',');
  return comma == std::string::npos ? text : text + texts.front().substr(comma);
}

std::string bytes_each(Arrows arrows) {
  const std::size_t bytes = arrows.front().bytes;
  if (bytes == 0) return {};
  const bool same =
      std::ranges::all_of(arrows, [&](const Arrow& arrow) { return arrow.bytes == bytes; });
  if (!same) return {};
  return base::format("; {}{}", bytes_text(bytes), arrows.size() > 1 ? " each" : "");
}

/// All that one rank sends, or reads in one way, in one round.
std::string line_of(Arrows arrows, const Flow& flow) {
  const Transfer& t = arrows.front().first;
  const bool message = t.how == How::message;
  const char* const verb = t.how == How::add    ? " adds from "
                           : t.how == How::copy ? " copies from "
                                                : " reads of ";
  std::string text =
      message ? base::format("rank {} -> ", t.from) : base::format("rank {}{}", t.to, verb);
  const std::string pieces = common_pieces(arrows, flow);
  const std::string bytes = bytes_each(arrows);
  const bool common = !pieces.empty() && (!bytes.empty() || arrows.front().bytes == 0);
  std::vector<std::string> peers;
  for (const Arrow& arrow : arrows) {
    peers.push_back(base::format("{}", message ? arrow.first.to : arrow.first.from));
    if (!common)
      peers.back() += base::format(": {}, {}", piece_text(arrow, flow), bytes_text(arrow.bytes));
  }
  text += joined(peers, common ? ", " : "; ");
  if (common) text += ": " + pieces + bytes;
  return text;
}

/// The additions of elements that have come by message; those of shared memory are in their lines.
void add_sums(const Flow& flow, int round, std::vector<std::string>& lines) {
  std::vector<std::pair<int, std::string>> texts;  // a chunk each may be one line
  for (const Sum& sum : flow.sums) {
    if (sum.round != round) continue;
    Piece piece = sum.piece;
    piece.chunk = -1;
    const std::string text =
        base::format("rank {} adds {} of {}", sum.rank, piece_text(piece, flow),
                     counted(static_cast<std::size_t>(sum.terms), "input"));
    if (std::ranges::find(texts, std::pair(sum.rank, text)) == texts.end())
      texts.emplace_back(sum.rank, text);
  }
  for (auto& [rank, text] : texts) lines.push_back(std::move(text));
}

std::vector<std::string> lines_of_round(Arrows arrows, const Flow& flow, int round) {
  std::vector<std::string> lines;
  bool all_read = true;
  for (std::size_t begin = 0; begin < arrows.size();) {
    const Transfer& t = arrows[begin].first;
    std::size_t end = begin + 1;
    const auto same = [&](const Transfer& other) {
      if (other.how != t.how) return false;
      return t.how == How::message ? other.from == t.from : other.to == t.to;
    };
    while (end < arrows.size() && same(arrows[end].first)) ++end;
    lines.push_back(line_of(arrows.subspan(begin, end - begin), flow));
    all_read = all_read && t.how != How::message;
    begin = end;
  }
  if (!all_read) add_sums(flow, round, lines);
  return lines;
}

}  // namespace

std::string text_of(const Explanation& e) {
  std::string text = title_of(e) + "\n\n";
  for (const Fact& fact : facts_of(e)) {
    std::string head = fact.name;
    for (const std::string& line : fact.lines) {
      text += base::format("{:<15}{}\n", head, line);
      head.clear();
    }
  }
  const std::vector<Arrow> arrows = arrows_of(e.flow, true);
  for (int round = 1; round <= e.flow.rounds; ++round) {
    if (round > kMostRounds) {
      text += base::format("\n... and {} rounds more; --html shows more\n",
                           e.flow.rounds - kMostRounds);
      break;
    }
    const auto own = std::ranges::equal_range(arrows, round, {},
                                              [](const Arrow& arrow) { return arrow.first.round; });
    const Arrows here(own.begin(), own.end());
    std::size_t messages = 0;
    for (const Arrow& arrow : here)
      if (arrow.first.how == How::message) messages += arrow.count;
    text += base::format("\nround {}{}\n", round,
                         messages > 0 ? ": " + counted(messages, "message") : "");
    const std::vector<std::string> lines = lines_of_round(here, e.flow, round);
    for (std::size_t i = 0; i < lines.size() && i < kMostLines; ++i)
      text += base::format("  {}\n", lines[i]);
    if (lines.size() > kMostLines)
      text += base::format("  ... and {} more like these; --html shows more\n",
                           counted(lines.size() - kMostLines, "line"));
  }
  return text;
}

}  // namespace tutti::cli::explain
