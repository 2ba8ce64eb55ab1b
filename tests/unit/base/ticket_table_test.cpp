#include "base/ticket_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace tutti::base {
namespace {

struct Call : TicketPlace {
  int value = 0;
  void reset() { value = 0; }
};

using Table = TicketTable<Call>;

TEST(TicketTable, ATicketFindsItsOperationUntilItIsGivenUp) {
  Table table;
  Call& one = table.take();
  Call& two = table.take();
  one.value = 1;
  two.value = 2;
  const std::uint64_t first = Table::ticket_of(one);
  const std::uint64_t second = Table::ticket_of(two);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.find(first), &one);
  EXPECT_EQ(table.find(second), &two);
  table.recycle(one);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.find(second)->value, 2);
  Call& again = table.take();
  EXPECT_EQ(&again, &one) << "its place is used again";
  EXPECT_EQ(again.value, 0);
  EXPECT_EQ(table.find(first), nullptr) << "by another ticket";
  EXPECT_EQ(table.find(Table::ticket_of(again)), &again);
}

TEST(TicketTable, NoTicketThatItNeverGaveFindsAnything) {
  Table table;
  EXPECT_EQ(table.find(0), nullptr);
  const std::uint64_t ticket = Table::ticket_of(table.take());
  EXPECT_NE(ticket, 0U);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(ticket + 1), nullptr);
  EXPECT_EQ(table.find(ticket + (std::uint64_t{1} << 32)), nullptr);
  EXPECT_EQ(table.find(~std::uint64_t{0}), nullptr);
}

TEST(TicketTable, ACountThatIsUsedUpBeginsAgain) {
  Table table;
  Call& one = table.take();
  one.generation = ~0U;
  const std::uint64_t last = Table::ticket_of(one);
  table.recycle(one);
  EXPECT_EQ(table.find(0), nullptr);
  const std::uint64_t next = Table::ticket_of(table.take());
  EXPECT_NE(next, 0U) << "0 means no ticket (Details::probed)";
  EXPECT_LT(next, last);
  EXPECT_EQ(table.find(last), nullptr);
}

TEST(TicketTable, OperationsStayWhereTheyAre) {
  Table table;
  Call& first = table.take();
  std::set<std::uint64_t> tickets{Table::ticket_of(first)};
  for (int i = 0; i < 1000; ++i) tickets.insert(Table::ticket_of(table.take()));
  EXPECT_EQ(tickets.size(), 1001U);
  EXPECT_EQ(table.find(Table::ticket_of(first)), &first);
}

}  // namespace
}  // namespace tutti::base
