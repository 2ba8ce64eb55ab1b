#include <gmock/gmock.h>

#include <mutex>

#include "support/called_back.hpp"
#include "support/coroutine.hpp"
#include "support/thread_worlds.hpp"
#include "unit/group/error_text.hpp"

// Works of reductions by an op of the caller's: when and where the function runs, and what ends it.
namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Heard;
using test::text_of;

constexpr auto kLongLimit = seconds(60);  // nothing takes so long

/// Neither commutative nor associative.
std::uint64_t appended(std::uint64_t a, std::uint64_t b) { return a * 31 + b + 1; }

std::uint64_t appended_all(int size, std::uint64_t of_first) {
  std::uint64_t value = of_first;
  for (int r = 1; r < size; ++r) value = appended(value, of_first + static_cast<std::uint64_t>(r));
  return value;
}

const UserOp& appending() {
  static const UserOp op = UserOp::of<std::uint64_t>("appended", appended);
  return op;
}

UserOp failing() {
  return UserOp("failing", [](const TensorView&, const TensorView&) {
    throw std::out_of_range("it does not add up");
  });
}

using Numbers = std::vector<std::uint64_t>;

Numbers own(const ProcessGroup& world, std::size_t count, std::uint64_t first) {
  return Numbers(count, first + static_cast<std::uint64_t>(world.rank()));
}

/// Threads that run one thing each, joined in the end.
class Threads {
 public:
  ~Threads() {
    std::vector<std::jthread> all;  // are joined without the lock
    // A thread may have done its part before the executor that has started it returns.
    const std::lock_guard lock(mutex_);
    all.swap(all_);
  }
  Executor executor() {
    return [this](std::function<void()> run) {
      const std::lock_guard lock(mutex_);
      all_.emplace_back(std::move(run));
    };
  }
  [[nodiscard]] bool has(std::thread::id id) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(all_, [&](const auto& one) { return one.get_id() == id; });
  }

 private:
  std::mutex mutex_;
  std::vector<std::jthread> all_;
};

TEST(UserOpWorks, AreManyAtATimeAndWaitedForInAnyOrder) {
  for (const int size : test::world_sizes()) {
    test::World{size}.run([&](ProcessGroup& world) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{20'001}}) {
        SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " elements");
        constexpr std::uint64_t kCalls = 12;  // more than run at a time
        std::vector<Numbers> buffers;
        for (std::uint64_t i = 0; i < kCalls; ++i) buffers.push_back(own(world, count, 100 * i));
        Numbers input;
        for (int r = 0; r < size; ++r) {
          const Numbers block = own(world, count, 1000 * static_cast<std::uint64_t>(r));
          input.insert(input.end(), block.begin(), block.end());
        }
        Numbers output(count);
        Numbers at_root = own(world, count, 7);
        const Numbers before = at_root;
        const int root = size - 1;
        std::vector<Work> works;
        for (Numbers& buffer : buffers) works.push_back(world.all_reduce(buffer, appending()));
        works.push_back(world.reduce_scatter(output, input, appending()));
        works.push_back(world.reduce(at_root, appending(), {.root = root}));
        // Even ranks from the last one on: no rank needs another's function.
        for (std::size_t i = 0; i < works.size(); ++i)
          works[world.rank() % 2 == 0 ? works.size() - 1 - i : i].wait();
        for (std::uint64_t i = 0; i < kCalls; ++i)
          EXPECT_EQ(buffers[i], Numbers(count, appended_all(size, 100 * i)));
        const auto mine = static_cast<std::uint64_t>(world.rank());
        EXPECT_EQ(output, Numbers(count, appended_all(size, 1000 * mine)));
        EXPECT_EQ(at_root, world.rank() == root ? Numbers(count, appended_all(size, 7)) : before);
      }
    });
  }
}

TEST(UserOpWorks, RunTheFunctionOnTheThreadThatWaitsOrLooks) {
  test::World{3}.run([&](ProcessGroup& world) {
    std::vector<std::thread::id> threads;
    const UserOp op("noted", [&](const TensorView&, const TensorView&) {
      threads.push_back(std::this_thread::get_id());
    });
    const std::vector<std::thread::id> here(2, std::this_thread::get_id());
    for (const auto& end : std::vector<std::function<void(Work&)>>{
             [](Work& work) { work.wait(); },
             [](Work& work) { ASSERT_TRUE(work.wait_for(kLongLimit)); },
             [](Work& work) { test::wait_for([&] { return work.done(); }); },
             [](Work& work) { const Work dropped = std::move(work); }}) {
      Numbers buffer(4);
      Work work = world.all_reduce(buffer, op);
      EXPECT_TRUE(threads.empty());  // not in the call
      end(work);
      EXPECT_EQ(threads, here);
      threads.clear();
    }
  });
}

/// The inputs have come, but the buffer is the caller's until its thread combines.
TEST(UserOpWorks, LeaveTheBufferAloneUntilThen) {
  test::World{2}.run([&](ProcessGroup& world) {
    Numbers buffer = own(world, 4, 0);
    const Numbers before = buffer;
    Work work = world.all_reduce(buffer, appending());
    world.barrier().wait();  // so it has moved
    EXPECT_EQ(buffer, before);
    work.wait();
    EXPECT_EQ(buffer, Numbers(4, appended_all(2, 0)));
  });
}

TEST(UserOpWorks, RunTheFunctionInTheExecutorAsSoonAsTheInputsAreThere) {
  for (const int size : test::world_sizes()) {
    Threads threads;
    std::atomic<int> ended{0};
    test::World{size}.run([&](ProcessGroup& world) {
      const UserOp op("in the executor", [&](const TensorView& result, const TensorView& next) {
        EXPECT_TRUE(threads.has(std::this_thread::get_id()));
        auto* const to = static_cast<std::uint64_t*>(result.data());
        for (std::size_t i = 0; i < result.count(); ++i)
          to[i] = appended(to[i], static_cast<const std::uint64_t*>(next.data())[i]);
      });
      Numbers buffer = own(world, 10'001, 5);
      Heard combined;
      {
        Work work = world.all_reduce(buffer, op, {.executor = threads.executor()});
        work.on_done(combined.callback());
        combined.wait();  // though nobody waits for the Work
        EXPECT_TRUE(combined.status.ok());
        work.wait();
      }
      EXPECT_EQ(buffer, Numbers(10'001, appended_all(size, 5)));
      // And who waits gets the result of that thread.
      world.all_reduce(buffer = own(world, 3, 6), op, {.executor = threads.executor()}).wait();
      EXPECT_EQ(buffer, Numbers(3, appended_all(size, 6)));
      ++ended;
    });
    EXPECT_EQ(ended, size);
  }
}

TEST(UserOpWorks, TellAnExecutorThatThrowsOrDropsTheFunction) {
  test::World{2}.run([&](ProcessGroup& world) {
    Numbers buffer = own(world, 4, 0);
    const Numbers before = buffer;
    const Executor throwing = [](const std::function<void()>&) {
      throw std::runtime_error("no threads");
    };
    Work work = world.all_reduce(buffer, appending(), {.executor = throwing});
    EXPECT_EQ(text_of<std::runtime_error>([&] { work.wait(); }), "no threads");
    const Executor dropping = [](const std::function<void()>&) {};
    work = world.all_reduce(buffer, appending(), {.executor = dropping});
    EXPECT_EQ(text_of<BackendError>([&] { work.wait(); }),
              "all_reduce(op 'appended', uint64 x 4) in group 'world': the executor has dropped "
              "its op on rank " +
                  std::to_string(world.rank()));
    const Executor twice = [](const std::function<void()>& run) { run(), run(); };
    EXPECT_EQ(buffer, before);
    world.all_reduce(buffer, appending(), {.executor = twice}).wait();
    EXPECT_EQ(buffer, Numbers(4, appended_all(2, 0)));
    EXPECT_TRUE(world.health().ok());
  });
}

TEST(UserOpWorks, KeepTheExceptionOfTheFunction) {
  const UserOp op = failing();
  test::World{2}.run([&](ProcessGroup& world) {
    Numbers buffer = own(world, 4, 0);
    const Numbers before = buffer;
    for (const bool in_executor : {false, true}) {
      Threads threads;
      Work work =
          world.all_reduce(buffer, op, {.executor = in_executor ? threads.executor() : Executor()});
      for (int i = 0; i < 2; ++i)  // the same answer each time
        EXPECT_EQ(text_of<std::out_of_range>([&] { work.wait(); }), "it does not add up");
      const Outcome error = work.error();
      EXPECT_EQ(error.code(), Errc::aborted);
      EXPECT_EQ(error.culprit(), world.rank());
      EXPECT_EQ(error.message(),
                "all_reduce(op 'failing', uint64 x 4) in group 'world': its op "
                "failed on rank " +
                    std::to_string(world.rank()) + ": it does not add up");
      EXPECT_EQ(buffer, before);
    }
    EXPECT_TRUE(world.health().ok());
    Work unknown = world.all_reduce(
        buffer,
        UserOp("failing with a number", [](const TensorView&, const TensorView&) { throw 3; }));
    EXPECT_THROW(unknown.wait(), int);
  });
}

TEST(UserOpWorks, CallBackWhenTheFunctionHasRun) {
  const UserOp fails_always = failing();
  test::World{3}.run([&](ProcessGroup& world) {
    Numbers buffer = own(world, 4, 0);
    Heard heard[3];
    Work work = world.all_reduce(buffer, appending());
    work.on_done(heard[0].callback());
    work.on_done(heard[1].callback());
    heard[0].wait();
    heard[1].wait();
    EXPECT_NE(heard[0].thread, std::this_thread::get_id());
    EXPECT_EQ(buffer, Numbers(4, appended_all(3, 0)));
    ASSERT_TRUE(work.done());
    work.on_done(heard[2].callback());  // it is done already
    heard[2].wait();
    work.wait();
    EXPECT_EQ(buffer, Numbers(4, appended_all(3, 0)));

    Heard bad;
    Work fails = world.all_reduce(buffer, fails_always);
    fails.on_done(bad.callback());
    bad.wait();
    EXPECT_EQ(bad.status.code(), Errc::aborted);
    EXPECT_EQ(text_of<std::out_of_range>([&] { fails.wait(); }), "it does not add up");
  });
}

/// Both want to combine: one does, and both see the result.
TEST(UserOpWorks, CombineOnceWhereAThreadWaitsAndOneIsToBeCalledBack) {
  test::World{2}.run([&](ProcessGroup& world) {
    for (int i = 0; i < 200; ++i) {
      std::atomic<int> calls{0};
      const UserOp op("counted", [&](const TensorView&, const TensorView&) { ++calls; });
      Numbers buffer(4);
      Heard heard;
      Work work = world.all_reduce(buffer, op);
      work.on_done(heard.callback());
      work.wait();
      EXPECT_EQ(calls, 1);
      heard.wait();
    }
  });
}

test::Coroutine await(Work work, std::binary_semaphore& done) {
  co_await work;
  done.release();
}

TEST(UserOpWorks, ResumeACoroutine) {
  test::World{2}.run([&](ProcessGroup& world) {
    Numbers buffer = own(world, 4, 0);
    std::binary_semaphore done{0};
    await(world.all_reduce(buffer, appending()), done);
    ASSERT_TRUE(done.try_acquire_for(kLongLimit));
    EXPECT_EQ(buffer, Numbers(4, appended_all(2, 0)));
  });
}

TEST(UserOpWorks, GoOnWhenTheyAreDetached) {
  // Nobody tells when the operation is done, so what it uses stays.
  static Numbers buffers[2][2];
  static std::binary_semaphore combined[2][2] = {
      {std::binary_semaphore(0), std::binary_semaphore(0)},
      {std::binary_semaphore(0), std::binary_semaphore(0)}};
  test::World{2}.run([&](ProcessGroup& world) {
    for (const bool in_executor : {false, true}) {
      Threads threads;
      auto& done = combined[in_executor][world.rank()];
      const UserOp op("noted", [&done](const TensorView&, const TensorView&) { done.release(); });
      Numbers& buffer = buffers[in_executor][world.rank()];
      buffer.resize(4);
      world.all_reduce(buffer, op, {.executor = in_executor ? threads.executor() : Executor()})
          .detach();
      ASSERT_TRUE(done.try_acquire_for(kLongLimit));
      world.barrier().wait();
    }
  });
}

TEST(UserOpWorks, HaveTheTimeoutOfTheInputsAndNotOfTheFunction) {
  test::World{2}.run([&](ProcessGroup& world) {
    std::atomic<int> calls{0};
    const UserOp slow("slow", [&](const TensorView&, const TensorView&) {
      const auto end = std::chrono::steady_clock::now() + milliseconds(300);
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
      ++calls;
    });
    Numbers buffer(4);
    ProcessGroup group = world.new_group({0, 1});
    // Longer than `wait_for` is told: the function is not interrupted.
    Work work = group.all_reduce(buffer, slow);
    while (!work.wait_for(milliseconds(1))) {
    }
    EXPECT_EQ(calls, 1);
    // A rank that does not come.
    if (world.rank() == 0) {
      Work late = group.all_reduce(buffer, slow, {.timeout = milliseconds(50)});
      EXPECT_THAT(text_of<TimeoutError>([&] { late.wait(); }), testing::HasSubstr("rank 1"));
      EXPECT_EQ(late.error().code(), Errc::timeout);
    }
    EXPECT_EQ(calls, 1);
    world.barrier().wait();
  });
}

TEST(UserOpWorks, FailWithTheGroupOnlyWhileTheInputsMove) {
  test::World{2}.run([&](ProcessGroup& world) {
    ProcessGroup group = world.new_group({0, 1});
    Numbers moved = own(world, 4, 0);
    std::function<void()> combines;
    std::binary_semaphore come{0};
    Work has_come =
        group.all_reduce(moved, appending(), {.executor = [&](std::function<void()> run) {
                           combines = std::move(run);
                           come.release();
                         }});
    ASSERT_TRUE(come.try_acquire_for(kLongLimit));
    world.barrier().wait();  // they have come everywhere
    Numbers not_moved = own(world, 4, 0);
    const Numbers before = not_moved;
    Heard heard;
    if (world.rank() == 0) {
      Work never = group.all_reduce(not_moved, appending());
      never.on_done(heard.callback());
      group.abort("enough");
      EXPECT_THAT(text_of<BackendError>([&] { never.wait(); }), testing::HasSubstr("enough"));
      heard.wait();
      EXPECT_EQ(heard.status.code(), Errc::aborted);
      EXPECT_EQ(not_moved, before);
      Threads threads;
      Work broken = group.all_reduce(not_moved, appending(), {.executor = threads.executor()});
      EXPECT_THROW(broken.wait(), BackendError);
    }
    world.barrier().wait();
    combines();
    has_come.wait();
    EXPECT_EQ(moved, Numbers(4, appended_all(2, 0)));
  });
}

/// Its last handle and the Work go while the operation waits for a rank.
TEST(UserOpWorks, EndWithTheirGroup) {
  test::World{2}.run([&](ProcessGroup& world) {
    ProcessGroup group = world.new_group({0, 1});
    Numbers buffer = own(world, 4, 0);
    Heard heard;
    if (world.rank() == 0) {
      Work work = group.all_reduce(buffer, appending());
      work.on_done(heard.callback());
      work.detach();
      group = {};
      heard.wait();
      EXPECT_EQ(heard.status.code(), Errc::aborted);
      EXPECT_EQ(buffer, own(world, 4, 0));
    }
    world.barrier().wait();
  });
}

/// A Work that an exception drops does not wait for a rank that will not come.
TEST(UserOpWorks, AbortTheGroupWhereAnExceptionDropsThem) {
  test::World{2}.run([&](ProcessGroup& world) {
    ProcessGroup group = world.new_group({0, 1});
    if (world.rank() == 0) {
      Numbers buffer = own(world, 4, 0);
      try {
        const Work work = group.all_reduce(buffer, appending());
        throw std::runtime_error("elsewhere");
      } catch (const std::runtime_error&) {
      }
      EXPECT_EQ(group.health().code(), Errc::aborted);
    }
    world.barrier().wait();
  });
}

/// The function has no lock of the library. Of many groups and threads at once: each function waits
/// for an operation of another group.
TEST(UserOpWorks, MayWaitForOtherOperationsInTheFunction) {
  test::World{3}.run([&](ProcessGroup& world) {
    ProcessGroup other = world.new_group({0, 1, 2});
    const UserOp op("talking", [&](const TensorView&, const TensorView&) {
      Numbers inner(2);
      other.all_reduce(inner, appending()).wait();
    });
    Threads threads;
    Numbers buffer(4);
    Work called_back = world.all_reduce(buffer, op);
    Heard heard;
    called_back.on_done(heard.callback());
    heard.wait();
    EXPECT_TRUE(heard.status.ok());
    called_back.wait();
    world.all_reduce(buffer, op, {.executor = threads.executor()}).wait();
    world.all_reduce(buffer, op).wait();
  });
}

}  // namespace
}  // namespace tutti
