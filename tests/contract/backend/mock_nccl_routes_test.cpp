#include <gmock/gmock.h>

#include <latch>
#include <stdexcept>

#include "mock_nccl_ranks.hpp"

// One group on two backends: tensors of the CPU on our own engine, those of GPUs on NCCL.
namespace tutti::test {
namespace {

template <class World>
void run_routed(World&& mock, const Arrangement::Body& body) {
  run_nccl(mock, {.backend = kRoutes}, body);
}

TEST(MockNcclRoutes, AProbedMessageIsReceivedWhereTheProbeFoundIt) {
  run_routed(MockNcclWorld(2), [&](ProcessGroup& world) {
    std::vector<float> values(4, 1);
    std::vector<float> got(4, 0);
    // A recv of this dtype on the GPU has been called before.
    exchange(world, on_gpu(values), 1 - world.rank(), on_gpu(got), 1 - world.rank());
    Work sent = world.isend(values, 1 - world.rank());
    Message found = world.probe(1 - world.rank());
    EXPECT_THROW(found.recv(on_gpu(got)), InvalidArgument);
    EXPECT_TRUE(found.valid());
    found.recv(got);
    EXPECT_EQ(got, values);
    sent.wait();
  });
}

TEST(MockNcclRoutes, EachTensorGoesToTheBackendOfItsDevice) {
  MockNcclWorld mock(kRanks);
  run_routed(mock, [&](ProcessGroup& world) {
    EXPECT_EQ(world.backend(), kRoutes);
    std::vector<int> host(8, 1);
    std::vector<int> gpu(8, 2);
    for (int i = 0; i < 5; ++i) {
      Work first = world.all_reduce(host);
      Work second = world.all_reduce(on_gpu(gpu));
      finish(std::move(second));
      first.wait();
    }
    EXPECT_EQ(host, std::vector<int>(8, 243));
    EXPECT_EQ(gpu, std::vector<int>(8, 486));
    // Only NCCL refuses this op, and only for a GPU.
    world.all_reduce(host, {.op = ReduceOp::bor}).wait();
    EXPECT_THROW((void)world.all_reduce(on_gpu(gpu), {.op = ReduceOp::bor}), InvalidArgument);
  });
  EXPECT_EQ(mock.machine.calls(0).at("ncclAllReduce"), 5);
}

TEST(MockNcclRoutes, MessagesOfUnlikeDevicesWithOneTagAreKeptApart) {
  run_routed(MockNcclWorld(2), [&](ProcessGroup& world) {
    std::vector<int> host(4, 1);
    std::vector<int> gpu(4, 2);
    if (world.rank() == 0) {
      Work first = world.isend(host, 1);
      Work second = world.isend(on_gpu(gpu), 1);
      first.wait();
      finish(std::move(second));
      return;
    }
    std::vector<int> got_host(4, 0);
    std::vector<int> got_gpu(4, 0);
    Work second = world.irecv(on_gpu(got_gpu), any_source);
    EXPECT_TRUE(second.wait_for(std::chrono::nanoseconds::max()));
    world.irecv(got_host, 0).wait();
    EXPECT_EQ(second.source_rank(), 0);
    EXPECT_EQ(got_host, host);
    EXPECT_EQ(got_gpu, gpu);
  });
}

TEST(MockNcclRoutes, NewGroupsAreOnBoth) {
  MockNcclWorld mock(kRanks);
  run_routed(mock, [&](ProcessGroup& world) {
    std::vector<int> gpu(4, 1);
    finish(world.all_reduce(on_gpu(gpu)));  // so that there is a communicator to be split
    // Twice the same ranks: two groups.
    ProcessGroup one = world.new_group({2, 0});
    ProcessGroup other = world.new_group({2, 0});
    ASSERT_EQ(static_cast<bool>(one), world.rank() != 1);
    for (ProcessGroup& group : {std::ref(one), std::ref(other)}) {
      if (!group) continue;
      std::vector<int> host(2, 0);
      std::vector<int> got(2, 0);
      std::vector<int> own(1, world.rank());
      Work first = group.all_gather(host, own);
      finish(group.all_gather(on_gpu(got), on_gpu(own)));
      first.wait();
      EXPECT_EQ(host, (std::vector<int>{2, 0}));
      EXPECT_EQ(got, host);
    }
  });
  EXPECT_EQ(mock.machine.calls(1).at("ncclCommSplit"), 2);
}

TEST(MockNcclRoutes, AWorkThatAnExceptionLeavesBreaksBothParts) {
  for (const bool on_nccl : {false, true}) {
    // A rank that is still being made would fail with the group of the other one.
    std::latch made(2);
    run_mock_nccl(MockNcclWorld(2), {.backend = kRoutes}, [&](ProcessGroup& world) {
      made.arrive_and_wait();
      std::vector<int> host(4, 1);
      std::vector<int> gpu(4, 1);
      const int other = 1 - world.rank();
      if (world.rank() == 0) {
        try {
          const Work left = on_nccl ? world.irecv(on_gpu(gpu), other) : world.irecv(host, other);
          throw std::runtime_error("away");
        } catch (const std::runtime_error& thrown) {
          EXPECT_STREQ(thrown.what(), "away");
        }
      }
      Work by_host = world.irecv(host, other);
      Work by_nccl = world.irecv(on_gpu(gpu), other);
      EXPECT_THROW(by_host.wait(), Error) << on_nccl;
      EXPECT_THROW(by_nccl.synchronize(), Error) << on_nccl;
    });
  }
}

TEST(MockNcclRoutes, EncryptionIsRefused) {
  make_mock_nccl_known();
  for (const std::string_view backend : {kRoutes, kMockNcclBackend}) {
    Config config;
    config.backend = backend;
    config.tls = true;
    try {
      run_threads(
          2, [](ProcessGroup&) {}, config);
      ADD_FAILURE() << backend << " does not encrypt";
    } catch (const InvalidArgument& refused) {
      EXPECT_THAT(refused.what(), testing::AllOf(testing::HasSubstr("'nccl_mock'"),
                                                 testing::HasSubstr("does not encrypt, but "
                                                                    "TUTTI_TLS is 1")));
    }
  }
  EXPECT_FALSE(keeps_promise(kRoutes, Promise::encrypted));
}

TEST(MockNcclRoutes, ARouteThatCannotBeIsRefused) {
  make_mock_nccl_known();
  const auto why = [](const char* name) { return why_unavailable(name); };
  using testing::HasSubstr;
  EXPECT_TRUE(is_available(kRoutes));
  EXPECT_TRUE(is_available("cpu:native"));
  EXPECT_TRUE(is_available("cpu:native,cuda:native"));
  EXPECT_THAT(why("cpu:native,tpu:nccl_mock"), HasSubstr("there is no device 'tpu'"));
  EXPECT_THAT(why("cpu:native,cpu:nccl_mock"), HasSubstr("the device 'cpu' stands there twice"));
  EXPECT_THAT(why("cpu:,cuda:nccl_mock"), HasSubstr("each part is a device and a backend"));
  EXPECT_THAT(why("cpu:native,"), HasSubstr("each part is a device and a backend"));
  EXPECT_THAT(why("cpu:nccl_mock,cuda:native"), HasSubstr("only a backend for GPUs"));
  EXPECT_THAT(why("cpu:native,cuda:nobody"), HasSubstr("there is none of this name"));
  EXPECT_TRUE(keeps_promise(kRoutes, Promise::all_tags));
  EXPECT_FALSE(keeps_promise(kRoutes, Promise::same_bits)) << "NCCL does not";
}

}  // namespace
}  // namespace tutti::test
