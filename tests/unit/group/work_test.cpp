#include <gtest/gtest.h>

#include <utility>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/launch.hpp>

#include "support/called_back.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(Work, CallsBackOnceAlsoWhenDetached) {
  run_threads(2, [](ProcessGroup& world) {
    float values[] = {1};
    test::Heard heard;
    Collective call{
        .kind = Kind::all_reduce, .input = TensorView(values), .output = TensorView(values)};
    Work work = GroupAccess::submit(world, call, 10s, true);
    work.on_done(heard.callback());
    work.detach();
    heard.wait();
    EXPECT_TRUE(heard.status.ok()) << heard.status.message();
    EXPECT_EQ(values[0], 2);
    world.barrier().wait();
    EXPECT_EQ(heard.times, 1);
  });
}

TEST(Work, CallsBackWithTheFailure) {
  run_threads(1, [](ProcessGroup& world) {
    world.abort("enough");
    Work work = world.barrier();
    test::Heard heard;
    work.on_done(heard.callback());
    heard.wait();
    EXPECT_EQ(heard.status.code(), Errc::aborted);
    for (int i = 0; i < 2; ++i) EXPECT_THROW(work.wait(), BackendError);
    EXPECT_EQ(work.error().code(), Errc::aborted);
  });
}

TEST(Work, WaitAfterWaitForGivesTheSameAnswer) {
  run_threads(2, [](ProcessGroup& world) {
    Work work = world.barrier();
    while (!work.wait_for(10ms)) {
    }
    EXPECT_TRUE(work.valid());
    EXPECT_TRUE(work.done());
    EXPECT_TRUE(work.wait_for(0ms));
    work.wait();
    Work moved = std::move(work);
    moved.wait();
    EXPECT_TRUE(moved.error().ok());
  });
}

TEST(Work, WithoutAnOperationIsDoneAndSaysSo) {
  run_threads(1, [](ProcessGroup& world) {
    Work moved = world.barrier();
    Work taken = std::move(moved);
    Work detached = world.barrier();
    detached.detach();
    Work made;
    test::Heard heard;
    for (Work* const empty : {&moved, &detached, &made}) {  // NOLINT: what was moved from is meant
      EXPECT_FALSE(empty->valid());
      EXPECT_TRUE(empty->done());
      EXPECT_TRUE(empty->wait_for(0ms));
      EXPECT_TRUE(empty->error().ok());
      EXPECT_EQ(empty->source_rank(), -1);
      EXPECT_THROW(empty->wait(), InvalidArgument);
      EXPECT_THROW(empty->on_done(heard.callback()), InvalidArgument);
    }
    taken.wait();
    EXPECT_THROW(taken.on_done(heard.callback()), InvalidArgument);
    EXPECT_EQ(heard.times, 0);
  });
}

}  // namespace
}  // namespace tutti
