#include "apps/tutti/wrapped_line.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tutti::cli {
namespace {

TEST(WrappedLine, StandsBehindItsHeadWhereThereIsRoom) {
  EXPECT_EQ(wrapped_line("0  ", "waits for rank 2", 0), "0  waits for rank 2\n");
  EXPECT_EQ(wrapped_line("0  ", "waits for rank 2", 40), "0  waits for rank 2\n");
  EXPECT_EQ(wrapped_line("0  ", std::string(30, 'a') + " waits for rank 2", 33),
            "0  " + std::string(30, 'a') + "\n   waits for rank 2\n");
  EXPECT_EQ(wrapped_line("0  ", "waits for the others, of which rank 2 is in no call", 40),
            "0  waits for the others, of which rank 2\n   is in no call\n");
}

TEST(WrappedLine, StandsBelowItsHeadWhereThatIsLong) {
  const std::string head(40, '.');
  EXPECT_EQ(wrapped_line(head, "in no call", 60), head + "in no call\n");
  EXPECT_EQ(wrapped_line(head, "barrier in group 'world', operation 2, waits for rank 2", 60),
            head + "\n        barrier in group 'world', operation 2, waits for\n        rank 2\n");
}

TEST(WrappedLine, LeavesAWordThatIsTooLong) {
  EXPECT_EQ(wrapped_line("0  ", std::string(50, 'a') + " b", 40),
            "0  " + std::string(50, 'a') + "\n   b\n");
  EXPECT_EQ(wrapped_line("0  ", std::string(50, 'a'), 40), "0  " + std::string(50, 'a') + "\n");
  EXPECT_EQ(wrapped_line("0  ", std::string(50, 'a'), 3),
            "0  \n        " + std::string(50, 'a') + "\n");
}

}  // namespace
}  // namespace tutti::cli
