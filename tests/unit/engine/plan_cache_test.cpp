#include "engine/plan_cache.hpp"

#include <gtest/gtest.h>

#include "call/gpu_calls.hpp"

namespace tutti::engine {
namespace {

Collective all_reduce(std::size_t count, DType dtype = DType::float32) {
  const TensorView data(nullptr, dtype, count);
  return {.kind = Kind::all_reduce, .input = data, .output = data};
}

class PlanCacheTest : public testing::Test {
 protected:
  PlanCache cache_{0, plan::make_topology({0, 0}), 4, {}};
};

TEST_F(PlanCacheTest, TheSameCallFindsTheSamePlan) {
  const BoundPlan& first = cache_.find(all_reduce(100));
  const BoundPlan& other = cache_.find(all_reduce(101));
  EXPECT_NE(&first, &other);
  EXPECT_EQ(&cache_.find(all_reduce(100)), &first);
  EXPECT_EQ(first.binding.count, 100u);
  EXPECT_EQ(first.binding.element, 4u);
}

TEST_F(PlanCacheTest, APlanInUseOutlivesAWindowOfOtherCalls) {
  // Fill it, then use the entry that is the oldest: it must not be the next to go.
  for (std::size_t count = 1; count <= 16; ++count) (void)cache_.find(all_reduce(count));
  const BoundPlan& in_use = cache_.find(all_reduce(1));
  for (std::size_t count = 100; count < 100 + transport::shm::kWindow; ++count) {
    (void)cache_.find(all_reduce(count));
    EXPECT_EQ(in_use.binding.count, 1u);
  }
}

TEST_F(PlanCacheTest, SchedulesAreSharedBySizes) {
  EXPECT_EQ(cache_.find(all_reduce(100)).schedule, cache_.find(all_reduce(200)).schedule);
  EXPECT_EQ(cache_.find(all_reduce(100)).schedule,
            cache_.find(all_reduce(100, DType::int32)).schedule);
  EXPECT_NE(cache_.find(all_reduce(1)).schedule, cache_.find(all_reduce(1'000'000)).schedule);
}

TEST_F(PlanCacheTest, WhatFitsIntoTheLineNeedsNoStaging) {
  const BoundPlan& small = cache_.find(all_reduce(12));
  EXPECT_TRUE(small.inline_stage);
  EXPECT_EQ(small.stage_bytes, 0u);
  const BoundPlan& larger = cache_.find(all_reduce(13));
  EXPECT_FALSE(larger.inline_stage);
  EXPECT_EQ(larger.stage_bytes, 64u);
}

TEST_F(PlanCacheTest, CallsThatStageLittleMayBeFarApart) {
  constexpr std::size_t kKiB = 1024 / 4;  // in elements
  const auto broadcast = [](std::size_t count) {
    Collective call = all_reduce(count);
    call.kind = Kind::broadcast;
    return call;
  };
  EXPECT_EQ(cache_.find(broadcast(12)).window, transport::shm::kLines) << "in the line";
  EXPECT_EQ(cache_.find(broadcast(4 * kKiB)).window, transport::shm::kLines);
  EXPECT_EQ(cache_.find(broadcast(8 * kKiB)).window, transport::shm::kLines / 2);
  EXPECT_EQ(cache_.find(broadcast(64 * kKiB)).window, transport::shm::kWindow);
  PlanCache counts(0, plan::make_topology({0, 0}), 4, "broadcast:broadcast_chunked");
  EXPECT_EQ(counts.find(broadcast(1)).window, transport::shm::kWindow) << "8 counters";
  PlanCache frames(0, plan::make_topology({0, 0}), 4, "broadcast:binomial_broadcast");
  EXPECT_EQ(frames.find(broadcast(1)).window, transport::shm::kWindow) << "held frames";
  PlanCache hosts(0, plan::make_topology({0, 0, 1}), 4, {});
  EXPECT_EQ(hosts.find(broadcast(1)).window, transport::shm::kWindow);
}

TEST_F(PlanCacheTest, OnlyLargeInputsAreReadWhereTheyLie) {
  PlanCache eight(0, plan::make_topology(std::vector<int>(8, 0)), 8, {});
  PlanCache hosts(0, plan::make_topology({0, 0, 1}), 8, {});
  const auto gather = [](Kind kind, std::size_t bytes, std::size_t ranks) {
    return Collective{.kind = kind,
                      .input = TensorView(nullptr, DType::uint8, bytes),
                      .output = TensorView(nullptr, DType::uint8, bytes * ranks)};
  };
  for (const Kind kind : {Kind::all_gather, Kind::gather}) {
    // 31 KiB: of counters, so its window is that of large ones.
    for (const std::size_t small : {std::size_t{64}, std::size_t{31} << 10, std::size_t{1} << 15})
      EXPECT_FALSE(eight.find(gather(kind, small, 8)).stages_inputs) << small;
    const BoundPlan& large = eight.find(gather(kind, (std::size_t{1} << 15) + 1, 8));
    EXPECT_TRUE(large.stages_inputs);
    EXPECT_EQ(large.window, transport::shm::kWindow) << "so the end of each rank wakes the others";
    EXPECT_FALSE(hosts.find(gather(kind, std::size_t{1} << 20, 3)).stages_inputs);
  }
  EXPECT_FALSE(cache_.find(all_reduce(1'000'000)).stages_inputs);
}

TEST_F(PlanCacheTest, InTurnsOnFewCpusFewInputsAreReadWhereTheyLie) {
  PlanCache crowded(1, plan::make_topology({0, 0, 0, 0}), 3, {});
  PlanCache enough(1, plan::make_topology({0, 0, 0, 0}), 4, {});
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto lends = [](PlanCache& plans, Kind kind, std::size_t input) {
    const Layout layout = traits_of(kind).layout;
    const std::size_t output = layout == Layout::gather    ? 4 * input
                               : layout == Layout::scatter ? input / 4
                                                           : input;
    return plans
        .find({.kind = kind,
               .root = kind == Kind::gather ? 0 : 1,
               .input = TensorView(nullptr, DType::uint8, input),
               .output = TensorView(nullptr, DType::uint8, output)})
        .stages_inputs;
  };
  for (const Kind kind :
       {Kind::all_gather, Kind::gather, Kind::all_to_all, Kind::scatter, Kind::broadcast}) {
    const bool has_root = kind == Kind::scatter || kind == Kind::broadcast;
    EXPECT_FALSE(lends(crowded, kind, kMiB / 4)) << to_string(kind);  // one_shot
    EXPECT_FALSE(lends(crowded, kind, kMiB - 64)) << to_string(kind);
    EXPECT_EQ(lends(crowded, kind, kMiB), !has_root) << to_string(kind);
    EXPECT_EQ(lends(crowded, kind, 16 * kMiB), !has_root) << to_string(kind);
    EXPECT_TRUE(lends(enough, kind, kMiB - 64)) << to_string(kind);
  }
}

TEST_F(PlanCacheTest, FewElementsOfAnyDtypeAreDoneAsOneShot) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_TRUE(cache_.find(all_reduce(4, dtype)).one_shot.exists()) << to_string(dtype);
  }
  EXPECT_FALSE(cache_.find(all_reduce(1'000'000)).one_shot.exists());
}

TEST_F(PlanCacheTest, TheOverrideIsTaken) {
  PlanCache overridden(0, plan::make_topology({0, 0}), 4, "all_reduce:slice_owner");
  EXPECT_EQ(overridden.find(all_reduce(4)).schedule->algorithm, "slice_owner");
  EXPECT_EQ(cache_.find(all_reduce(4)).schedule->algorithm, "one_shot");
}

TEST_F(PlanCacheTest, WithMoreRanksThanCpusTheLastToComeAdds) {
  PlanCache oversubscribed(1, plan::make_topology({0, 0, 0}), 2, {});
  EXPECT_EQ(oversubscribed.find(all_reduce(4)).one_shot.claim, nullptr);
  EXPECT_NE(oversubscribed.find(all_reduce(1024)).one_shot.claim, nullptr);
  EXPECT_FALSE(oversubscribed.find(all_reduce(100'000)).one_shot.exists());
}

TEST_F(PlanCacheTest, OutputsGoAroundTheCacheWhereThoseOfAHostFillIt) {
  constexpr std::size_t kMiB = (std::size_t{1} << 20) / 4;  // in elements
  EXPECT_FALSE(cache_.find(all_reduce(15 * kMiB)).output_past_cache);
  EXPECT_TRUE(cache_.find(all_reduce(16 * kMiB)).output_past_cache);
  PlanCache eight(0, plan::make_topology(std::vector<int>(8, 0)), 2, {});
  EXPECT_FALSE(eight.find(all_reduce(3 * kMiB)).output_past_cache);
  EXPECT_TRUE(eight.find(all_reduce(4 * kMiB)).output_past_cache);
  Collective reduce = all_reduce(4 * kMiB);  // one rank gets it
  reduce.kind = Kind::reduce;
  EXPECT_FALSE(eight.find(reduce).output_past_cache);
  PlanCache apart(0, plan::make_topology({0, 0, 1, 1, 2, 2, 3, 3}), 2, {});
  EXPECT_FALSE(apart.find(all_reduce(15 * kMiB)).output_past_cache);
  EXPECT_TRUE(apart.find(all_reduce(16 * kMiB)).output_past_cache);
}

TEST_F(PlanCacheTest, TokensOfGroupsAreBarriers) {
  Collective barrier;
  Collective make = barrier;
  make.kind = Kind::new_group;
  make.digest = 5;
  EXPECT_EQ(cache_.find(make).schedule->kind, Kind::barrier);
  EXPECT_NE(cache_.find(make).code, cache_.find(barrier).code);
}

TEST_F(PlanCacheTest, CallsOfGpusAreBarriersThatCompareTheCall) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{4}, std::size_t{10'000'000}}) {
    const Collective moved = all_reduce(count, DType::bfloat16);
    Collective met = moved;
    met.digest = call::gpu_call_digest(0);
    const BoundPlan& plan = cache_.find(met);
    EXPECT_EQ(plan.schedule->kind, Kind::barrier);
    EXPECT_TRUE(plan.one_shot.copied.empty());
    EXPECT_EQ(plan.one_shot.sum.count, 0u);
    EXPECT_EQ(plan.binding.count, 1u);
    EXPECT_EQ(plan.stage_bytes, 0u);
    EXPECT_EQ(&cache_.find(met), &plan);
    EXPECT_NE(cache_.find(moved).code, plan.code);
    Collective other = met;
    other.op = ReduceOp::max;
    EXPECT_NE(cache_.find(other).code, plan.code);
  }
  EXPECT_FALSE(call::is_gpu_call(0));
  for (std::uint64_t bits = 0; bits < 1000; ++bits)
    EXPECT_TRUE(call::is_gpu_call(call::gpu_call_digest(bits)));
}

}  // namespace
}  // namespace tutti::engine
