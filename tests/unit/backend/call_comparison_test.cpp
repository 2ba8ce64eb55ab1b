#include "backend/foreign/call_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/backend/fake_ranks.hpp"

namespace tutti::foreign {
namespace {

using testing::HasSubstr;

constexpr std::string_view kAdvice =
    ". All ranks must call the same operations in the same order with the same dtype, count, root "
    "and reduce op; the group is broken, make a new one.";

Collective sum_of_floats() {
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = ReduceOp::sum;
  return call;
}

call::Extent extent(std::size_t count, DType dtype = DType::float32) {
  call::Extent extent;
  extent.dtype = dtype;
  extent.agreed = extent.count = count;
  return extent;
}

/// The blocks that a rank sends, and those that it expects.
call::Extent splits(std::vector<std::size_t> sends, std::vector<std::size_t> expects) {
  const auto ends_of = [](std::vector<std::size_t> blocks) {
    std::size_t end = 0;
    for (std::size_t& one : blocks) one = end += one;
    return blocks;
  };
  call::Extent extent;
  extent.dtype = DType::float32;
  extent.agreed = call::kSplits;
  extent.in_ends = ends_of(std::move(sends));
  extent.out_ends = ends_of(std::move(expects));
  return extent;
}

Collective all_to_all(TensorView output = {}) {
  Collective call;
  call.kind = Kind::all_to_all;
  call.output = output;
  return call;
}

class CallComparisonOf : public testing::TestWithParam<int> {
 protected:
  /// Every rank calls the first but the last rank, which calls the other. The errors of the ranks.
  std::vector<std::string> differ(const Collective& call, const call::Extent& its,
                                  const Collective& other, const call::Extent& others) {
    FakeRanks ranks({.size = size()});
    std::vector<std::uint64_t> tickets;
    for (int rank = 0; rank < size(); ++rank) {
      const bool last = rank == size() - 1;
      tickets.push_back(ranks.call(rank, last ? other : call, last ? others : its));
    }
    ranks.run();
    std::vector<std::string> texts;
    for (int rank = 0; rank < size(); ++rank) {
      const auto outcome = ranks.operations(rank).outcome(tickets[static_cast<std::size_t>(rank)]);
      texts.emplace_back(outcome ? outcome->message() : "it runs");
      EXPECT_EQ(outcome.value_or(Outcome()).code(), Errc::disagreement);
    }
    return texts;
  }
  void expect_difference(const Collective& other, const call::Extent& others,
                         const std::string& its) {
    const std::vector<std::string> texts = differ(sum_of_floats(), extent(8), other, others);
    const std::string last = "rank " + std::to_string(size() - 1) + " called " + its;
    for (int rank = 0; rank + 1 < size(); ++rank) {
      EXPECT_EQ(texts[static_cast<std::size_t>(rank)],
                "ranks disagree in group 'world': as operation 1 rank " + std::to_string(rank) +
                    " called all_reduce(SUM, float32 x 8) but " + last + std::string(kAdvice));
    }
    EXPECT_EQ(texts.back(), "ranks disagree in group 'world': as operation 1 " + last +
                                " but rank 0 called all_reduce(SUM, float32 x 8)" +
                                std::string(kAdvice));
  }
  static int size() { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Ranks, CallComparisonOf, testing::Values(2, 3, 4, 5));

TEST_P(CallComparisonOf, EqualCallsAgree) {
  FakeRanks ranks({.size = size()});
  for (int rank = 0; rank < size(); ++rank) {
    ranks.call(rank, sum_of_floats(), extent(8));
    ranks.call(rank, {}, {});
  }
  EXPECT_FALSE(ranks.operations(0).idle());
  ranks.run();
  for (int rank = 0; rank < size(); ++rank) {
    ranks.operations(rank).tidy();
    EXPECT_TRUE(ranks.operations(rank).idle());
    EXPECT_TRUE(ranks.operations(rank).healthy());
    EXPECT_EQ(ranks.comparison(rank).last(), 2);
  }
  EXPECT_EQ(ranks.begun(), 2 * size());
}

TEST_P(CallComparisonOf, EveryKindOfDifferenceIsToldOnEveryRank) {
  Collective call = sum_of_floats();
  expect_difference(call, extent(9), "all_reduce(SUM, float32 x 9)");
  expect_difference(call, extent(8, DType::int32), "all_reduce(SUM, int32 x 8)");
  call.op = ReduceOp::max;
  expect_difference(call, extent(8), "all_reduce(MAX, float32 x 8)");
  call.kind = Kind::reduce;
  call.root = 1;
  expect_difference(call, extent(8), "reduce(MAX, root 1, float32 x 8)");
  expect_difference({}, {}, "barrier()");
}

TEST_P(CallComparisonOf, ADifferenceThatNoTextShowsIsTold) {
  call::Extent other = extent(8);
  other.digest = 3;
  call::Extent uneven = other;
  uneven.digest = 5;
  Collective call;
  call.kind = Kind::all_gather;
  for (const std::string& text : differ(call, uneven, call, other))
    EXPECT_THAT(text, HasSubstr("called all_gather(float32 x 8 in uneven blocks) of other sizes"));
}

TEST_P(CallComparisonOf, AnEarlierDifferenceIsToldAsOne) {
  FakeRanks::Options options{.size = size()};
  options.configs.resize(static_cast<std::size_t>(size()));
  options.configs.back().algorithms = "all_reduce=ring";
  FakeRanks ranks(options);
  for (int rank = 0; rank < size(); ++rank) ranks.call(rank, sum_of_floats(), extent(8));
  ranks.run();
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_EQ(ranks.operations(rank).cause().message(),
              "ranks disagree in group 'world': the calls of the ranks before operation 1 "
              "all_reduce(SUM, float32 x 8) or their settings (TUTTI_ALGO) differ" +
                  std::string(kAdvice));
}

TEST_P(CallComparisonOf, OnlyTheFirstOfSeveralDifferencesIsExplained) {
  FakeRanks ranks({.size = size()});
  for (int rank = 0; rank < size(); ++rank) {  // in another order on rank 0
    ranks.call(rank, rank == 0 ? Collective() : sum_of_floats(), extent(8));
    ranks.call(rank, rank == 0 ? sum_of_floats() : Collective(), extent(8));
  }
  ranks.run();
  EXPECT_EQ(ranks.begun(), 2 * size() + size());
  EXPECT_THAT(std::string(ranks.operations(0).cause().message()),
              HasSubstr("as operation 1 rank 0 called barrier() but rank 1"));
}

TEST_P(CallComparisonOf, OneRankMayTellAllTheOthers) {
  FakeRanks ranks({.size = size(), .only_rank_0_hears = true});
  for (int rank = 0; rank < size(); ++rank)
    ranks.call(rank, sum_of_floats(), extent(rank == 1 ? 9 : 8));
  ranks.run();
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_THAT(std::string(ranks.operations(rank).cause().message()),
                HasSubstr("rank 0 called all_reduce(SUM, float32 x 8) but rank 1 called"));
}

TEST_P(CallComparisonOf, LengthsAreComparedBetweenEachPairOfRanks) {
  for (const bool at_once : {false, true}) {
    for (const bool fits : {false, true}) {
      FakeRanks ranks({.size = size(), .lengths_at_once = at_once});
      for (int rank = 0; rank < size(); ++rank) {
        std::vector<std::size_t> sends(static_cast<std::size_t>(size()));
        std::vector<std::size_t> expects(sends.size());
        for (std::size_t other = 0; other < sends.size(); ++other) {
          sends[other] = static_cast<std::size_t>(rank) + 10 * other;
          expects[other] = other + 10 * static_cast<std::size_t>(rank);
        }
        if (!fits && rank == 0) ++sends[1];
        ranks.call(rank, all_to_all(), splits(sends, expects));
      }
      ranks.run();
      EXPECT_EQ(ranks.begun(), 2 * size());
      // Only the rank that gets too much knows: its backend tells the others.
      for (int rank = 0; rank < size(); ++rank)
        EXPECT_EQ(ranks.operations(rank).healthy(), fits || rank != 1);
      if (fits) continue;
      EXPECT_EQ(ranks.operations(1).cause().code(), Errc::disagreement);
      EXPECT_EQ(ranks.operations(1).cause().message(),
                "ranks disagree in operation 1: rank 0 sends 11 elements to rank 1, which expects "
                "10. Each rank must send another as many elements as that one expects; the group "
                "is broken, make a new one.");
    }
  }
}

TEST_P(CallComparisonOf, NothingIsComparedWithAgreeOffButNewGroups) {
  FakeRanks::Options options{.size = size()};
  options.configs.resize(static_cast<std::size_t>(size()));
  for (Config& config : options.configs) config.agree = Config::Agree::off;
  FakeRanks ranks(options);
  for (int rank = 0; rank < size(); ++rank)
    ranks.call(rank, sum_of_floats(), extent(static_cast<std::size_t>(rank)));
  ranks.run();
  EXPECT_EQ(ranks.begun(), 0);
  EXPECT_TRUE(ranks.operations(0).healthy());
  Collective group;
  group.kind = Kind::new_group;
  for (int rank = 0; rank < size(); ++rank) ranks.call(rank, group);
  ranks.run();
  EXPECT_THAT(std::string(ranks.operations(0).cause().message()),
              HasSubstr("before operation 2 new_group()"));
}

TEST_P(CallComparisonOf, ARankThatDoesNotComeLeavesTheOthersToTheirTimeout) {
  using std::chrono::seconds;
  FakeRanks ranks({.size = size()});
  Collective call = sum_of_floats();
  call.timeout = seconds(2);
  std::vector<std::uint64_t> tickets;
  for (int rank = 0; rank + 1 < size(); ++rank)
    tickets.push_back(ranks.call(rank, call, extent(8)));
  ranks.run();
  for (int rank = 0; rank + 1 < size(); ++rank) {
    auto& operations = ranks.operations(rank);
    const std::uint64_t ticket = tickets[static_cast<std::size_t>(rank)];
    EXPECT_FALSE(operations.outcome(ticket));
    const FakeOperation& op = *operations.find(ticket);
    EXPECT_EQ(op.deadline, op.started + seconds(2));
    ranks.fail(rank, Outcome(Errc::timeout, "it" + op.timed_out(op.started + seconds(3))));
    EXPECT_EQ(operations.outcome(ticket)->message(), "it timed out after 3 s (timeout 2 s)");
  }
  // It comes now: the words of the others have been sent. Their backend tells it what they did.
  const std::uint64_t late = ranks.call(size() - 1, call, extent(8));
  ranks.run();
  EXPECT_TRUE(ranks.operations(size() - 1).outcome(late)->ok());
  EXPECT_EQ(ranks.operations(0).outcome(tickets[0])->code(), Errc::timeout);
}

TEST_P(CallComparisonOf, AnAbortEndsAComparisonThatRuns) {
  FakeRanks ranks({.size = size()});
  for (int rank = 0; rank + 1 < size(); ++rank) ranks.call(rank, sum_of_floats(), extent(8));
  ranks.fail(0, Outcome(Errc::aborted, "enough"));
  ranks.call(size() - 1, sum_of_floats(), extent(9));
  ranks.run();
  EXPECT_EQ(ranks.operations(0).cause().message(), "enough");
  // The others wait for the code of rank 0.
  for (int rank = 1; rank < size(); ++rank) {
    EXPECT_TRUE(ranks.operations(rank).healthy());
    EXPECT_FALSE(ranks.operations(rank).idle());
  }
}

TEST(CallComparison, ARankAloneAgreesWithItself) {
  FakeRanks ranks({.size = 1});
  const std::uint64_t ticket = ranks.call(0, sum_of_floats(), extent(8));
  ranks.run();
  EXPECT_EQ(ranks.begun(), 0);
  EXPECT_TRUE(ranks.operations(0).outcome(ticket)->ok());
}

TEST(CallComparison, LengthsAreCountedInTheCallersStructsOrInBytes) {
  const auto text_of = [](std::size_t sent) {
    FakeRanks ranks({.size = 2});
    std::byte memory[48];
    const TensorView structs = TensorView::of_structs(memory, 2, 24);
    ranks.call(0, all_to_all(structs), splits({0, sent}, {0, 0}));
    ranks.call(1, all_to_all(structs), splits({0, 0}, {48, 0}));
    ranks.run();
    return std::string(ranks.operations(1).cause().message());
  };
  EXPECT_THAT(text_of(24), HasSubstr("sends 1 elements to rank 1, which expects 2."));
  EXPECT_THAT(text_of(25), HasSubstr("sends 25 bytes to rank 1, which expects 48."));
}

TEST(CallComparison, LaterOperationsWaitForOneWhoseLengthsAreCompared) {
  FakeRanks ranks({.size = 2});
  std::vector<std::uint64_t> tickets;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.call(rank, all_to_all(), splits({1, 1}, {1, 1}));
    if (rank == 0) ranks.run();  // nothing moves
    tickets.push_back(ranks.call(rank, {}));
  }
  EXPECT_FALSE(ranks.operations(0).outcome(tickets[0]));
  ranks.run();
  EXPECT_TRUE(ranks.operations(0).outcome(tickets[0])->ok());
}

}  // namespace
}  // namespace tutti::foreign
