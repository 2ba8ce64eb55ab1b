#include "rank_errors.hpp"

#include <gmock/gmock.h>

#include <string>

using testing::ElementsAre;
using testing::IsEmpty;
using namespace tutti::launcher;

namespace {

const std::string kLost1 =
    "tutti.errors.NetworkError: group 'world', operation 12 barrier(): lost rank 1 on node-1, pid "
    "503: its process died.";

TEST(RankErrors, ConsequencesNameTheLostRank) {
  EXPECT_EQ(lost_rank_of(kLost1), 1);
  EXPECT_EQ(lost_rank_of("in group 'rows': lost rank 1 (global rank 5) on node-1"), 5);
  EXPECT_EQ(lost_rank_of("barrier(): rank 2 on node-1, pid 5 has ended, or destroyed the group, "
                         "without taking part."),
            2);
  EXPECT_EQ(lost_rank_of("rank 1 (global rank 7) on n, pid 5 left its calls by an exception"), 7);
  EXPECT_EQ(lost_rank_of("lost rank 2 of 4 (process 501 on host node-1): its process ended"), 2);
  EXPECT_EQ(lost_rank_of("rank 2 of 4 (process 501 on host node-1) was lost during init: its"), 2);
  EXPECT_EQ(lost_rank_of("ValueError: lost rank of the matrix"), std::nullopt);
  EXPECT_EQ(lost_rank_of("ValueError: my bug"), std::nullopt);
  EXPECT_EQ(lost_rank_of("RuntimeError: shard table is stale: lost rank 0 entry"), std::nullopt);
  EXPECT_EQ(lost_rank_of("RuntimeError: rank 3 has given up"), std::nullopt);
}

TEST(RankErrors, ErrorsNameTheCulprit) {
  EXPECT_EQ(culprit_of(kLost1), 1);
  const std::string timed_out =
      "TimeoutError: group 'world', operation 12 barrier() timed out after "
      "5 s (timeout 5 s): ";
  EXPECT_EQ(
      culprit_of(timed_out + "rank 2 on node-1, pid 503 is stopped; has not made this call yet "
                             "(its last one here was operation 11); waiting for rank 3."),
      2);
  EXPECT_EQ(culprit_of(timed_out + "rank 1 (global rank 5) on n, pid 7 answers nothing"), 5);
  EXPECT_EQ(culprit_of(timed_out + "no rank has sent it. See where that rank is"), std::nullopt);
  EXPECT_EQ(culprit_of("[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 5000 ms: rank 2 "
                       "(global rank 6) on node-1, pid 503, rank 3 on node-1, pid 504 have not"),
            6);
  EXPECT_EQ(culprit_of("group 'world' was aborted by node-1, pid 500, rank 4: lost the file"), 4);
  EXPECT_EQ(culprit_of("group 'rows' was aborted by node-1, pid 500, rank 1: x"), std::nullopt)
      << "that is no number in the job";
  EXPECT_EQ(culprit_of("group 'world': rank 1 on node-1, pid 502 has no memory for an operation"),
            1);
  EXPECT_EQ(culprit_of("rank 2 of 4 has not joined after 4.0 s at the store at 10.0.0.1:29500"), 2);
  EXPECT_EQ(culprit_of("ranks 1, 3 of 4 have not joined after 4.0 s at the store"), std::nullopt);
  EXPECT_EQ(
      culprit_of("ranks disagree in group 'world': as operation 12 rank 0 on n, pid 5 called"),
      std::nullopt);
  EXPECT_EQ(culprit_of("OSError: timed out (timeout 5 s): rank 3 is too slow"), std::nullopt);
  EXPECT_EQ(culprit_of("the group of rank 3 has not joined us"), std::nullopt);
}

TEST(RankErrors, ErrorsNameTheHost) {
  EXPECT_EQ(host_of(kLost1, 1), "node-1");
  EXPECT_EQ(host_of(kLost1, 2), "");
  EXPECT_EQ(host_of("rank 1 (global rank 5) on n, pid 7, rank 1 on host.b, pid 8", 1), "host.b");
  EXPECT_EQ(host_of("rank 1 on the way, rank 1 on", 1), "");
}

TEST(RankErrors, TheCauseStandsAboveItsConsequences) {
  EXPECT_THAT(
      summary_of({{0, kLost1}, {1, "ValueError: my bug (train.py:42)"}, {2, kLost1 + "x"}}),
      ElementsAre("rank 1: ValueError: my bug (train.py:42)", "2 ranks: lost rank 1 (0, 2)"));
}

TEST(RankErrors, WhereTheLostRankHasToldNothingTheReasonIsTold) {
  EXPECT_THAT(summary_of({{0, kLost1}}), ElementsAre("rank 0: lost rank 1: " + kLost1));
  EXPECT_THAT(summary_of({{2, kLost1 + "x"}, {0, kLost1}}),
              ElementsAre("2 ranks: lost rank 1 (0, 2): " + kLost1));
}

TEST(RankErrors, TheSameErrorIsToldOnce) {
  EXPECT_THAT(summary_of({{0, "A"}, {3, "A"}, {1, "A"}, {4, "B"}, {2, "A"}}),
              ElementsAre("ranks 0-3: A", "rank 4: B"));
  EXPECT_THAT(summary_of({}), IsEmpty());
  // With advice where torch gives none.
  const std::string unknown = "AssertionError: Unknown backend type tutti (train.py:2)";
  EXPECT_THAT(summary_of({{0, unknown}, {1, unknown}, {2, "Unknown backend type x"}}),
              ElementsAre("ranks 0, 1: " + unknown + "; import tutti.torch first",
                          "rank 2: Unknown backend type x"));
}

TEST(RankErrors, ManyErrorsAreCounted) {
  std::vector<RankError> errors;
  for (int rank = 0; rank < 20; ++rank) errors.push_back({rank, "E" + std::to_string(rank)});
  const auto lines = summary_of(errors);
  EXPECT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines.back(), "... and 12 other errors");
}

TEST(RankErrors, RanksAreNamed) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(name_ranks({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
}

}  // namespace
