#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::launcher {

/// The error that a rank has ended with, as it has told it (ErrorText).
struct RankError {
  int rank = 0;
  std::string text;
};

/// The rank whose end this error is a consequence of, by its number in the job; nothing if it is
/// none.
[[nodiscard]] std::optional<int> lost_rank_of(std::string_view error);

/// The rank that this error blames, by its number in the job: one that was lost, or that others
/// have waited for until their timeout; nothing if it blames none, or several.
[[nodiscard]] std::optional<int> culprit_of(std::string_view error);

/// The host of a rank, by its number in the job, as the error tells it; empty: it does not.
[[nodiscard]] std::string host_of(std::string_view error, int rank);

/// A line for each error: "rank 1: ValueError: my bug (train.py:42)". Errors that are the same
/// stand in one line with all of their ranks. The consequences come last: "7 ranks: lost rank 1 (0,
/// 2-7)".
[[nodiscard]] std::vector<std::string> summary_of(const std::vector<RankError>& errors);

/// "rank 3", "ranks 0-2, 5": ranks in ascending order.
[[nodiscard]] std::string name_ranks(const std::vector<int>& ranks);

}  // namespace tutti::launcher
