#include "backend/foreign/operation_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/backend/fake_ranks.hpp"

namespace tutti::foreign {
namespace {

class ListOfOperations : public testing::Test {
 protected:
  FakeOperation& add() { return list.add({}); }
  static std::uint64_t ticket(const FakeOperation& op) {
    return OperationList<FakeOperation>::ticket_of(op);
  }

  std::vector<base::Due> due;
  OperationList<FakeOperation> list{due};
};

TEST_F(ListOfOperations, AnOperationHasItsOutcomeWhenItIsDone) {
  FakeOperation& op = add();
  EXPECT_NE(ticket(op), 0);
  EXPECT_EQ(list.find(ticket(op)), &op);
  EXPECT_FALSE(list.outcome(ticket(op)));
  EXPECT_EQ(list.received(ticket(op)).source, -1);
  op.source = 3;
  list.end(op, Outcome(Errc::unsupported, "first"));
  list.end(op, Outcome(Errc::internal, "second"));
  EXPECT_EQ(list.outcome(ticket(op))->message(), "first");
  EXPECT_EQ(list.received(ticket(op)).source, 3);
  EXPECT_TRUE(list.healthy());
}

TEST_F(ListOfOperations, AReleasedTicketFindsNothing) {
  FakeOperation& op = add();
  const std::uint64_t old = ticket(op);
  op.source = 1;
  list.end(op, Outcome());
  EXPECT_EQ(list.release(old).source, 1);
  EXPECT_TRUE(list.idle());
  EXPECT_EQ(list.release(old).source, -1);
  EXPECT_TRUE(list.outcome(old)->ok());  // why the group is broken: it is whole
  EXPECT_EQ(&add(), &op);                // its place
  EXPECT_EQ(list.find(old), nullptr);
  EXPECT_EQ(op.source, -1);
}

TEST_F(ListOfOperations, AnOperationThatRunsKeepsItsPlaceAfterTheRelease) {
  FakeOperation& op = add();
  const std::uint64_t old = ticket(op);
  op.source = 2;  // its message is matched already
  EXPECT_EQ(list.release(old).source, 2);
  EXPECT_EQ(list.find(old), &op);
  EXPECT_NE(&add(), &op);
  list.end(op, Outcome());
  list.tidy();
  EXPECT_EQ(list.find(old), nullptr);
  EXPECT_EQ(list.running().size(), 1);
}

TEST_F(ListOfOperations, MemoryThatTheLibraryUsesIsNotGivenToAnotherCall) {
  FakeOperation& op = add();
  const std::uint64_t old = ticket(op);
  op.kept = true;
  list.end(op, Outcome(Errc::aborted, "aborted"));
  (void)list.release(old);
  EXPECT_TRUE(list.idle());
  EXPECT_FALSE(list.settled());
  list.tidy();
  FakeOperation& next = add();
  EXPECT_NE(&next, &op);
  op.kept = false;
  list.end(next, Outcome());
  list.tidy();
  EXPECT_TRUE(list.settled());
  EXPECT_EQ(&add(), &op);
}

TEST_F(ListOfOperations, CallbacksAreDueOnceWithTheOutcome) {
  FakeOperation& op = add();
  int context = 0;
  list.on_done(ticket(op), {nullptr, &context});
  EXPECT_TRUE(due.empty());
  list.end(op, Outcome(Errc::timeout, "late"));
  list.end(op, Outcome());
  ASSERT_EQ(due.size(), 1);
  EXPECT_EQ(due[0].callback.context, &context);
  EXPECT_EQ(due[0].outcome.code(), Errc::timeout);
  list.on_done(ticket(op), {nullptr, &context});
  ASSERT_EQ(due.size(), 2);
  EXPECT_EQ(due[1].outcome.message(), "late");
}

TEST_F(ListOfOperations, TheFirstCauseBreaksTheGroup) {
  FakeOperation& before = add();
  FakeOperation& over = add();
  list.end(over, Outcome());
  EXPECT_TRUE(list.break_with(Outcome(Errc::peer_lost, "rank 1 is gone")));
  EXPECT_FALSE(list.break_with(Outcome(Errc::aborted, "later")));
  int running = 0;
  list.each_running([&](FakeOperation& op) {
    EXPECT_EQ(&op, &before);
    ++running;
    list.end(op, list.cause());
  });
  EXPECT_EQ(running, 1);
  list.tidy();
  EXPECT_TRUE(list.idle());
  EXPECT_TRUE(list.outcome(ticket(over))->ok());
  FakeOperation& late = add();
  EXPECT_TRUE(list.idle());
  EXPECT_EQ(list.outcome(ticket(late))->message(), "rank 1 is gone");
  EXPECT_EQ(list.outcome(12345)->message(), "rank 1 is gone");
  int context = 0;
  list.on_done(12345, {nullptr, &context});
  EXPECT_EQ(due.back().outcome.code(), Errc::peer_lost);
  EXPECT_EQ(list.release(ticket(late)).source, -1);
}

TEST_F(ListOfOperations, OperationsThatRunMayAddSome) {
  (void)add();
  int seen = 0;
  list.each_running([&](FakeOperation& op) {
    if (++seen < 5) (void)add();
    list.end(op, Outcome());
  });
  EXPECT_EQ(seen, 5);
}

TEST_F(ListOfOperations, AGroupThatIsDestroyedSaysSo) {
  EXPECT_EQ(destroyed("pair").code(), Errc::aborted);
  EXPECT_EQ(destroyed("pair").message(), "group 'pair' was destroyed while the operation ran");
}

}  // namespace
}  // namespace tutti::foreign
