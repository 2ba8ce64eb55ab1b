#include "rank_errors.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <utility>

#include "base/format.hpp"

namespace tutti::launcher {
namespace {

// A screen is no help if the cause is not on it.
constexpr std::size_t kMostLines = 8;

std::optional<int> number_at(std::string_view text, std::size_t at) {
  int number = 0;
  if (at > text.size()) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// True of "rank 2 on node-1, pid 503" and "rank 2 of 4 (process 503 on host node-1)".
bool names_process(std::string_view rank) {
  return rank.find(", pid ") != std::string_view::npos ||
         rank.find(" (process ") != std::string_view::npos;
}

/// "0-2, 5"
std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += base::format("{}{}", last > i + 1 ? "-" : ", ", ranks[last]);
    i = last + 1;
  }
  return text;
}

constexpr std::string_view kRank = "rank ";

struct NamedRank {
  std::optional<int> number;  ///< in the job
  std::string_view behind;    ///< the text behind it
};

/// The rank whose number stands at `at`: "1", "1 (global rank 5)".
NamedRank rank_at(std::string_view error, std::size_t at) {
  constexpr std::string_view kGlobal = " (global rank ";
  std::string_view behind = error.substr(std::min(at, error.size()));
  behind.remove_prefix(std::min(behind.size(), behind.find_first_not_of("0123456789")));
  if (behind.starts_with(kGlobal)) {
    at = error.size() - behind.size() + kGlobal.size();
    behind.remove_prefix(std::min(behind.size(), behind.find(')') + 1));
  }
  return {number_at(error, at), behind};
}

/// The rank that stands before this phrase.
std::optional<int> rank_before(std::string_view error, std::string_view phrase) {
  const std::size_t end = error.find(phrase);
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t at = error.rfind(kRank, end);
  if (at == std::string_view::npos || !names_process(error.substr(at, end - at)))
    return std::nullopt;
  return number_at(error, at + kRank.size());
}

/// Advice on an error of torch's that has none; else empty.
std::string_view advice_for(std::string_view error) noexcept {
  const bool unregistered = error.find("Unknown backend type tutti") != std::string_view::npos;
  return unregistered ? "; import tutti.torch first" : "";
}

}  // namespace

std::optional<int> lost_rank_of(std::string_view error) {
  // As the library tells it (docs/reference/errors.md). Programs have ranks and losses of their
  // own, so where the process was is part of it.
  constexpr std::string_view kLost = "lost rank ";
  if (const std::size_t at = error.find(kLost); at != std::string_view::npos) {
    const bool in_group = error.substr(0, at).find("group '") != std::string_view::npos;
    const NamedRank lost = rank_at(error, at + kLost.size());
    if ((in_group && lost.behind.starts_with(" on ")) ||
        names_process(lost.behind.substr(0, lost.behind.find(':'))))
      return lost.number;
  }
  // Each behind the rank.
  constexpr std::array<std::string_view, 4> kPhrases = {"has ended, or destroyed the group",
                                                        "left its calls by an exception",
                                                        "was lost during init", "has given up"};
  for (const std::string_view phrase : kPhrases)
    if (const auto rank = rank_before(error, phrase)) return rank;
  return std::nullopt;
}

std::optional<int> culprit_of(std::string_view error) {
  if (const auto lost = lost_rank_of(error)) return lost;
  if (const auto rank = rank_before(error, "has no memory for an operation")) return rank;
  // Behind the colon that follows; for an abort behind the process.
  constexpr std::array<std::array<std::string_view, 2>, 3> kPhrases = {
      {{" (timeout ", "): "},
       {"failed to pass monitoredBarrier in ", ": "},
       {"group 'world' was aborted by ", ", "}}};
  for (const auto& [phrase, before] : kPhrases) {
    std::size_t at = error.find(phrase);
    if (at != std::string_view::npos) at = error.find(before, at + phrase.size());
    if (at == std::string_view::npos) continue;
    std::string_view named = error.substr(at + before.size());
    constexpr std::string_view kPid = "pid ";
    const bool aborted = named.starts_with(kPid);
    if (aborted) named.remove_prefix(std::min(named.size(), named.find(kRank)));
    if (!named.starts_with(kRank)) continue;
    const NamedRank rank = rank_at(named, kRank.size());
    if (aborted || names_process(rank.behind.substr(0, rank.behind.find(';')))) return rank.number;
  }
  // Init tells all that are missing; one of several is not the cause.
  constexpr std::string_view kMissing = " has not joined ";
  const std::size_t end = error.find(kMissing);
  const std::size_t at = error.substr(0, end).rfind(kRank);
  if (end == std::string_view::npos || at == std::string_view::npos) return std::nullopt;
  const NamedRank rank = rank_at(error, at + kRank.size());
  return rank.behind.starts_with(" of ") ? rank.number : std::nullopt;
}

std::string host_of(std::string_view error, int rank) {
  constexpr std::string_view kOn = " on ";
  for (std::size_t at = error.find(kRank); at != std::string_view::npos;
       at = error.find(kRank, at + 1)) {
    const NamedRank named = rank_at(error, at + kRank.size());
    if (named.number != rank || !named.behind.starts_with(kOn)) continue;
    const std::string_view behind = named.behind.substr(kOn.size());
    const std::size_t end = behind.find(", pid ");
    if (end < behind.find_first_of(" :;")) return std::string(behind.substr(0, end));
  }
  return {};
}

std::string name_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list(ranks);
}

std::vector<std::string> summary_of(const std::vector<RankError>& errors) {
  std::vector<std::pair<std::string, std::vector<int>>> causes;
  std::map<int, std::map<int, std::string>> consequences;  // by the rank that was lost
  for (const RankError& error : errors) {
    const std::optional<int> lost = lost_rank_of(error.text);
    if (lost && *lost != error.rank) {
      consequences[*lost].emplace(error.rank, error.text);
      continue;
    }
    const auto same =
        std::ranges::find(causes, error.text, [](const auto& one) { return one.first; });
    if (same == causes.end())
      causes.emplace_back(error.text, std::vector{error.rank});
    else
      same->second.push_back(error.rank);
  }
  std::vector<std::string> lines;
  for (auto& [text, ranks] : causes) {
    if (lines.size() == kMostLines) {
      lines.push_back(base::format("... and {} other errors", causes.size() - kMostLines));
      break;
    }
    std::ranges::sort(ranks);
    lines.push_back(base::format("{}: {}{}", name_ranks(ranks), text, advice_for(text)));
  }
  for (const auto& [lost, told] : consequences) {
    std::vector<int> ranks;
    for (const auto& [rank, text] : told) ranks.push_back(rank);
    std::string line =
        ranks.size() == 1
            ? base::format("rank {}: lost rank {}", ranks.front(), lost)
            : base::format("{} ranks: lost rank {} ({})", ranks.size(), lost, list(ranks));
    // Where the lost rank has told nothing, this is all that is known.
    if (std::ranges::find(errors, lost, &RankError::rank) == errors.end())
      line += ": " + told.begin()->second;
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tutti::launcher
