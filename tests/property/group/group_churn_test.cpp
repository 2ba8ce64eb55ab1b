#include "group_churn.hpp"

// Ranks as threads that make and close groups without end, over the real mapping.
namespace tutti {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kGroups = 200;
#else
constexpr int kGroups = 1000;
#endif

class GroupChurn : public testing::TestWithParam<int> {};

TEST_P(GroupChurn, LeavesNoSlotTaken) {
  run_threads(GetParam(), [](ProcessGroup& world) { test::churn_groups(world, 7, kGroups); });
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupChurn, testing::Values(3, 4, 8));

}  // namespace
}  // namespace tutti
