#include "base/addition_order.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::base {
namespace {

/// The sum of `count` terms from `first` on, as text.
std::string halves(int first, int count) {
  if (count == 1) return std::to_string(first);
  const int left = lower_half(count);
  return "(" + halves(first, left) + "+" + halves(first + left, count - left) + ")";
}

/// The same as ranks add what their children send.
std::string of_children(int place, int size) {
  std::string sum = std::to_string(place);
  for (const int child : tree_children(place, size)) {
    EXPECT_EQ(tree_parent(child), place);
    sum = "(" + sum + "+" + of_children(child, size) + ")";
  }
  return sum;
}

/// The same as terms come one after the other.
std::string stacked(int count) {
  std::vector<std::string> sums;
  const auto join = [&] {
    const std::string right = sums.back();
    sums.pop_back();
    sums.back() = "(" + sums.back() + "+" + right + ")";
  };
  for (int term = 0; term < count; ++term) {
    sums.push_back(std::to_string(term));
    for (int joins = joins_after(term); joins > 0; --joins) join();
  }
  while (sums.size() > 1) join();
  return sums.front();
}

TEST(AdditionOrder, IsTheOneThatIsPromised) {
  EXPECT_EQ(halves(0, 8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  EXPECT_EQ(halves(0, 5), "(((0+1)+(2+3))+4)");
}

TEST(AdditionOrder, IsTheSameInAllItsForms) {
  for (int size = 1; size <= 70; ++size) {
    EXPECT_EQ(of_children(0, size), halves(0, size));
    EXPECT_EQ(stacked(size), halves(0, size));
  }
}

TEST(AdditionOrder, SubtreesAreAddedToTheOneBeside) {
  EXPECT_EQ(subtree_begin(6, 2), 6);
  EXPECT_EQ(sibling_begin(6, 2), 4);
  EXPECT_EQ(sibling_begin(5, 4), 0);
  EXPECT_EQ(sibling_begin(3, 4), 4);
}

}  // namespace
}  // namespace tutti::base
