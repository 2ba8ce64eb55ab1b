#include "base/nearest.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace tutti::base;

TEST(Nearest, CountsChangedAddedAndDroppedLetters) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("rank", ""), 4U);
  EXPECT_EQ(edit_distance("", "rank"), 4U);
  EXPECT_EQ(edit_distance("rank", "tank"), 1U);
  EXPECT_EQ(edit_distance("rank", "ranks"), 1U);
  EXPECT_EQ(edit_distance("port", "prot"), 2U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, FindsTheMostSimilarWord) {
  const std::vector<std::string> known = {"--master-addr", "--master-port", "--node-rank"};
  EXPECT_EQ(nearest("--master-prot", known), "--master-port");
  EXPECT_EQ(nearest("--noderank", known), "--node-rank");
  EXPECT_EQ(nearest("--master-addr", known), "--master-addr");
}

TEST(Nearest, ABeginningIsABetterHintThanASimilarWord) {
  const std::vector<std::string> known = {"--nnodes", "--nproc-per-node", "--proc"};
  EXPECT_EQ(nearest("--nproc", known), "--nproc-per-node");
}

TEST(Nearest, FindsNothingWhereNothingIsNear) {
  const std::vector<std::string> known = {"--master-addr", "--node-rank"};
  EXPECT_FALSE(nearest("--wibble", known));
  EXPECT_FALSE(nearest("", known));
  EXPECT_FALSE(nearest("anything", {}));
}

}  // namespace
