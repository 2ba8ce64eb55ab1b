#include "apps/tutti/explain_words.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "base/format.hpp"
#include "base/index.hpp"
#include "transport/shm/layout.hpp"
#include "transport/transport.hpp"

namespace tutti::cli::explain {
namespace {

using plan::Refusal;
using plan::Rule;
using plan::Where;

using Lines = std::vector<std::string>;

std::string where_text(const Explanation& e) {
  switch (plan::where_of(e.topology, e.query.cpus)) {
    case Where::fit:
      return base::format("one host with a CPU for each rank ({} for {})",
                          counted(base::as_size(e.query.cpus), "CPU"),
                          counted(base::as_size(e.topology.size()), "rank"));
    case Where::oversubscribed:
      return base::format("one host with fewer CPUs than ranks ({} for {})",
                          counted(base::as_size(e.query.cpus), "CPU"),
                          counted(base::as_size(e.topology.size()), "rank"));
    case Where::spread: return "every rank on a host of its own";
    case Where::mixed: return "several hosts, several ranks on some";
  }
  return "";
}

std::string rule_text(const Rule& rule) {
  std::string text(rule.algorithm);
  if (rule.ranks != Rule::kAnyRanks) text += base::format(", up to {} ranks", rule.ranks);
  if (rule.bytes != Rule::kAnyBytes) text += ", up to " + bytes_text(rule.bytes);
  if (rule.ranks == Rule::kAnyRanks && rule.bytes == Rule::kAnyBytes) text += ", no limit";
  return text;
}

std::string refusal_text(Refusal refusal, const Explanation& e) {
  switch (refusal) {
    case Refusal::ranks: return base::format("no, there are {} ranks", e.topology.size());
    case Refusal::bytes: return "no, it has " + bytes_text(e.query.bytes);
    case Refusal::order: return "no, it adds in another order";
    case Refusal::cannot_run:
      return e.query.narrow ? base::format("no, it adds partial sums, and {} is rounded once",
                                           to_string(e.question.dtype))
                            : "no, it cannot run here";
    case Refusal::elsewhere:
    case Refusal::none: break;
  }
  return "taken";
}

Lines why(const Explanation& e) {
  if (e.choice.rule == nullptr) return {"TUTTI_ALGO asks for it"};
  Lines lines{base::format("place: {}", where_text(e))};
  if (e.question.apart)
    lines.push_back("TUTTI_TRANSPORT=tcp: no ranks share memory, as if each had a host of its own");
  if (has_data(e.question.kind))
    lines.push_back("size: " + bytes_text(e.query.bytes) + " of the whole operation");
  lines.push_back("rules for this operation and place, of which the first that fits is taken:");
  for (const Rule& rule : plan::rules()) {
    const Refusal refusal = plan::refusal_of(rule, e.query, e.topology);
    if (refusal == Refusal::elsewhere) continue;
    lines.push_back(base::format("  {}: {}", rule_text(rule), refusal_text(refusal, e)));
    if (&rule == e.choice.rule) break;
  }
  return lines;
}

Lines algorithm(const Explanation& e) {
  const plan::Schedule& schedule = e.schedule();
  Lines lines{std::string(schedule.algorithm)};
  if (schedule.algorithm != e.choice.algorithm)
    lines.push_back(base::format("{} is taken, whose builder makes {} for these ranks and hosts",
                                 e.choice.algorithm, schedule.algorithm));
  return lines;
}

/// "each rank 4 KiB", or "4 KiB to 12 KiB (at most rank 0)".
std::string each_text(const Flow& flow, std::size_t RankTotals::*value) {
  const auto [least, most] = std::ranges::minmax_element(flow.ranks, {}, value);
  const std::string top = bytes_text((*most).*value);
  if ((*least).*value == (*most).*value) return "each rank " + top;
  return base::format("{} to {} a rank (the most: rank {})", bytes_text((*least).*value), top,
                      most - flow.ranks.begin());
}

Lines messages(const Explanation& e) {
  std::size_t count = 0;
  std::size_t sent = 0;
  std::size_t between = 0;
  for (const Transfer& t : e.flow.transfers) {
    if (t.how != How::message) continue;
    ++count;
    sent += t.bytes;
    const bool same = base::at(e.topology.host_of, t.from) == base::at(e.topology.host_of, t.to);
    between += same ? 0 : t.bytes;
  }
  if (count == 0)
    return {e.topology.size() == 1 ? "none: there is one rank"
                                   : "none: all ranks share the memory of one host"};
  Lines lines{base::format("{} with {}; {}", counted(count, "message"), bytes_text(sent),
                           each_text(e.flow, &RankTotals::sent))};
  if (between < sent)
    lines.push_back(base::format("{} of them between hosts, {} in rings of shared memory",
                                 bytes_text(between), bytes_text(sent - between)));
  const auto longest = std::ranges::max(e.flow.transfers, {}, [](const Transfer& t) {
                         return t.how == How::message ? t.bytes : 0;
                       }).bytes;
  if (longest > transport::kMaxFramePayload)
    lines.push_back(base::format("a message of more than {} travels in frames of at most that size",
                                 bytes_text(transport::kMaxFramePayload)));
  if (e.plans.front()->forwards_output)
    lines.push_back(base::format(
        "before them tokens in {}: blocks come by way of other ranks, so the calls of all ranks "
        "are compared first",
        counted(base::as_size(
                    static_cast<int>(std::bit_width(static_cast<unsigned>(e.topology.size() - 1)))),
                "round")));
  return lines;
}

/// The use of shared memory, as the plans say.
Lines shared_memory(const Explanation& e) {
  const engine::BoundPlan& bound = *e.plans.front();
  Lines lines;
  const auto sum = [&](auto value) {
    std::size_t all = 0;
    for (const RankTotals& rank : e.flow.ranks) all += rank.*value;
    return all;
  };
  const auto [least, most] = std::ranges::minmax(e.flow.ranks, {}, &RankTotals::lines);
  if (most.lines > 0)
    lines.push_back(base::format(
        "each rank publishes an arrival line: one cache line of {} bytes with the number and the "
        "fingerprint of its call; a rank waits for {}{} of other ranks",
        sizeof(transport::shm::Arrival), least.lines == most.lines ? "" : "at most ",
        counted(most.lines, "line")));
  if (bound.inline_stage && sum(&RankTotals::staged) > 0)
    lines.push_back(base::format(
        "the data lie in the same cache line, which has room for {} bytes: a rank that finds the "
        "line has the data",
        transport::shm::kInlineBytes));
  else if (sum(&RankTotals::staged) > 0)
    lines.push_back(base::format("staging: {}; {} of other ranks' staging are read where they lie",
                                 each_text(e.flow, &RankTotals::staged),
                                 bytes_text(sum(&RankTotals::read))));
  if (bound.stage_bytes > 0 && bound.cycle > 0)
    lines.push_back(base::format(
        "a rank has slots for {} at a time, {} in all",
        counted(base::as_size(bound.cycle / std::max(bound.schedule->slots_per_chunk, 1)), "chunk"),
        bytes_text(bound.stage_bytes)));
  if (bound.stages_inputs)
    lines.push_back(
        "an input in memory of alloc() is not staged: the others read the input itself");
  if (e.flow.winner >= 0)
    lines.push_back(base::format(
        "the first rank that finds all lines and no result adds for all ranks: here rank {}, whose "
        "line comes last",
        e.flow.winner));
  if (bound.one_shot.exists())
    lines.push_back("the engine runs it in one go, without a look at single steps");
  return lines;
}

std::string shape_text(const Piece& p) {
  using Shape = plan::Slice::Shape;
  switch (p.shape) {
    case Shape::whole:
    case Shape::chunk: return "";
    case Shape::part:
    case Shape::chunk_part:
    case Shape::part_chunk: return base::format("part {}", p.part);
    case Shape::block:
    case Shape::block_chunk: return base::format("block {}", p.part);
    case Shape::blocks:
      return p.parts == 1 ? base::format("block {}", p.part)
                          : base::format("blocks {}-{}", p.part, p.part + p.parts - 1);
  }
  return "";
}

}  // namespace

std::string number_text(std::size_t number) {
  std::string digits = base::format("{}", number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024;
  if (bytes >= kKiB * kKiB && bytes % (kKiB * kKiB) == 0)
    return number_text(bytes / (kKiB * kKiB)) + " MiB";
  if (bytes >= kKiB && bytes % kKiB == 0) return number_text(bytes / kKiB) + " KiB";
  return number_text(bytes) + (bytes == 1 ? " byte" : " bytes");
}

std::string counted(std::size_t number, const std::string& name) {
  return base::format("{} {}{}", number_text(number), name, number == 1 ? "" : "s");
}

std::string list_text(const std::vector<std::int64_t>& rising) {
  std::string text;
  for (std::size_t i = 0; i < rising.size();) {
    std::size_t end = i + 1;
    while (end < rising.size() && rising[end] == rising[end - 1] + 1) ++end;
    text += base::format("{}{}", text.empty() ? "" : ", ", rising[i]);
    if (end - i > 1) text += base::format("{}{}", end - i > 2 ? "-" : ", ", rising[end - 1]);
    i = end;
  }
  return text;
}

std::vector<Arrow> arrows_of(const Flow& flow, bool merged) {
  std::vector<Arrow> arrows;
  using Key = std::tuple<int, int, int, How, Piece, plan::Space>;
  std::map<Key, std::size_t> seen;
  for (const Transfer& t : flow.transfers) {
    Piece piece = t.piece;
    piece.chunk = -1;
    const Key key(t.round, t.from, t.to, t.how, piece, t.lands);
    const auto known = seen.find(key);
    if (!merged || known == seen.end()) {
      seen[key] = arrows.size();
      arrows.push_back({t, {}, 0, 0});
    }
    Arrow& arrow = merged ? arrows[seen[key]] : arrows.back();
    if (t.piece.chunk >= 0) arrow.chunks.push_back(t.piece.chunk);
    ++arrow.count;
    arrow.bytes += t.bytes;
  }
  for (Arrow& arrow : arrows) {
    std::ranges::sort(arrow.chunks);
    const auto again = std::ranges::unique(arrow.chunks);
    arrow.chunks.erase(again.begin(), again.end());
  }
  return arrows;
}

std::string piece_text(const Arrow& arrow, const Flow& flow) {
  switch (arrow.first.how) {
    case How::line: return "arrival line";
    case How::counter: return "counter";
    default: break;
  }
  if (flow.tokens) return "token";
  std::string text = shape_text(arrow.first.piece);
  if (flow.chunks > 1 && !arrow.chunks.empty())
    text += base::format("{}{} {}", text.empty() ? "" : ", ",
                         arrow.chunks.size() == 1 ? "chunk" : "chunks", list_text(arrow.chunks));
  return text.empty() ? "everything" : text;
}

std::string piece_text(const Piece& piece, const Flow& flow) {
  Arrow arrow;
  arrow.first.piece = piece;
  if (piece.chunk >= 0) arrow.chunks.push_back(piece.chunk);
  return piece_text(arrow, flow);
}

std::string how_text(How how) {
  switch (how) {
    case How::message: return "message";
    case How::copy: return "read and copied";
    case How::add: return "read and added";
    case How::line:
    case How::counter: return "read";
  }
  return "";
}

std::string title_of(const Explanation& e) {
  const Question& q = e.question;
  std::string text(traits_of(q.kind).name);
  if (has_data(q.kind)) {
    const Layout layout = traits_of(q.kind).layout;
    text += base::format(" of {}{} ({} x {})", bytes_text(q.bytes),
                         layout == Layout::same ? "" : " a block",
                         number_text(q.bytes / size_of(q.dtype)), to_string(q.dtype));
  }
  text += base::format(" on {} of {}", counted(base::as_size(e.topology.size()), "rank"),
                       counted(base::as_size(e.topology.hosts), "host"));
  if (traits_of(q.kind).rooted) text += base::format(", root {}", q.root);
  return text;
}

std::vector<Fact> facts_of(const Explanation& e) {
  std::vector<Fact> facts{{"algorithm", algorithm(e)}, {"why", why(e)}};
  if (e.schedule().chunk_bytes > 0)
    facts.push_back(
        {"chunks",
         {base::format("{}, of at most {} each", number_text(base::as_size(e.flow.chunks)),
                       bytes_text(e.schedule().chunk_bytes))}});
  facts.push_back({"rounds", {number_text(base::as_size(e.flow.rounds))}});
  facts.push_back({"messages", messages(e)});
  if (Lines lines = shared_memory(e); !lines.empty())
    facts.push_back({"shared memory", std::move(lines)});
  return facts;
}

}  // namespace tutti::cli::explain
