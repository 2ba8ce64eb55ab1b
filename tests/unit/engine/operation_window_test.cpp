#include "engine/operation_window.hpp"

#include <cstddef>

#include "bare_groups.hpp"

// Numbers, slots and the queue of one group, without an engine: rank 0, with 1 and 2 on its host.
namespace tutti::engine {
namespace {

using transport::shm::kLines;
using transport::shm::kWindow;

class OperationWindowTest : public BareGroupsTest {
 protected:
  OperationWindowTest() {
    for (const int local : {1, 2}) BareGroups(memory_, local, 3).make(7);
  }
  /// The next operation begins; its slot.
  Op& begin() {
    Op& op = window_.next();
    window_.number_call();
    window_.begin_next(plan_);
    return op;
  }
  void end(std::uint64_t seq) {
    window_.end(window_.at(seq));
    window_.note_passed();
  }
  /// A rank of our host has passed all operations up to this one.
  void passed(int rank, std::uint64_t seq, std::uint64_t fingerprint = 0) {
    memory_.regions(rank).control().group(0).done.value.store(
        transport::shm::done_word(seq, fingerprint));
  }
  static Collective barrier(int tag) { return {.tag = tag, .input = {}, .output = {}}; }

  verify::sim::Memory memory_{{0, 0, 0}};
  BareGroups groups_{memory_, 0, 3};
  Group& group_ = groups_.make(7);
  OperationWindow& window_ = group_.window;
  BoundPlan plan_;
};

TEST_F(OperationWindowTest, AnOperationGetsTheNextNumberAndSlot) {
  Op& first = begin();
  Op& second = begin();
  EXPECT_EQ(first.seq, 1U);
  EXPECT_EQ(second.seq, 2U);
  EXPECT_EQ(&window_.at(1), &first);
  EXPECT_EQ(first.group, &group_);
  EXPECT_EQ(first.state, Op::State::running);
  EXPECT_EQ(window_.submitted(), 2U);
  EXPECT_EQ(window_.started(), 2U);
  EXPECT_NE(first.fingerprint, second.fingerprint) << "equal calls, after others";
}

TEST_F(OperationWindowTest, FingerprintsFollowFromAllCallsBefore) {
  BareGroups others(memory_, 1, 3);
  Group& other = others.make(7);
  other.window.start_chain(1);
  other.window.begin_next(plan_);
  EXPECT_NE(begin().fingerprint, other.window.at(1).fingerprint) << "it began elsewhere";
}

TEST_F(OperationWindowTest, OperationsEndInAnyOrderAndArePassedInTheirs) {
  for (int i = 0; i < 3; ++i) begin();
  end(2);
  EXPECT_EQ(window_.done_upto(), 0U);
  end(1);
  EXPECT_EQ(window_.done_upto(), 2U);
  end(3);
  EXPECT_EQ(window_.done_upto(), 3U);
}

TEST_F(OperationWindowTest, ASlotIsFreeOnceAllRanksOfTheHostHavePassedIt) {
  for (int i = 0; i < kWindow; ++i) {
    ASSERT_TRUE(window_.has_room(kWindow)) << i;
    begin();
  }
  EXPECT_FALSE(window_.has_room(kWindow)) << "the first still runs";
  EXPECT_FALSE(window_.has_room(kLines));
  end(1);
  EXPECT_FALSE(window_.has_room(kWindow)) << "others may read it";
  EXPECT_TRUE(window_.has_room(kLines)) << "it needs another line";
  passed(1, 1);
  EXPECT_FALSE(window_.has_room(kWindow));
  passed(2, 3);
  EXPECT_TRUE(window_.has_room(kWindow));
  begin();
  end(2);
  EXPECT_FALSE(window_.has_room(kWindow)) << "rank 1 has not passed the second";
}

TEST_F(OperationWindowTest, ARankIsAheadByAsManyOperationsAsThereAreLines) {
  for (std::uint64_t seq = 1; seq <= kLines; ++seq) {
    ASSERT_TRUE(window_.has_room(kLines)) << seq;
    begin();
    end(seq);
  }
  EXPECT_FALSE(window_.has_room(kLines));
  for (const int rank : {1, 2}) passed(rank, 1);
  EXPECT_TRUE(window_.has_room(kLines));
  for (const int rank : {1, 2}) passed(rank, kLines - kWindow);
  EXPECT_FALSE(window_.has_room(kWindow)) << "those that need more than a line stay together";
  for (const int rank : {1, 2}) passed(rank, kLines - kWindow + 1);
  EXPECT_TRUE(window_.has_room(kWindow));
}

TEST_F(OperationWindowTest, ARankThatHasPassedOtherCallsIsNoticed) {
  for (std::uint64_t seq = 1; seq <= kLines; ++seq) {
    transport::shm::publish_line(group_.block->line(seq), begin().fingerprint, seq, [] {});
    end(seq);
  }
  const std::uint64_t ours = window_.at(kLines).fingerprint;
  passed(1, kLines, ours);
  passed(2, kLines + 1, ours + 1);  // we have not made that call yet
  EXPECT_TRUE(window_.has_room(kLines));
  EXPECT_EQ(window_.disagreeing(), -1);
  passed(2, kLines, ours + 1);
  EXPECT_FALSE(window_.is_passed_by_all(kLines + 1));
  EXPECT_EQ(window_.disagreeing(), 2);
}

TEST_F(OperationWindowTest, TheLastNumberIsNotTakenForAGroupThatHasEnded) {
  EXPECT_LT(transport::shm::done_word(kLastOperation, ~std::uint64_t{0}), kClosed);
  EXPECT_GE(transport::shm::number_of(kClosed), kLastOperation);
}

TEST_F(OperationWindowTest, StagingIsReadByAllThoughARankIsGone) {
  begin();
  EXPECT_FALSE(window_.is_read_by_all(1)) << "it runs here";
  end(1);
  passed(1, 1);
  EXPECT_FALSE(window_.is_read_by_all(1));
  memory_.regions(2).control().words().left.store(1);
  EXPECT_TRUE(window_.is_read_by_all(1));
  EXPECT_FALSE(window_.is_passed_by_all(1)) << "its lines stay as they are";
}

TEST_F(OperationWindowTest, ACallWaitsBehindThoseThatWait) {
  window_.enqueue(barrier(1));
  window_.enqueue(barrier(2));
  EXPECT_EQ(window_.first_queued().call().tag, 1);
  Queued first = window_.dequeue();
  EXPECT_EQ(first.call().tag, 1);
  EXPECT_EQ(window_.dequeue().call().tag, 2);
  EXPECT_FALSE(window_.has_queued());
}

TEST_F(OperationWindowTest, CallbacksOfQueuedCallsGoToTheirOperation) {
  const Callback callback{nullptr, nullptr};
  window_.on_done_later(2, callback);
  window_.on_done_later(1, callback);
  window_.on_done_later(2, callback);
  Op& first = begin();
  window_.take_callbacks(first);
  EXPECT_EQ(first.callbacks.size(), 1U);
  Op& second = begin();
  window_.take_callbacks(second);
  EXPECT_EQ(second.callbacks.size(), 2U);
  window_.take_callbacks(second);
  EXPECT_EQ(second.callbacks.size(), 2U) << "each once";
}

TEST_F(OperationWindowTest, WhenTheGroupBreaksAllThatWaitEnds) {
  CompletionQueue completions;
  completions.reserve();
  completions.registered();
  window_.enqueue(barrier(1));
  window_.enqueue(barrier(2));
  window_.on_done_later(1, Callback{nullptr, nullptr});
  EXPECT_EQ(window_.fail_queue(completions, Outcome(Errc::aborted, "enough of it")), 2);
  EXPECT_FALSE(window_.has_queued());
  EXPECT_EQ(completions.size(), 1U);
  window_.close();
  EXPECT_EQ(window_.done_upto(), kClosed) << "no number of an operation is larger";
}

TEST_F(OperationWindowTest, NumbersEnd) {
  window_.skip_to(kLastOperation - 1);
  EXPECT_FALSE(window_.is_exhausted());
  begin();
  EXPECT_EQ(window_.started(), kLastOperation);
  EXPECT_TRUE(window_.is_exhausted());
}

// The fields that a one-shot operation reads while it waits.
TEST(OpLayout, WhatIsPolledStandsInTheFirstTwoCacheLines) {
  const Op op{};
  const auto end_of = [&](const auto& field) {
    return reinterpret_cast<const std::byte*>(&field + 1) - reinterpret_cast<const std::byte*>(&op);
  };
  int field = 0;
  for (const std::ptrdiff_t end :
       {end_of(op.state), end_of(op.agreement), end_of(op.seq), end_of(op.group), end_of(op.plan),
        end_of(op.region), end_of(op.program.pc), end_of(op.program.at), end_of(op.program.agreed),
        end_of(op.program.one_shot)})
    EXPECT_LE(end, 128) << "field " << field++ << " of those above";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&op) % 64, 0u);
}

}  // namespace
}  // namespace tutti::engine
