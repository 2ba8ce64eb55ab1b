#include "engine/failure_propagation.hpp"

#include <map>

#include "bare_groups.hpp"

// How a break goes from rank to rank, without engines: ranks 0 to 2 share a host, 3 is on another.
namespace tutti::engine {
namespace {

constexpr std::uint64_t kTested = 7;
constexpr int kWorldSize = 4;

/// One rank, and what its engine would be asked to do.
class TestedRank final : private ControlChannel, private FailurePropagation::Operations {
 public:
  struct Sent {
    int peer = 0;
    transport::FrameHeader header;
    std::string payload;
  };

  TestedRank(verify::sim::Memory& memory, int rank)
      : groups(memory, rank, kWorldSize),
        propagation(*groups.world().regions, groups.by_id(), kWorldSize, *this, *this) {}

  /// All that `other` has sent to this rank arrives.
  void receive(TestedRank& other, int self) {
    for (const Sent& one : other.sent) {
      if (one.peer != self) continue;
      const auto found = groups.by_id().find(one.header.group);
      propagation.on_abort(found == groups.by_id().end() ? nullptr : found->second,
                           transport::decode<transport::AbortFrame>(one.header),
                           std::as_bytes(std::span(one.payload)));
    }
  }
  [[nodiscard]] Group& group(std::uint64_t id = kTested) { return *groups.by_id().at(id); }

  BareGroups groups;
  FailurePropagation propagation;
  std::vector<Sent> sent;
  std::vector<std::uint64_t> ended;  ///< groups whose operations were ended
  bool has_memory = true;
  std::map<int, int> to_take_in;  ///< by rank: how often something has come

 private:
  void control(int peer, const transport::FrameHeader& header, std::string payload) override {
    if (!has_memory) throw std::bad_alloc();
    sent.push_back({peer, header, std::move(payload)});
  }
  [[nodiscard]] bool has_left(int /*peer*/) const noexcept override { return false; }
  bool take_in(int peer) override { return to_take_in.contains(peer) && to_take_in[peer]-- > 0; }
  void end_all(Group& group) noexcept override {
    EXPECT_TRUE(group.broken) << "whoever looks sees why";
    ended.push_back(group.id);
  }
};

class FailurePropagationTest : public BareGroupsTest {
 protected:
  FailurePropagationTest() {
    for (int rank = 0; rank < kWorldSize; ++rank)
      ranks_.push_back(std::make_unique<TestedRank>(memory_, rank));
  }
  void make(std::uint64_t id = kTested) {
    for (const auto& rank : ranks_) rank->groups.make(id);
  }
  TestedRank& rank(int which) { return *ranks_[static_cast<std::size_t>(which)]; }
  static Outcome late() { return Outcome(Errc::timeout, "rank 2 did not come").with_culprit(2); }
  static void expect(const Group& group, const Outcome& cause) {
    ASSERT_TRUE(group.broken);
    EXPECT_EQ(group.cause.code(), cause.code());
    EXPECT_EQ(group.cause.message(), cause.message());
    EXPECT_EQ(group.cause.culprit(), cause.culprit());
  }

  verify::sim::Memory memory_{{0, 0, 0, 1}};
  std::vector<std::unique_ptr<TestedRank>> ranks_;
};

TEST_F(FailurePropagationTest, ReachesTheRanksOfThisHostAndOfOthers) {
  make();
  rank(0).propagation.break_group(rank(0).group(), late());
  expect(rank(0).group(), late());
  for (const int local : {1, 2}) {
    EXPECT_TRUE(rank(local).propagation.breaks_to_see());
    rank(local).propagation.check_breaks();
    EXPECT_FALSE(rank(local).propagation.breaks_to_see());
    expect(rank(local).group(), late());
  }
  rank(3).receive(rank(0), 3);
  expect(rank(3).group(), late());
  for (int which = 0; which < kWorldSize; ++which)
    EXPECT_EQ(rank(which).ended, std::vector<std::uint64_t>{kTested}) << "once, rank " << which;
}

TEST_F(FailurePropagationTest, TheFirstCauseWins) {
  make();
  rank(0).propagation.break_group(rank(0).group(), late());
  rank(1).propagation.break_group(rank(1).group(), Outcome(Errc::aborted, "enough of it"));
  expect(rank(1).group(), late());
  rank(0).propagation.break_group(rank(0).group(), Outcome(Errc::aborted, "enough of it"));
  expect(rank(0).group(), late());
}

TEST_F(FailurePropagationTest, ARankThatMakesTheGroupLaterHearsOfTheBreak) {
  for (const int early : {0, 3}) rank(early).groups.make(kTested);
  rank(0).propagation.break_group(rank(0).group(), late());
  rank(1).groups.make(kTested);
  EXPECT_FALSE(rank(1).propagation.breaks_to_see()) << "its slot was not known";
  EXPECT_TRUE(rank(1).propagation.hear_of_break(rank(1).group()));
  expect(rank(1).group(), late());
  EXPECT_FALSE(rank(3).propagation.hear_of_break(rank(3).group())) << "is on another host";
}

TEST_F(FailurePropagationTest, WhatAMemberHadSentComesBeforeItHasGivenUp) {
  for (const int which : {0, 1}) rank(which).groups.make(kTested);
  Group& group = rank(0).group();
  Member& member = group.member(1);
  rank(0).to_take_in[1] = 5;
  EXPECT_FALSE(rank(0).propagation.has_given_up(group, member));
  // release: pairs with has_closed.
  rank(1).group().block->done.value.store(kClosed, std::memory_order_release);
  EXPECT_TRUE(rank(0).propagation.has_given_up(group, member));
  EXPECT_LE(rank(0).to_take_in[1], 0);
  EXPECT_TRUE(member.given_up);
  EXPECT_FALSE(rank(0).propagation.has_given_up(group, group.member(3))) << "a pong tells it";
}

TEST_F(FailurePropagationTest, AMemberThatClosedABrokenGroupHasNotGivenUp) {
  for (const int which : {0, 1}) rank(which).groups.make(kTested);
  rank(1).propagation.break_group(rank(1).group(), late());
  rank(1).group().block->done.value.store(kClosed, std::memory_order_release);  // as above
  EXPECT_FALSE(rank(0).propagation.has_given_up(rank(0).group(), rank(0).group().member(1)));
  expect(rank(0).group(), late());
}

TEST_F(FailurePropagationTest, AnAbortMayComeBeforeTheGroupIsMade) {
  rank(0).groups.make(kTested);
  rank(0).propagation.break_group(rank(0).group(), late());
  rank(3).receive(rank(0), 3);
  rank(3).groups.make(kTested + 1);
  EXPECT_FALSE(rank(3).propagation.break_if_aborted_early(rank(3).group(kTested + 1)));
  rank(3).groups.make(kTested);
  EXPECT_TRUE(rank(3).propagation.break_if_aborted_early(rank(3).group()));
  expect(rank(3).group(), late());
}

TEST_F(FailurePropagationTest, AnAbortThatCannotBeTrueTellsNoNonsense) {
  make();
  const std::string text = "a\xffz";
  const transport::AbortFrame abort{kTested, 999, kWorldSize + 1};
  rank(3).propagation.on_abort(&rank(3).group(), abort, std::as_bytes(std::span(text)));
  const Group& group = rank(3).group();
  ASSERT_TRUE(group.broken);
  EXPECT_EQ(group.cause.code(), Errc::internal);
  EXPECT_EQ(group.cause.culprit(), std::nullopt);
  EXPECT_EQ(std::string(group.cause.message()), "a\\xffz");
}

TEST_F(FailurePropagationTest, SeveralGroupsAreShownBeforeAnyIsTold) {
  make(1);
  make(2);
  std::vector<FailurePropagation::Break> breaks;
  for (const std::uint64_t id : {1U, 2U}) breaks.push_back({&rank(0).group(id), late()});
  // Another rank has broken the second one before.
  const Outcome other(Errc::aborted, "enough of it");
  rank(1).propagation.break_group(rank(1).group(2), other);
  rank(0).propagation.break_groups(breaks);
  expect(rank(0).group(1), late());
  expect(rank(0).group(2), other);
}

TEST_F(FailurePropagationTest, WithoutMemoryOtherHostsAreToldLater) {
  make();
  rank(0).has_memory = false;
  rank(0).propagation.break_group(rank(0).group(), late());
  expect(rank(0).group(), late());
  rank(1).propagation.check_breaks();
  expect(rank(1).group(), late());
  EXPECT_TRUE(rank(0).propagation.untold());
  rank(0).propagation.tell_the_rest();
  EXPECT_TRUE(rank(0).propagation.untold()) << "there is none yet";
  rank(0).has_memory = true;
  rank(0).propagation.tell_the_rest();
  EXPECT_FALSE(rank(0).propagation.untold());
  rank(3).receive(rank(0), 3);
  expect(rank(3).group(), late());
}

TEST_F(FailurePropagationTest, ARankWithoutMemoryBlamesItselfUnlessAnotherWasFirst) {
  make(1);
  make(2);
  rank(0).propagation.break_for_memory(rank(0).group(1));
  EXPECT_EQ(rank(0).group(1).cause.code(), Errc::resource);
  EXPECT_EQ(rank(0).group(1).cause.culprit(), 0);
  rank(1).propagation.break_group(rank(1).group(2), late());
  rank(0).propagation.break_for_memory(rank(0).group(2));
  expect(rank(0).group(2), late());
}

TEST_F(FailurePropagationTest, AGroupThatIsDestroyedTellsNobody) {
  make();
  rank(0).propagation.end(rank(0).group(), Outcome(Errc::aborted, "destroyed"));
  EXPECT_TRUE(rank(0).group().broken);
  EXPECT_TRUE(rank(0).sent.empty());
  EXPECT_FALSE(rank(1).propagation.hear_of_break(rank(1).group()));
}

/// Any process of the host can write into a page.
TEST_F(FailurePropagationTest, AWordWhoseReporterHasNoNoteIsTakenWithoutWords) {
  make();
  for (const int reporter : {1, 2, 77}) {
    SCOPED_TRACE(reporter);
    const std::uint64_t id = kTested + static_cast<std::uint64_t>(reporter);
    make(id);
    Group& group = rank(0).group(id);
    rank(0)
        .groups.world()
        .regions->control()
        .break_word(group.slot)
        .store(transport::shm::break_word(static_cast<std::uint8_t>(Errc::timeout), reporter, 99));
    rank(0).propagation.check_breaks();
    expect(group, Outcome(Errc::timeout, "group '" + group.name + "' was broken by another rank"));
  }
}

}  // namespace
}  // namespace tutti::engine
