#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/executor.hpp>
#include <tutti/launch.hpp>

#include "support/called_back.hpp"
#include "support/coroutine.hpp"

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

constexpr int kSizes[] = {1, 2, 3, 5};

TEST(Work, TriesToWait) {
  for (const int size : kSizes) {
    run_threads(size, [size](ProcessGroup& world) {
      if (world.rank() != 0) {
        int token = 0;
        world.recv(std::span(&token, 1), 0);
      }
      std::vector<int> values(3, 1);
      Work work = world.all_reduce(values);
      OwningWork<std::vector<int>> owning = world.all_reduce(std::vector<int>(3, 2));
      if (world.rank() == 0 && size > 1) {
        EXPECT_EQ(work.try_wait(), std::nullopt);
        EXPECT_EQ(owning.try_wait(), std::nullopt);
        const int token = 0;
        for (int rank = 1; rank < size; ++rank) world.send(std::span(&token, 1), rank);
      }
      std::optional<Outcome> outcome;
      while (!(outcome = work.try_wait())) {
      }
      EXPECT_TRUE(outcome->ok());
      EXPECT_EQ(values, std::vector<int>(3, size));
      test::Heard heard;
      EXPECT_THROW(work.on_done(heard.callback()), InvalidArgument) << "it was told";
      EXPECT_TRUE(work.try_wait().value().ok());
      work.wait();
      std::optional<std::vector<int>> sum;
      while (!(sum = owning.try_wait())) {
      }
      EXPECT_EQ(*sum, std::vector<int>(3, 2 * size));
      EXPECT_THROW((void)owning.try_wait(), InvalidArgument) << "it was taken";
      ProcessGroup alone = world.split(world.rank());
      alone.abort("enough");
      Work broken = alone.barrier();
      while (!(outcome = broken.try_wait())) {
      }
      EXPECT_EQ(outcome->code(), Errc::aborted);
      EXPECT_THROW(broken.wait(), BackendError);
      EXPECT_THROW((void)alone.broadcast(std::vector<int>(1)).wait(), BackendError);
    });
  }
  EXPECT_TRUE(Work().try_wait().value().ok());
}

TEST(Work, OwnsTheVectorOfItsOperation) {
  for (const int size : kSizes) {
    run_threads(size, [size](ProcessGroup& world) {
      const int rank = world.rank();
      const int last = size - 1;
      std::vector<int> values(1000, rank + 1);
      const int* const memory = values.data();
      OwningWork<std::vector<int>> work = world.all_reduce(std::move(values));
      OwningWork<std::vector<int>> moved = std::move(work);
      values = moved.wait();
      EXPECT_EQ(values.data(), memory) << "nothing was copied";
      EXPECT_EQ(values, std::vector<int>(1000, size * (size + 1) / 2));
      EXPECT_EQ(world.broadcast(std::vector<int>(2, rank), {.root = last}).wait()[1], last);
      const auto least = world.reduce(std::vector<int>{rank}, {.root = last, .op = ReduceOp::min});
      (void)least.done();
      EXPECT_EQ(world.reduce(std::vector<int>{7 + rank}, {.op = ReduceOp::max}).wait()[0],
                rank == 0 ? 6 + size : 7 + rank);
      EXPECT_EQ(world.scan(std::vector<int>{1}).wait()[0], rank + 1);
      using At = ValueAt<double>;
      EXPECT_EQ(
          world.all_reduce(std::vector<At>{{-1. * rank, rank}}, min_loc<double>()).wait()[0].at,
          last);
      EXPECT_EQ(world.scan(std::vector<At>{{1. * rank, rank}}, max_loc<double>()).wait()[0].at,
                rank);
      const auto greatest =
          world.reduce(std::vector<At>{{1. * rank, rank}}, max_loc<double>(), {.root = last})
              .wait();
      EXPECT_EQ(greatest[0].at, rank);  // on the root, and what the others gave
      // Lists of several buffers, by braces and as a range.
      std::vector<std::vector<int>> rows(3, std::vector<int>(2, 1));
      world.all_reduce_coalesced(rows).wait();
      world.all_reduce_coalesced({rows[0], rows[1]}, {.op = ReduceOp::max}).wait();
      EXPECT_EQ(rows, std::vector(3, std::vector<int>(2, size)));
      rows[0][0] = values[0] = rank;
      world.broadcast_coalesced(rows, {.root = last}).wait();
      world.broadcast_coalesced({rows[1], values}, {.root = last}).wait();
      EXPECT_EQ(rows[0][0] + values[0], 2 * last);
      // A call that throws takes nothing.
      EXPECT_THROW((void)world.all_reduce(std::move(values), {.timeout = -1s}), InvalidArgument);
      EXPECT_EQ(values.size(), 1000U);  // NOLINT: that it was not moved from
    });
  }
}

/// Keeps what is to run until a thread asks for it.
class Queue {
 public:
  Executor executor() {
    return [this](std::function<void()> run) {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(run));
      changed_.notify_all();
    };
  }
  std::function<void()> next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 30s, [this] { return !queue_.empty(); }));
    if (queue_.empty()) return [] {};
    std::function<void()> first = std::move(queue_.front());
    queue_.erase(queue_.begin());
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> queue_;
};

/// Where a coroutine has gone on, and what it was told.
struct Passed {
  std::vector<std::thread::id> threads;
  std::vector<std::string> errors;
};

test::Coroutine go_on(ProcessGroup& world, ProcessGroup& broken, Queue& queue, Passed& passed) {
  for (int i = 0; i < 2; ++i) {
    const auto sum =
        co_await resume_on(queue.executor(), world.all_reduce(std::vector<int>(1, i + 1)));
    EXPECT_EQ(sum[0], world.size() * (i + 1));
    passed.threads.push_back(std::this_thread::get_id());
  }
  Work work = world.barrier();
  work.wait();
  co_await resume_on(queue.executor(), work);  // done already, and told
  passed.threads.push_back(std::this_thread::get_id());
  const Executor throwing = [](const std::function<void()>&) { throw std::logic_error("full"); };
  const Executor dropping = [](const std::function<void()>&) {};
  const Executor twice = [](const std::function<void()>& run) { run(), run(); };
  const Executor executors[] = {throwing, dropping, twice};
  for (const Executor& executor : executors) {
    try {
      co_await resume_on(executor, world.barrier());
      passed.errors.emplace_back("none");
    } catch (const std::exception& error) {
      passed.errors.emplace_back(error.what());
    }
  }
  EXPECT_THROW((void)resume_on(Executor(), work), InvalidArgument);
  try {
    co_await resume_on(queue.executor(), broken.barrier());
  } catch (const BackendError& error) {
    passed.threads.push_back(std::this_thread::get_id());
  }
}

TEST(Work, ResumesACoroutineWhereTheExecutorSays) {
  for (const int size : kSizes) {
    run_threads(size, [size](ProcessGroup& world) {
      ProcessGroup broken = world.split(world.rank());
      broken.abort("enough");
      Queue queue;
      Passed passed;
      go_on(world, broken, queue, passed);
      const std::thread::id here = std::this_thread::get_id();
      for (std::size_t i = 0; i < 4; ++i) {
        const std::function<void()> run = queue.next();
        EXPECT_EQ(passed.threads, std::vector(i, here)) << "it goes on where the queue is emptied";
        run();
      }
      EXPECT_EQ(passed.threads, std::vector(4, here));
      const std::string dropped = "co_await: the executor of resume_on has dropped the coroutine";
      EXPECT_EQ(passed.errors, (std::vector<std::string>{"full", dropped, "none"}));
      EXPECT_EQ(world.all_reduce(std::vector<int>{1}).wait()[0], size) << "the group goes on";
    });
  }
}

}  // namespace
}  // namespace tutti
