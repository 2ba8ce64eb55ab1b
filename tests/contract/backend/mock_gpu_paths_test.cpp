#include <gmock/gmock.h>

#include "gpu/host_path.hpp"
#include "gpu/ipc_path.hpp"
#include "gpu/nccl_path.hpp"
#include "gpu/parts_path.hpp"
#include "gpu/router.hpp"
#include "mock_staged_ranks.hpp"

// Each path of GPU tensors by itself, without the group that owns its operations: over a mock of
// CUDA's driver, on two ranks that are threads.
namespace tutti::test {
namespace {

using gpu::GpuOperation;
using gpu::Step;
using testing::HasSubstr;
using testing::WhenDynamicCastTo;

/// The objects that the paths of one rank need.
struct RankOfPaths {
  explicit RankOfPaths(ProcessGroup& its_world, const gpu::DirectOptions& direct = {},
                       gpu::NcclOptions nccl = {})
      : world(its_world),
        gpus([cuda = &mock_world()->cuda_of(
                  its_world.rank())]() -> Result<cuda::CudaApi*> { return cuda; },
             direct, std::move(nccl)),
        ranks(gpus, host_of(world), std::string(world.name())),
        router(ranks) {
    router.nccl.set_owner(*ranks.host);
  }
  ~RankOfPaths() {
    end_operation();
    for (gpu::PeerGroup* const group : groups()) {
      group->leave();
      group->release();
    }
    GroupAccess::backend(world).set_owner(GroupAccess::backend(world));  // no Witness any more
  }
  void end_operation() {
    EXPECT_TRUE(comes_true([&] { return op.settle(); }));
    op.reset();
  }
  static Backend* host_of(ProcessGroup& world) {
    Backend& host = GroupAccess::backend(world);
    host.add_reference();
    return new Witness(&host, mock_world()->machine, world.rank(), std::string(world.name()));
  }
  std::vector<gpu::PeerGroup*> groups() {
    std::vector<gpu::PeerGroup*> all = {&ranks};
    router.pairs.each([&](gpu::PeerGroup& pair) { all.push_back(&pair); });
    return all;
  }

  /// Begins an operation, on the path that the router chooses.
  Step start(const Collective& call) {
    const std::lock_guard lock(gpus.mutex());
    op.call = call;
    op.deadline = std::chrono::steady_clock::now() + kForever;
    op.state = GpuOperation::State::waiting;
    op.host_call.take(call, ranks.host->rank());
    ranks.enter(op, gpu::PeerGroup::kCollectives);
    return router.start(op, call);
  }
  /// Its steps until it ends, or until its path does not take it.
  Step run(Step step) {
    while (step.to != Step::To::ends && step.to != Step::To::breaks &&
           step.to != Step::To::passes) {
      std::this_thread::yield();
      const std::lock_guard lock(gpus.mutex());
      step = op.step();
    }
    return step;
  }
  Step pass_on() {
    const std::lock_guard lock(gpus.mutex());
    return router.pass_on(op);
  }
  void cancel() {
    const std::lock_guard lock(gpus.mutex());
    op.path->cancel(op);
    ranks.remove(op);
  }
  void expect_success(const Step& step) {
    EXPECT_EQ(step.to, Step::To::ends) << step.outcome.message();
    EXPECT_TRUE(step.outcome.ok()) << step.outcome.message();
    const std::lock_guard lock(gpus.mutex());
    op.ranks->remove(op);
  }

  ProcessGroup& world;
  gpu::GpuSet gpus;
  gpu::PeerGroup ranks;
  gpu::Router router;
  GpuOperation op;
};

/// Runs the body on two ranks of our engine, whose backend it uses as a host backend. `world`: a
/// MockGpuWorld, of which nothing is left.
template <class World>
void run_paths(World&& world, const Arrangement::Body& body) {
  mock_world() = &world;
  group::run_thread_ranks(2, body, [](int) { return patient("native"); });
  expect_clean(world.machine);
}

TEST(MockGpuPaths, HostPathMakesOneHostCall) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    RankOfPaths rank(world);
    const Step begun = rank.start(all_reduce_of(on_gpu(values)));
    EXPECT_THAT(rank.op.path.get(), WhenDynamicCastTo<gpu::HostPath*>(testing::NotNull()));
    rank.expect_success(rank.run(begun));
    EXPECT_EQ(values, std::vector<float>(8, 2));
  });
}

TEST(MockGpuPaths, ACancelledCallerWaitsForTheCopiesThatStillRun) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> values(8, 1);
    RankOfPaths rank(world);
    Details details;
    details.stream = stream.handle;
    Collective call = all_reduce_of(on_gpu(values));
    call.details = &details;
    stream.hold(true);
    Step step = rank.start(call);
    for (int i = 0; i < 3; ++i) step = rank.op.step();
    EXPECT_EQ(step.to, Step::To::waits);
    EXPECT_THAT(std::string(rank.op.path->waits_for(rank.op)),
                HasSubstr("its stream has not come"));
    EXPECT_FALSE(rank.op.settle());
    rank.cancel();
    EXPECT_EQ(calls_of(mock_world()->machine, "cuStreamWaitEvent", world.rank()), 1);
    stream.hold(false);
    stream.synchronize();
  });
}

TEST(MockGpuPaths, IpcPathSharesMemoryAndMovesAllParts) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    std::vector<float> values(300, 1);
    RankOfPaths rank(world, small_parts());
    const Step begun = rank.start(all_reduce_of(on_gpu(values)));
    EXPECT_TRUE(rank.op.path->uses_slots());
    rank.expect_success(rank.run(begun));
    EXPECT_EQ(rank.ranks.peers.state(), gpu::IpcPeers::State::direct);
    EXPECT_EQ(values, std::vector<float>(300, 2));
  });
}

TEST(MockGpuPaths, IpcPathPassesTheCallOnIfARankCannotShareMemory) {
  MockGpuWorld mock(2);
  mock.machine.plant(1, "cuMemMap");
  const LoggedLines log(LogLevel::warning);
  run_paths(mock, [](ProcessGroup& world) {
    std::vector<float> values(300, 1);
    RankOfPaths rank(world, small_parts());
    EXPECT_EQ(rank.run(rank.start(all_reduce_of(on_gpu(values)))).to, Step::To::passes);
    EXPECT_TRUE(rank.op.compared);
    rank.expect_success(rank.run(rank.pass_on()));
    EXPECT_EQ(values, std::vector<float>(300, 2));
  });
}

TEST(MockGpuPaths, PartsPathComparesTheCallAndMakesAHostCallForEachPart) {
  MockGpuWorld mock(2);
  mock.machine.plant(1, "cuMemMap");
  const LoggedLines log(LogLevel::warning);
  run_paths(mock, [](ProcessGroup& world) {
    std::vector<float> values(300, 1);
    RankOfPaths rank(world, small_parts());
    EXPECT_EQ(rank.run(rank.start(all_reduce_of(on_gpu(values)))).to, Step::To::passes);
    rank.ranks.remove(rank.op);
    rank.end_operation();
    const Step begun = rank.start(all_reduce_of(on_gpu(values)));
    const auto* const parts = dynamic_cast<const gpu::PartsPath*>(rank.op.path.get());
    ASSERT_NE(parts, nullptr);
    EXPECT_EQ(parts->parts(), 3) << "of 512 bytes";
    rank.expect_success(rank.run(begun));
    EXPECT_EQ(rank.op.advanced, 8) << "a rendezvous and a host call for each part";
    EXPECT_EQ(values, std::vector<float>(300, 2));
  });
}

/// A message from rank 0 to rank 1, which is too long to go at once.
Collective message_of(const ProcessGroup& world, const TensorView& view) {
  Collective call{.kind = world.rank() == 0 ? Kind::send : Kind::recv, .input = {}, .output = {}};
  call.root = 1 - world.rank();
  (world.rank() == 0 ? call.input : call.output) = view;
  return call;
}

TEST(MockGpuPaths, PairPathMakesABroadcastOfTwoRanks) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    std::vector<float> values(20000, static_cast<float>(world.rank()));
    RankOfPaths rank(world, small_parts());
    EXPECT_EQ(rank.run(rank.start(message_of(world, on_gpu(values)))).to, Step::To::passes);
    EXPECT_NE(rank.op.ranks, &rank.ranks);
    EXPECT_THAT(rank.op.text(), HasSubstr("messages from rank 0 to rank 1"));
    rank.expect_success(rank.run(rank.pass_on()));
    EXPECT_EQ(rank.op.source, world.rank() == 0 ? -1 : 0);
    EXPECT_EQ(values, std::vector<float>(20000, 0));
  });
}

TEST(MockGpuPaths, PairPathStagesTheTensorForAPeerInHostMemory) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    std::vector<float> values(20000, static_cast<float>(world.rank()));
    RankOfPaths rank(world, small_parts());
    if (world.rank() == 0) {
      rank.expect_success(rank.run(rank.start(message_of(world, on_gpu(values)))));
      EXPECT_EQ(rank.op.ranks, &rank.ranks);
    } else {
      rank.op.settled = true;  // it has none
      (void)world.recv(values, 0);
      EXPECT_EQ(values, std::vector<float>(20000, 0));
    }
  });
}

/// In place of NCCL: the host group that NCCL would get. Memory of the mock's GPUs is host memory.
class HostAsNccl final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  [[nodiscard]] std::string unsupported(const Collective& /*call*/) const override { return {}; }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    return inner().make_child(ranks, std::move(name));
  }
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return inner().make_among(ranks, tag, std::move(name));
  }
};

gpu::NcclOptions host_as_nccl() {
  return {.name = "nccl", .make = [](Backend* host, const std::string&) -> Result<Backend*> {
            return new HostAsNccl(host);
          }};
}

TEST(MockGpuPaths, NcclPathHandsTheCallOverWhereNoTwoRanksShareAGpu) {
  MockGpuWorld mock(2);
  mock.machine.first_gpu = {{1, 1}};
  run_paths(mock, [](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    RankOfPaths rank(world, {}, host_as_nccl());
    const Step begun = rank.start(all_reduce_of(on_gpu(values)));
    EXPECT_TRUE(rank.router.nccl.has_waiting());
    rank.expect_success(rank.run(begun));
    EXPECT_TRUE(rank.op.on_nccl);
    EXPECT_EQ(values, std::vector<float>(8, 2));
    rank.router.nccl.open_if_none_waits();
    EXPECT_EQ(rank.router.nccl_for(all_reduce_of(on_gpu(values))), rank.router.nccl.nccl());
  });
}

TEST(MockGpuPaths, NcclPathPassesTheCallOnWhereRanksShareAGpu) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    RankOfPaths rank(world, {}, host_as_nccl());
    EXPECT_EQ(rank.run(rank.start(all_reduce_of(on_gpu(values)))).to, Step::To::passes);
    rank.expect_success(rank.run(rank.pass_on()));
    EXPECT_FALSE(rank.router.nccl.has_waiting());
    EXPECT_EQ(rank.router.nccl_for(all_reduce_of(on_gpu(values))), nullptr);
  });
}

TEST(MockGpuPaths, ACancelledNcclPathHoldsNoLaterCallBack) {
  run_paths(MockGpuWorld(2), [](ProcessGroup& world) {
    std::vector<float> values(8, 1);
    RankOfPaths rank(world, {}, host_as_nccl());
    (void)rank.start(all_reduce_of(on_gpu(values)));
    EXPECT_TRUE(rank.router.nccl.has_waiting());
    rank.cancel();
    EXPECT_FALSE(rank.router.nccl.has_waiting());
  });
}

}  // namespace
}  // namespace tutti::test
