#include "apps/tutti/explain_picture.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "apps/bench/plot.hpp"
#include "apps/tutti/explain_words.hpp"
#include "base/format.hpp"
#include "base/index.hpp"

namespace tutti::cli::explain {
namespace {

constexpr std::string_view kStyle = R"(
.ex { --ink: #1c2024; --soft: #59636e; --grid: #c9d0d7; --paper: #ffffff; --shade: #f3f5f8;
  --c0: #1f6fb4; --c1: #c2410c; --c2: #15803d; --c3: #a21caf; --c4: #b91c1c; --c5: #0e7490;
  --c6: #7c3aed; --c7: #8f5a05; --c8: #be185d; --c9: #4d7c0f; --c10: #3730a3; --c11: #57534e; }
@media (prefers-color-scheme: dark) {
  .ex { --ink: #e6e9ec; --soft: #a7b1bb; --grid: #434c55; --paper: #16191d; --shade: #1e2329;
    --c0: #6db3f2; --c1: #fb923c; --c2: #4ade80; --c3: #e879f9; --c4: #f87171; --c5: #22d3ee;
    --c6: #b39dfa; --c7: #facc15; --c8: #f472b6; --c9: #a3e635; --c10: #8f9bf9; --c11: #d6d3d1; }
}
.ex text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.ex .soft { fill: var(--soft); }
.ex .bold { font-weight: 600; }
.ex .mid { text-anchor: middle; }
.ex .paper { fill: var(--paper); }
.ex .shade { fill: var(--shade); }
.ex .life { stroke: var(--grid); stroke-width: 1.5; }
.ex .box { fill: var(--shade); stroke: var(--grid); }
.ex .a { stroke: var(--c); fill: none; stroke-width: 1.6; }
.ex .h { fill: var(--c); }
.ex .read { stroke-dasharray: 6 3; }
.ex .news { stroke-dasharray: 2 3; }
.ex .pill { fill: var(--paper); stroke: var(--c, var(--soft)); stroke-width: 1.4; }
.ex .done { fill: var(--c); }
.ex text.on { fill: var(--paper); font-weight: 600; }
)";

constexpr double kLeft = 124;
constexpr double kHostGap = 30;
constexpr double kCharacter = 6.6;  // of the font, about

double width_of(const std::string& text) { return kCharacter * static_cast<double>(text.size()); }

/// The number of a colour.
std::int64_t colour_of(const Piece& piece, int from, const Explanation& e) {
  constexpr std::int64_t kColours = 12;
  if (piece.part >= 0) return piece.part % kColours;
  if (piece.chunk >= 0 && e.flow.chunks > 1) return piece.chunk % kColours;
  // All elements: of a broadcast they are the same, whichever rank sends them.
  const KindTraits& traits = traits_of(e.question.kind);
  return traits.layout == Layout::same && !traits.reduces ? 0 : from % kColours;
}

class Picture {
 public:
  explicit Picture(const Explanation& e) : e_(e), ranks_(e.topology.size()) {
    arrows_ = arrows_of(e.flow, false);
    if (arrows_.size() > kMostMessages) arrows_ = arrows_of(e.flow, true);
    labelled_ = ranks_ <= 8;
    place_columns();
  }
  [[nodiscard]] bool fits() const noexcept {
    return ranks_ <= kMostDrawnRanks && arrows_.size() <= kMostDrawnArrows;
  }

  std::string draw() {
    heads();
    if (std::ranges::any_of(e_.flow.ranks, [](const RankTotals& r) { return r.given > 0; }))
      stages();
    for (int round = 1; round <= e_.flow.rounds; ++round) draw_round(round);
    const double end = y_;
    legend();
    std::string lives;
    for (int r = 0; r < ranks_; ++r)
      lives +=
          base::format("<line class='life' x1='{0:.0f}' x2='{0:.0f}' y1='{1:.0f}' y2='{2:.0f}'/>\n",
                       x(r), top_, end);
    return base::format(
        "<svg xmlns='http://www.w3.org/2000/svg' class='ex' role='img' width='{0:.0f}' "
        "height='{1:.0f}' viewBox='0 0 {0:.0f} {1:.0f}'>\n<title>{2}</title>\n<style>{3}</style>\n"
        "<rect class='paper' width='{0:.0f}' height='{1:.0f}'/>\n{4}{5}{6}</svg>\n",
        width_, y_, bench::escaped(title_of(e_)), kStyle, bands_, lives, body_);
  }

 private:
  static constexpr std::size_t kMostMessages = 160;  ///< more are merged by chunk

  [[nodiscard]] double x(int rank) const { return base::at(columns_, rank); }

  [[nodiscard]] std::string label_of(const Arrow& arrow, bool bytes) const {
    std::string text = piece_text(arrow, e_.flow);
    if (bytes && arrow.bytes > 0) text += ", " + bytes_text(arrow.bytes);
    return text;
  }
  [[nodiscard]] std::span<const Arrow> arrows_of_round(int round) const {
    const auto own =
        std::ranges::equal_range(arrows_, round, {}, [](const Arrow& a) { return a.first.round; });
    return {own.begin(), own.end()};
  }
  [[nodiscard]] static bool same_bytes(std::span<const Arrow> arrows) {
    return std::ranges::all_of(arrows,
                               [&](const Arrow& a) { return a.bytes == arrows.front().bytes; });
  }

  /// Neighbours are as far apart as the label of an arrow between them needs.
  void place_columns() {
    double gap = labelled_ ? 104 : 66;
    for (int round = 1; labelled_ && round <= e_.flow.rounds; ++round) {
      const auto arrows = arrows_of_round(round);
      const bool bytes = !same_bytes(arrows);
      for (const Arrow& a : arrows) {
        const double steps = std::abs(a.first.from - a.first.to);
        gap = std::max(gap, (width_of(label_of(a, bytes)) + 34) / steps);
      }
    }
    if (labelled_)
      for (const Sum& sum : e_.flow.sums) gap = std::max(gap, width_of(sum_text(sum)) + 26);
    if (std::ranges::any_of(e_.flow.ranks, [](const RankTotals& r) { return r.given > 0; }))
      for (const RankTotals& r : e_.flow.ranks)
        if (labelled_) gap = std::max(gap, width_of(stage_text(r)) + 26);
    gap = std::min(gap, 240.0);
    double at = kLeft + gap / 2;
    for (int r = 0; r < ranks_; ++r) {
      if (r > 0)
        at += gap + (base::at(e_.topology.host_of, r) != base::at(e_.topology.host_of, r - 1)
                         ? kHostGap
                         : 0);
      columns_.push_back(at);
    }
    gap_ = gap;
    width_ = std::max(at + gap / 2 + 14, 560.0);
  }

  void text(double at_x, double at_y, std::string_view classes, const std::string& what) {
    body_ += base::format("<text class='{}' x='{:.0f}' y='{:.0f}'>{}</text>\n", classes, at_x, at_y,
                          bench::escaped(what));
  }
  void pill(double at_x, double at_y, const std::string& what, bool filled, std::int64_t colour) {
    const double wide = std::max(width_of(what) + 14, 18.0);
    body_ += base::format(
        "<rect class='pill{}' style='--c: var(--c{})' x='{:.0f}' y='{:.0f}' width='{:.0f}' "
        "height='18' rx='9'/>\n",
        filled ? " done" : "", colour, at_x - wide / 2, at_y - 13, wide);
    text(at_x, at_y, filled ? "mid on" : "mid", what);
  }

  void heads() {
    text(14, 24, "bold",
         base::format("{} by {}", traits_of(e_.question.kind).name, e_.schedule().algorithm));
    std::size_t messages = 0;
    for (const RankTotals& r : e_.flow.ranks) messages += r.messages;
    text(14, 42, "soft",
         base::format("{}: {}", title_of(e_),
                      messages > 0         ? counted(messages, "message")
                      : e_.flow.rounds > 0 ? "no messages, shared memory"
                                           : "nothing moves between ranks"));
    width_ = std::max(width_, 28 + width_of(title_of(e_)) + 130);
    y_ = 60;
    for (int host = 0; host < e_.topology.hosts; ++host) {
      int first = 0;
      while (base::at(e_.topology.host_of, first) != host) ++first;
      int last = first;
      while (last + 1 < ranks_ && base::at(e_.topology.host_of, last + 1) == host) ++last;
      const double pad = gap_ / 2 - 5;
      body_ += base::format(
          "<rect class='box' x='{:.0f}' y='{:.0f}' width='{:.0f}' height='44' rx='7'/>\n",
          x(first) - pad, y_, x(last) - x(first) + 2 * pad);
      text((x(first) + x(last)) / 2, y_ + 16, "mid soft", base::format("host {}", host));
    }
    for (int r = 0; r < ranks_; ++r)
      text(x(r), y_ + 35, "mid bold",
           labelled_ ? base::format("rank {}", r) : base::format("{}", r));
    top_ = y_ + 44;
    y_ = top_ + 6;
  }

  [[nodiscard]] std::string stage_text(const RankTotals& totals) const {
    return base::format("{} {}", e_.plans.front()->inline_stage ? "line:" : "stages",
                        bytes_text(totals.given));
  }
  void stages() {
    text(14, y_ + 20, "bold", "first");
    for (int r = 0; r < ranks_; ++r) {
      const RankTotals& totals = base::at(e_.flow.ranks, r);
      if (totals.given > 0) pill(x(r), y_ + 20, labelled_ ? stage_text(totals) : "s", false, 11);
    }
    y_ += 34;
  }

  [[nodiscard]] std::string sum_text(const Sum& sum) const {
    Piece piece = sum.piece;
    piece.chunk = -1;
    return "adds " + piece_text(piece, e_.flow);
  }

  void draw_round(int round) {
    const auto arrows = arrows_of_round(round);
    const double begin = y_;
    const bool bytes = arrows.empty() || !same_bytes(arrows);
    std::size_t count = 0;
    for (const Arrow& a : arrows) count += a.count;
    const bool reads = !arrows.empty() && arrows.front().first.how != How::message;
    text(14, y_ + 20, "bold", base::format("round {}", round));
    text(14, y_ + 36, "soft", counted(count, reads ? "read" : "message"));
    if (!bytes && arrows.front().bytes > 0)
      text(
          14, y_ + 52, "soft",
          base::format("{} {}", bytes_text(arrows.front().bytes), arrows.size() > 1 ? "each" : ""));
    y_ += labelled_ ? 16 : 10;
    int last = -1;
    for (const Arrow& a : arrows) {
      const int owner = a.first.how == How::message ? a.first.from : a.first.to;
      if (last >= 0 && owner != last) y_ += labelled_ ? 7 : 4;
      last = owner;
      arrow(a, bytes);
    }
    sums(round);
    y_ = std::max(y_ + 6, begin + 62);
    if (round % 2 == 1)
      bands_ +=
          base::format("<rect class='shade' x='0' y='{:.0f}' width='{:.0f}' height='{:.0f}'/>\n",
                       begin, width_, y_ - begin);
  }

  void arrow(const Arrow& a, bool bytes) {
    const Transfer& t = a.first;
    const double pitch = labelled_ ? 17 : 9;
    const double from = x(t.from);
    const double to = x(t.to);
    const double side = to > from ? 1 : -1;
    const double y = y_ + pitch / 2;
    const char* const kind = t.how == How::message                     ? ""
                             : t.how == How::add || t.how == How::copy ? " read"
                                                                       : " news";
    body_ += base::format(
        "<g class='move' style='--c: var(--c{})'><title>{} {} rank {}: {}, {}</title>"
        "<line class='a{}' x1='{:.0f}' x2='{:.0f}' y1='{:.1f}' y2='{:.1f}'/>"
        "<circle class='h' cx='{:.0f}' cy='{:.1f}' r='3'/>"
        "<path class='h' d='M{:.0f} {:.1f}l{:.0f} -4v8z'/>",
        colour_of(t.piece, t.from, e_),
        t.how == How::message ? base::format("rank {}", t.from) : base::format("rank {}", t.to),
        t.how == How::message ? "sends to"
        : t.how == How::add   ? "adds from"
                              : "reads of",
        t.how == How::message ? t.to : t.from, bench::escaped(piece_text(a, e_.flow)),
        bytes_text(a.bytes), kind, from, to - side * 8, y, y, from, y, to - side * 1, y, -side * 9);
    if (labelled_) {
      const std::string label = label_of(a, bytes);
      const double wide = width_of(label) + 4;
      const double middle = label_x(t.from, t.to);
      body_ += base::format(
          "<rect class='{}' x='{:.0f}' y='{:.1f}' width='{:.0f}' height='13'/>"
          "<text class='mid' x='{:.0f}' y='{:.1f}'>{}</text>",
          t.round % 2 == 1 ? "shade" : "paper", middle - wide / 2, y - 7, wide, middle, y + 4,
          bench::escaped(label));
    }
    body_ += "</g>\n";
    y_ += pitch;
  }

  /// The middle between two neighbouring columns, nearest to the sender: no label hides a column.
  [[nodiscard]] double label_x(int from, int to) const {
    return (x(from) + x(from < to ? from + 1 : from - 1)) / 2;
  }

  void sums(int round) {
    const auto own = std::ranges::equal_range(e_.flow.sums, round, {}, &Sum::round);
    if (own.empty()) return;
    y_ += 18;
    for (auto first = own.begin(); first != own.end();) {
      const auto end =
          std::find_if(first, own.end(), [&](const Sum& sum) { return sum.rank != first->rank; });
      // One pill for all chunks: each has as many sums as the first.
      const auto several =
          std::count_if(first, end, [&](const Sum& sum) { return sum.piece == first->piece; });
      const bool complete = std::any_of(first, end, [](const Sum& sum) { return sum.complete; });
      std::string text = sum_text(*first);
      std::set<Piece> pieces;
      for (auto sum = first; sum != end; ++sum) {
        Piece piece = sum->piece;
        piece.chunk = -1;
        pieces.insert(piece);
      }
      if (pieces.size() > 1)
        text = base::format("adds {} pieces", pieces.size());
      else if (several > 1)
        text = base::format("{} sums of {}", several, text.substr(5));
      pill(x(first->rank), y_, labelled_ ? text : "+", complete,
           colour_of(first->piece, first->rank, e_));
      first = end;
    }
    y_ += 8;
  }

  void legend() {
    y_ += 22;
    double at = 14;
    const auto entry = [&](std::string_view kind, const std::string& what) {
      body_ += base::format(
          "<g style='--c: var(--soft)'><line class='a{0}' x1='{1:.0f}' x2='{2:.0f}' y1='{3:.0f}' "
          "y2='{3:.0f}'/><circle class='h' cx='{1:.0f}' cy='{3:.0f}' r='3'/><path class='h' "
          "d='M{4:.0f} {3:.0f}l-9 -4v8z'/></g>\n",
          kind, at + 3, at + 28, y_ - 4, at + 36);
      text(at + 44, y_, "soft", what);
      at += 44 + width_of(what) + 22;
    };
    const auto has = [&](How how) {
      return std::ranges::any_of(arrows_, [&](const Arrow& a) { return a.first.how == how; });
    };
    if (has(How::message)) entry("", "message");
    if (has(How::add) || has(How::copy)) entry(" read", "is read in shared memory by");
    if (has(How::line) || has(How::counter)) entry(" news", "line or counter, read by");
    if (std::ranges::any_of(e_.flow.sums, [](const Sum& sum) { return sum.complete; })) {
      body_ += base::format(
          "<rect class='pill done' style='--c: var(--soft)' x='{:.0f}' y='{:.0f}' width='26' "
          "height='14' rx='7'/>\n",
          at, y_ - 11);
      text(at + 32, y_, "soft", "adds the complete sum");
    }
    if (!labelled_) {
      y_ += 20;
      text(14, y_, "soft",
           "s: stages its input. +: adds. Point at an arrow to see what it carries.");
    }
    y_ += 14;
  }

  const Explanation& e_;
  int ranks_;
  std::vector<Arrow> arrows_;
  bool labelled_ = true;
  std::vector<double> columns_;
  double gap_ = 0;
  double width_ = 0;
  double top_ = 0;
  double y_ = 0;
  std::string bands_;
  std::string body_;
};

}  // namespace

std::string picture_of(const Explanation& e) {
  if (e.topology.size() > kMostDrawnRanks) return {};
  Picture picture(e);
  return picture.fits() ? picture.draw() : std::string();
}

}  // namespace tutti::cli::explain
