#include <barrier>

#include "mock_direct_ranks.hpp"

// Messages that go from GPU to GPU: which do, their order and their streams, over a mock of CUDA's
// driver that tells races also between ranks.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

class MockDirectMessages : public testing::TestWithParam<int> {};

TEST_P(MockDirectMessages, AllSizesToAllRanks) {
  const int ranks = GetParam();
  run_direct(MockGpuWorld(ranks), [&](ProcessGroup& world) {
    for (const std::size_t count : {std::size_t{0}, kSmall, kMost, kMost + 1, kLarge, kLarge + 3}) {
      SCOPED_TRACE(count);
      std::vector<std::vector<float>> out;
      std::vector<std::vector<float>> in;
      for (int rank = 0; rank < ranks; ++rank) {
        out.push_back(numbers(count, 1000 * world.rank() + rank));
        in.emplace_back(count, -1.0F);
      }
      std::vector<Work> works;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        works.push_back(world.irecv(on_gpu(in[at]), rank));
        works.push_back(world.isend(on_gpu(out[at]), rank));
      }
      for (Work& work : works) finish(std::move(work));
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(in[static_cast<std::size_t>(rank)], numbers(count, 1000 * rank + world.rank()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, MockDirectMessages, testing::ValuesIn(world_sizes()));

TEST(MockDirectMessages, LargeOnesDoNotPassThroughTheHostIfCudaIpcIsOn) {
  for (const bool on : {true, false}) {
    MockGpuWorld mock(2);
    run_direct(mock, on ? small_parts() : gpu::DirectOptions(), [&](ProcessGroup& world) {
      std::vector<float> values = numbers(kLarge, world.rank());
      std::vector<float> got(kLarge, 0);
      for (int i = 0; i < 3; ++i) {
        Work sent = world.isend(on_gpu(values), 1 - world.rank());
        EXPECT_EQ(world.recv(on_gpu(got), 1 - world.rank()), 1 - world.rank());
        finish(std::move(sent));
        EXPECT_EQ(got, numbers(kLarge, 1 - world.rank()));
      }
    });
    for (const int rank : {0, 1}) EXPECT_EQ(calls_of(mock, "cuMemHostRegister", rank) == 0, on);
    EXPECT_EQ(calls_of(mock, "cuMemCreate"), on ? 2 : 0) << "one of each direction";
    EXPECT_EQ(calls_of(mock, "cuLaunchKernel"), 0);
  }
}

TEST(MockDirectMessages, OneTensorMayBeOfTheCpu) {
  run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
    for (const int source : {before(world), any_source}) {
      for (const bool recv_first : {false, true}) {
        std::vector<float> values = numbers(kLarge, world.rank());
        std::vector<float> got(kLarge, 0);
        // Rank 0 sends from the CPU; rank 2 receives on the CPU.
        const TensorView to = world.rank() == 2 ? on_cpu(got) : on_gpu(got);
        const TensorView from = world.rank() == 0 ? on_cpu(values) : on_gpu(values);
        std::optional<Work> recv;
        if (recv_first) recv = recv_from(world, to, source);
        world.barrier().wait();
        Work sent = send_to(world, from, after(world));
        if (!recv) recv = recv_from(world, to, source);
        finish(std::move(*recv));
        finish(std::move(sent));
        EXPECT_EQ(got, numbers(kLarge, before(world)));
        world.barrier().wait();
      }
    }
  });
}

TEST(MockDirectMessages, ARankMayReceiveItsOwnWithAnySource) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<float> values = numbers(kLarge, world.rank());
    for (const bool recv_first : {false, true}) {
      std::vector<float> got(kLarge, 0);
      std::optional<Work> recv;
      if (recv_first) recv = recv_from(world, on_gpu(got), any_source);
      Work sent = send_to(world, on_gpu(values), world.rank());
      if (!recv) recv = recv_from(world, on_gpu(got), any_source);
      finish(std::move(*recv));
      finish(std::move(sent));
      EXPECT_EQ(got, values);
    }
    world.barrier().wait();  // a recv from anybody fails when all other ranks have left
  });
}

TEST(MockDirectMessages, FollowTheirTagsAndNotTheOrderOfTheSends) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    constexpr int kMessages = 6;
    std::vector<std::vector<float>> out;
    std::vector<std::vector<float>> in;
    std::vector<Work> works;
    for (int i = 0; i < kMessages; ++i) {
      const std::size_t count = i % 3 == 1 ? kSmall : kLarge + static_cast<std::size_t>(i);
      out.push_back(numbers(count, 100 * world.rank() + i));
      in.emplace_back(count, 0.0F);
    }
    for (int i = 0; i < kMessages; ++i)
      works.push_back(
          send_to(world, on_gpu(out[static_cast<std::size_t>(i)]), 1 - world.rank(), i));
    for (int i = kMessages - 1; i >= 0; --i)
      works.push_back(
          recv_from(world, on_gpu(in[static_cast<std::size_t>(i)]), 1 - world.rank(), i));
    for (Work& work : works) finish(std::move(work));
    for (int i = 0; i < kMessages; ++i) {
      const auto& got = in[static_cast<std::size_t>(i)];
      EXPECT_EQ(got, numbers(got.size(), 100 * (1 - world.rank()) + i));
    }
  });
}

TEST(MockDirectMessages, ProbesFindThem) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    for (const bool to_gpu : {true, false}) {
      // The second one, of another size, is no message for the recv of the first.
      std::vector<float> values = numbers(kLarge, 7);
      std::vector<float> later = numbers(kLarge + 1, 8);
      std::vector<int> both(1);
      if (world.rank() == 0) {
        Work first = world.isend(on_gpu(values), 1, {.tag = 3});
        Work second = world.isend(on_gpu(later), 1, {.tag = 3});
        world.isend(both, 1, {.tag = 4}).wait();
        finish(std::move(first));
        finish(std::move(second));
        continue;
      }
      world.irecv(both, 0, {.tag = 4}).wait();  // both have come
      Message found = world.probe(any_source, {.tag = 3});
      EXPECT_EQ(found.source(), 0);
      EXPECT_EQ(found.count(), kLarge);
      std::vector<float> got(kLarge, 0);
      std::vector<float> got_later(kLarge + 1, 0);
      CallersStream stream(world);
      const StreamGuard guard(stream.handle);
      stream.hold(true);
      Work work = found.irecv(to_gpu ? on_gpu(got) : on_cpu(got));
      EXPECT_FALSE(found.valid());
      Work next = world.irecv(on_gpu(got_later), 0, {.tag = 3});
      EXPECT_FALSE(world.try_probe(any_source, {.tag = 3})) << "both have their recvs";
      stream.hold(false);
      finish(std::move(work));
      finish(std::move(next));
      EXPECT_EQ(got, values);
      EXPECT_EQ(got_later, later);
    }
  });
}

TEST(MockDirectMessages, StridedTensorsOfAnyDtype) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<std::int16_t> out(2 * kLarge, -1);
    std::vector<std::int16_t> in(3 * kLarge, -1);
    for (std::size_t i = 0; i < kLarge; ++i) out[2 * i] = static_cast<std::int16_t>(i);
    const auto every = [](std::int64_t step, std::vector<std::int16_t>& of) {
      return TensorView(of.data(), DType::int16, std::array{std::int64_t{kLarge}}, std::array{step},
                        kGpu);
    };
    Work sent = send_to(world, every(2, out), 1 - world.rank());
    finish(recv_from(world, every(3, in), 1 - world.rank()));
    finish(std::move(sent));
    for (std::size_t i = 0; i < kLarge; ++i) {
      ASSERT_EQ(in[3 * i], static_cast<std::int16_t>(i));
      ASSERT_EQ(in[3 * i + 1], -1);
    }
  });
}

TEST(MockDirectMessages, FollowTheCallersStreamAndWaitOrdersIt) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    CallersStream stream(world);
    std::vector<float> source = numbers(kLarge, 5);
    std::vector<float> values(kLarge, 0);
    std::vector<float> result(kLarge, 0);
    for (int i = 0; i < 2; ++i) {
      const bool held = (world.rank() == 0) == (i == 0);
      stream.hold(held);
      if (world.rank() == 0)
        stream.copy(values, source);  // not done yet when it is sent
      else
        stream.copy(result, values);  // reads what the recv writes
      Work work = pass(world, on_gpu(values), stream.handle);
      EXPECT_FALSE(work.wait_for(5ms)) << "a stream has not come to it";
      world.barrier().wait();
      stream.hold(false);
      work.wait();
      if (world.rank() == 1) {
        stream.copy(result, values);  // behind it in the stream
        stream.synchronize();
        EXPECT_EQ(result, source);
      }
      finish(world.barrier());
      stream.synchronize();
    }
  });
}

TEST(MockDirectMessages, SynchronizeAfterWaitWaitsForTheElements) {
  MockGpuWorld mock(2);
  gpu::DirectOptions one_part = small_parts();
  one_part.message_slot_bytes = std::size_t{1} << 20;
  std::barrier together(2);
  run_direct(mock, one_part, [&](ProcessGroup& world) {
    std::vector<float> values = numbers(kLarge, world.rank());
    finish(pass(world, on_gpu(values)));  // the two ranks make their group
    std::unique_ptr<Hold> held;
    if (world.rank() == 0) {
      held = std::make_unique<Hold>(world);
      Work sent = pass(world, on_gpu(values));
      together.arrive_and_wait();
      held.reset();
      return finish(std::move(sent));
    }
    const int recorded = calls_of(mock, "cuEventRecord", 1);
    values.assign(kLarge, -1);
    Work got = pass(world, on_gpu(values));
    // The caller's stream has come to it, and the receiver waits for the sender's elements.
    while (calls_of(mock, "cuEventRecord", 1) < recorded + 2) std::this_thread::yield();
    held = std::make_unique<Hold>(world);
    together.arrive_and_wait();
    expect_told_after_wait(std::move(got), std::move(held));
    read_on_host(world, values);
    EXPECT_EQ(values, numbers(kLarge, 0));
  });
}

TEST(MockDirectMessages, AnotherStreamOfTheSenderIsNotWaitedForByOtherReceivers) {
  std::barrier together(3);
  run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
    std::vector<float> values = numbers(kLarge, 1);
    std::vector<float> more = numbers(kLarge, 2);
    if (world.rank() == 0) {
      CallersStream slow(world);
      slow.hold(true);
      Work first = send_to(world, on_gpu(values), 1, 0, slow.handle);
      finish(send_to(world, on_gpu(more), 2));
      together.arrive_and_wait();
      slow.hold(false);
      finish(std::move(first));
    } else {
      Work got = recv_from(world, on_gpu(values), 0);
      if (world.rank() == 2) finish(std::move(got));
      together.arrive_and_wait();
      if (world.rank() == 1) finish(std::move(got));
      EXPECT_EQ(values, numbers(kLarge, world.rank()));
    }
  });
}

TEST(MockDirectMessages, ARecvIsNotBehindOneWhoseStreamDoesSomethingElse) {
  std::barrier together(2);
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<float> first = numbers(kLarge, 1);
    std::vector<float> second = numbers(kLarge, 2);
    if (world.rank() == 0) {
      Work one = send_to(world, on_gpu(first), 1, 0);
      Work two = send_to(world, on_gpu(second), 1, 1);
      finish(std::move(two));
      together.arrive_and_wait();
      finish(std::move(one));
      return;
    }
    CallersStream slow(world);
    slow.hold(true);
    std::vector<float> got(kLarge, 0);
    std::vector<float> other(kLarge, 0);
    Work one = recv_from(world, on_gpu(got), 0, 0, slow.handle);
    finish(recv_from(world, on_gpu(other), 0, 1));
    EXPECT_EQ(other, second);
    together.arrive_and_wait();
    EXPECT_EQ(got, std::vector<float>(kLarge, 0)) << "its stream still has it";
    slow.hold(false);
    finish(std::move(one));
    EXPECT_EQ(got, first);
  });
}

TEST(MockDirectMessages, RunBesideCollectives) {
  MockGpuWorld mock(3);
  run_direct(mock, [&](ProcessGroup& world) {
    for (int i = 0; i < 4; ++i) {
      std::vector<float> sums(700, 1);
      std::vector<float> values = numbers(kLarge, world.rank());
      std::vector<float> got(kLarge, 0);
      Work one = reduce_on(world, on_gpu(sums), 0);
      Work sent = send_to(world, on_gpu(values), after(world));
      Work two = reduce_on(world, on_gpu(sums), 0);
      Work recv = recv_from(world, on_gpu(got), before(world));
      finish(std::move(recv));
      finish(std::move(two));
      finish(std::move(sent));
      finish(std::move(one));
      EXPECT_EQ(got, numbers(kLarge, before(world)));
      EXPECT_EQ(sums, std::vector<float>(700, 9));
    }
  });
  EXPECT_EQ(calls_of(mock, "cuMemHostRegister"), 0);
}

TEST(MockDirectMessages, ThoseOfASecondGpuGoByWayOfTheHost) {
  MockGpuWorld mock(2, 2);
  run_direct(mock, [&](ProcessGroup& world) {
    std::vector<float> values = numbers(kLarge, world.rank());
    std::vector<float> got(kLarge, 0);
    for (const Device device : {kGpu, kOther, kGpu}) {
      const TensorView from(values.data(), DType::float32, kLarge,
                            world.rank() == 0 ? device : kGpu);
      Work sent = send_to(world, from, 1 - world.rank());
      finish(recv_from(world, on_gpu(got), 1 - world.rank()));
      finish(std::move(sent));
      EXPECT_EQ(got, numbers(kLarge, 1 - world.rank()));
    }
  });
  EXPECT_GT(calls_of(mock, "cuMemHostRegister"), 0);
}

TEST(MockDirectMessages, AWorkThatNobodyWaitsForIsDoneAllTheSame) {
  std::vector<std::vector<float>> out(2, numbers(kLarge, 3));
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<float> got(kLarge, 0);
    send_to(world, on_gpu(out[static_cast<std::size_t>(world.rank())]), 1 - world.rank()).detach();
    std::atomic<int> told = 0;
    Work work = recv_from(world, on_gpu(got), 1 - world.rank());
    work.on_done(counts_in(told));
    EXPECT_TRUE(comes_true([&] { return told == 1; }));
    EXPECT_EQ(got, out[0]);
    world.barrier().wait();
  });
}

}  // namespace
}  // namespace tutti::test
