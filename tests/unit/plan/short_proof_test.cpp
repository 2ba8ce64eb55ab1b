#include "proof_cases.hpp"
#include "support/rotation.hpp"

// Every algorithm, proven for few sizes; proof_test.cpp has all of them.
namespace tutti::verify {

using namespace plan;

namespace {

class ShortProof : public testing::TestWithParam<Algorithm> {};

TEST_P(ShortProof, HoldsForSomeSizes) {
  for (const int size :
       test::sizes_by_rotation({1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12, 13, 16, 17, 24}))
    EXPECT_GT(prove_size(GetParam(), size), 0) << size;
}

TEST_P(ShortProof, NameAndClassAreThoseOfTheTable) {
  const Algorithm& a = GetParam();
  for (const Schedule& s : build_all(a.build, in_blocks(8, 4), 0, kChunkBytes)) {
    EXPECT_EQ(s.algorithm, a.name);
    EXPECT_EQ(s.kind, a.kind);
    EXPECT_EQ(s.order, a.order);
    EXPECT_EQ(s.size, 8);
  }
}

// An algorithm that looks at hosts and does not say so would be proven on one placement alone.
TEST_P(ShortProof, LooksAtHostsIfTheTableSaysSo) {
  const Algorithm& a = GetParam();
  const auto texts = [&](const Topology& t) {
    std::vector<std::string> all;
    for (const Schedule& s : build_all(a.build, t, 0, kChunkBytes)) all.push_back(to_text(s));
    return all;
  };
  EXPECT_EQ(texts(in_blocks(6, 2)) != texts(all_apart(6)), a.looks_at_hosts);
}

INSTANTIATE_TEST_SUITE_P(Every, ShortProof,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& a) { return name_of(a.param); });

}  // namespace
}  // namespace tutti::verify
