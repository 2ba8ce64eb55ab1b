#include "proof_cases.hpp"

// Every algorithm, proven for every size 1..33: after changes of schedules or of the prover. Those
// with two levels: two_level_proof_test.cpp, so that both can run at a time.
namespace tutti::verify {

using namespace plan;

namespace {

class Proof : public testing::TestWithParam<Algorithm> {};

TEST_P(Proof, HoldsForEverySize) { prove_every_size(GetParam()); }

class Symmetry : public testing::TestWithParam<Algorithm> {};

TEST_P(Symmetry, IsAsDeclaredUpTo64) {
  const Algorithm& a = GetParam();
  for (int size = 1; size <= 64; ++size) {
    for (const Topology& t : topologies_of(a, size)) {
      const std::vector<Schedule> all = build_all(a.build, t, 0, kChunkBytes);
      const std::vector<Finding> found =
          check_symmetry(all, t,
                         {has_blocks(a.kind) ? std::size_t{3} : std::size_t{3} * 64,
                          has_blocks(a.kind) ? std::size_t{1} : 64, 1, false});
      ASSERT_TRUE(found.empty()) << found.front().text << "\n" << to_text(all.front());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OneLevel, Proof, testing::ValuesIn(algorithms_of_levels(false)),
                         [](const auto& a) { return name_of(a.param); });
INSTANTIATE_TEST_SUITE_P(Every, Symmetry,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& a) { return name_of(a.param); });

}  // namespace
}  // namespace tutti::verify
