#include <barrier>

#include "mock_direct_ranks.hpp"

// Messages that go from GPU to GPU: ranks that do not come, aborts, and functions of CUDA that
// fail.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

TEST(MockDirectMessages, OtherCountsAreADisagreement) {
  run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
    std::vector<float> values(kLarge + static_cast<std::size_t>(world.rank()), 1);
    EXPECT_THROW(finish(pass(world, on_gpu(values))), DisagreementError);
  });
}

TEST(MockDirectMessages, WhoDoesNotCallIsNamed) {
  std::vector<float> values(kLarge, 1);
  for (const int absent : {0, 1}) {
    run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
      if (world.rank() == absent) {
        EXPECT_TRUE(breaks_soon(world));
        return;
      }
      CallersStream stream(world);
      stream.hold(absent == 0);  // named though the stream has not come to the recv
      Work work = pass(world, on_gpu(values), stream.handle, 300ms);
      const Outcome error = error_of<Error>([&] { finish(std::move(work)); });
      EXPECT_EQ(error.culprit(), absent) << error.message();
      if (absent == 1) {
        EXPECT_THAT(error.message(), testing::HasSubstr("has not called the recv for it"));
      }
      stream.hold(false);
    });
  }
}

TEST(MockDirectMessages, AnAbortEndsThoseWhoseStreamHasNotCome) {
  for (const int late : {0, 1}) {
    SCOPED_TRACE(late);
    std::vector<std::vector<float>> values(3, std::vector<float>(kLarge, 1));
    std::barrier together(3);
    run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
      auto& own = values[static_cast<std::size_t>(world.rank())];
      CallersStream stream(world);
      if (world.rank() == late) stream.hold(true);
      Work work;
      if (world.rank() != 2) work = pass(world, on_gpu(own), stream.handle, 10min);
      std::this_thread::sleep_for(20ms);  // they have found each other, as far as they can
      together.arrive_and_wait();
      if (world.rank() == 2)
        world.abort("enough of it");
      else
        EXPECT_THROW(finish(std::move(work)), Error);
      together.arrive_and_wait();
      stream.hold(false);
    });
  }
}

TEST(MockDirectMessages, AStreamThatDoesNotComeIsNamedOnBothRanks) {
  for (const int way : {0, 1, 2, 3}) {  // from 2 on, the other tensor is of the CPU
    const int late = way % 2;
    SCOPED_TRACE(way);
    std::vector<std::vector<float>> values(2, std::vector<float>(kLarge, 1));
    std::barrier together(2);
    run_direct(MockGpuWorld(2), [&](ProcessGroup& world) {
      auto& own = values[static_cast<std::size_t>(world.rank())];
      CallersStream stream(world);
      if (world.rank() == late) stream.hold(true);
      const bool of_cpu = way >= 2 && world.rank() != late;
      together.arrive_and_wait();
      Work work = pass(world, of_cpu ? on_cpu(own) : on_gpu(own), stream.handle,
                       world.rank() == late ? std::chrono::nanoseconds(1s) : 10min);
      const Outcome error = error_of<Error>([&] { finish(std::move(work)); });
      EXPECT_EQ(error.culprit(), late) << error.message();
      EXPECT_THAT(error.message(), testing::HasSubstr("its stream has not come to it"));
      together.arrive_and_wait();
      stream.hold(false);
    });
  }
}

TEST(MockDirectMessages, AnAbortInTheMiddleEndsThemOnAllRanks) {
  std::vector<std::vector<float>> values(3, std::vector<float>(kLarge, 1));
  std::barrier together(3);
  run_direct(MockGpuWorld(3), [&](ProcessGroup& world) {
    auto& own = values[static_cast<std::size_t>(world.rank())];
    if (world.rank() != 2) finish(pass(world, on_gpu(own)));
    std::optional<Hold> out;
    if (world.rank() == 1) out.emplace(world);
    together.arrive_and_wait();
    Work work = world.rank() != 2 ? pass(world, on_gpu(own), 0, 10min) : Work();
    together.arrive_and_wait();
    if (world.rank() == 1) {
      EXPECT_FALSE(work.wait_for(20ms)) << "its GPU does nothing";
    }
    together.arrive_and_wait();
    if (world.rank() == 2) world.abort("enough of it");
    if (world.rank() != 2) {
      const Outcome error = error_of<Error>([&] { finish(std::move(work)); });
      EXPECT_THAT(error.message(), testing::HasSubstr("enough of it"));
    }
    together.arrive_and_wait();
    out.reset();
  });
}

/// By way of the host, too.
gpu::DirectOptions few_parts() {
  gpu::DirectOptions options = small_parts();
  options.host_part_bytes = options.message_slot_bytes;
  return options;
}

/// Messages of every way.
void messages_of_every_way(ProcessGroup& world) {
  if (world.rank() == 2) return;
  const int other = 1 - world.rank();
  std::vector<float> values = numbers(kLarge, world.rank());
  std::vector<float> got(kLarge, 0);
  const auto exchange = [&](const TensorView& from, const TensorView& to, bool on_stream) {
    std::fill(got.begin(), got.end(), 0.0F);
    Work sent = send_to(world, from, other);
    Work recv = recv_from(world, to, other);
    std::string failure;
    for (Work* const work : {&sent, &recv}) {  // both are over before the tensors go
      try {
        on_stream&& work == &sent ? work->wait() : finish(std::move(*work));
      } catch (const Error& error) {
        failure = error.what();
      }
    }
    if (!failure.empty()) throw Error(Outcome(Errc::internal, failure));
    EXPECT_EQ(got, numbers(kLarge, other));
  };
  exchange(on_gpu(values), on_gpu(got), false);
  exchange(on_gpu(values), on_gpu(got), true);
  exchange(on_gpu(values), world.rank() == 0 ? on_gpu(got) : on_cpu(got), false);
}

TEST(MockDirectMessagesFaults, WhereMemoryCannotBeSharedTheyGoByWayOfTheHost) {
  const auto run = [](MockGpuWorld& mock) { run_direct(mock, few_parts(), messages_of_every_way); };
  const auto by_the_host = [](MockGpuWorld& mock) {
    return calls_of(mock, "cuMemHostRegister", 0) + calls_of(mock, "cuMemHostRegister", 1);
  };
  MockGpuWorld whole(kRanks);
  run(whole);
  const int usual = by_the_host(whole);
  int hits = 0;
  const auto check = [&](MockGpuWorld& mock, const Fault& /*fault*/, const std::string& text) {
    EXPECT_EQ(text, "");
    if (!mock.machine.was_hit()) return;
    ++hits;
    // In one direction they go by way of the host, besides the message that has to.
    EXPECT_GT(by_the_host(mock), usual);
  };
  plant_each<MockGpuWorld>(kSharing, {0, 1, 2}, {0, 1}, run, check);
  EXPECT_GE(hits, 12);
}

TEST(MockDirectMessagesFaults, AFailureOfAnyFunctionIsToldWithItsTextAndLeavesNothing) {
  std::vector<int> faulty;  // the sender of a message, its receiver
  for (const int rank : {0, 1}) {
    if (rank == static_cast<int>(rotation() % 2) || takes_case(0)) faulty.push_back(rank);
  }
  const int failed = expect_failures_told({"cuMemcpyAsync", "cuMemCreate"}, faulty,
                                          messages_of_every_way, few_parts());
  EXPECT_GT(failed, 10 * static_cast<int>(faulty.size()));
}

}  // namespace
}  // namespace tutti::test
