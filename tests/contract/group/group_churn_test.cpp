#include "group_churn.hpp"

#include "support/long_tests.hpp"
#include "support/sanitized.hpp"

// Ranks as threads that make and close groups without end, over the real mapping.
namespace tutti {
namespace {

constexpr int kGroups = test::kSanitized ? 200 : 1000;

/// Most of the time goes into filling all slots at the end.
std::vector<int> sizes() { return test::long_tests() ? std::vector{3, 4, 8} : std::vector{3}; }

class GroupChurn : public testing::TestWithParam<int> {};

TEST_P(GroupChurn, LeavesNoSlotTaken) {
  run_threads(GetParam(), [](ProcessGroup& world) { test::churn_groups(world, 7, kGroups); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupChurn, testing::ValuesIn(sizes()));

}  // namespace
}  // namespace tutti
