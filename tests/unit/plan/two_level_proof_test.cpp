#include "proof_cases.hpp"

namespace tutti::verify {
namespace {

class TwoLevelProof : public testing::TestWithParam<Algorithm> {};

TEST_P(TwoLevelProof, HoldsForEverySize) { prove_every_size(GetParam()); }

INSTANTIATE_TEST_SUITE_P(TwoLevels, TwoLevelProof, testing::ValuesIn(algorithms_of_levels(true)),
                         [](const auto& a) { return name_of(a.param); });

}  // namespace
}  // namespace tutti::verify
