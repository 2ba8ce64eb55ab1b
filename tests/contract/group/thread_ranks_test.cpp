#include "programs.hpp"

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <exception>
#include <future>
#include <mutex>
#include <string>

#include "support/rotation.hpp"
#include "support/sanitized.hpp"

// Ranks as threads over the real mapping: what tsan can see.
namespace tutti {
namespace {

constexpr int kRounds = test::kSanitized ? 6 : 30;

class ThreadRanks : public testing::TestWithParam<int> {};

TEST_P(ThreadRanks, GiveKnownResultsInAnyOrderOfWaiting) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    run_threads(GetParam(),
                [&](ProcessGroup& world) { test::run_program(world, seed, kRounds, 120'000); });
  }
}

TEST_P(ThreadRanks, GiveTheSameOverTcp) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  run_threads(
      GetParam(), [&](ProcessGroup& world) { test::run_program(world, 5, kRounds, 120'000); },
      config);
}

TEST_P(ThreadRanks, GiveTheSameEncrypted) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  config.tls = true;
  run_threads(
      GetParam(), [&](ProcessGroup& world) { test::run_program(world, 5, kRounds, 120'000); },
      config);
}

TEST_P(ThreadRanks, AddInOneOrderWhateverTheSizeAndTransport) {
  // 1e8 + 1 rounds in float32, so the order shows in the bits.
  const auto run = [&](Config::TransportChoice transport, std::size_t count) {
    std::mutex mutex;
    std::vector<float> results;
    Config config;
    config.transport = transport;
    run_threads(
        GetParam(),
        [&](ProcessGroup& world) {
          std::vector<float> v(
              count, world.rank() % 2 == 0 ? 1e8F : 1.25F + static_cast<float>(world.rank()));
          world.all_reduce(v).wait();
          const std::lock_guard lock(mutex);
          for (const float x : v) {
            if (results.empty() || x != results.front()) results.push_back(x);
          }
        },
        config);
    EXPECT_EQ(results.size(), 1U) << "ranks or elements differ";
    return results.front();
  };
  const float small = run(Config::TransportChoice::automatic, 2);
  for (const std::size_t count : {std::size_t{900}, std::size_t{20'000}, std::size_t{300'000}}) {
    EXPECT_EQ(run(Config::TransportChoice::automatic, count), small) << count;
    EXPECT_EQ(run(Config::TransportChoice::tcp, count), small) << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadRanks, testing::ValuesIn(test::world_sizes()));

/// One rank calls something else; all must learn it, in this call or the next, naming both.
struct Disagreement {
  const char* name;
  void (*call)(ProcessGroup&, bool odd_one, std::vector<float>&);
  bool next = false;  ///< somebody may only learn it at the next call
};
void PrintTo(const Disagreement& d, std::ostream* out) { *out << d.name; }

class Disagreeing
    : public testing::TestWithParam<std::tuple<Disagreement, int, Config::TransportChoice>> {};

TEST_P(Disagreeing, RanksAllGetAnErrorThatNamesBoth) {
  const auto& [what, size, transport] = GetParam();
  Config config;
  config.transport = transport;
  config.timeout = std::chrono::seconds(20);
  std::atomic<int> errors{0};
  std::atomic<int> named{0};
  std::atomic<int> changed{0};
  const auto call = what.call;
  run_threads(
      size,
      [&, n = size](ProcessGroup& world) {
        std::vector<float> data(64, static_cast<float>(world.rank()));
        try {
          call(world, world.rank() == n - 1, data);
          std::vector<float> next(1);
          world.all_reduce(next).wait();
          world.barrier().wait();
        } catch (const DisagreementError& error) {
          ++errors;
          const std::string text = error.what();
          if (text.find(" called ") != std::string::npos) ++named;
        }
        EXPECT_FALSE(world.health().ok());
        if (data != std::vector<float>(64, static_cast<float>(world.rank()))) ++changed;
      },
      config);
  EXPECT_EQ(errors, size);
  EXPECT_EQ(named, size);
  if (std::string(what.name) != "Root") {  // two roots: whoever gets from the other may be right to
    EXPECT_EQ(changed, 0) << "an output was written";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Disagreeing,
                         testing::Combine(
                             testing::Values(
                                 Disagreement{"Kind",
                                              [](ProcessGroup& w, bool odd, std::vector<float>& d) {
                                                if (odd)
                                                  w.barrier().wait();
                                                else
                                                  w.all_reduce(d).wait();
                                              }},
                                 Disagreement{"Dtype",
                                              [](ProcessGroup& w, bool odd, std::vector<float>& d) {
                                                if (odd)
                                                  w.all_reduce(
                                                       TensorView(d.data(), DType::int32, d.size()))
                                                      .wait();
                                                else
                                                  w.all_reduce(d).wait();
                                              }},
                                 Disagreement{
                                     "Count",
                                     [](ProcessGroup& w, bool odd, std::vector<float>& d) {
                                       w.all_reduce(std::span(d).first(odd ? 32 : 64)).wait();
                                     }},
                                 Disagreement{"Op",
                                              [](ProcessGroup& w, bool odd, std::vector<float>& d) {
                                                w.all_reduce(
                                                     d, {.op = odd ? ReduceOp::max : ReduceOp::sum})
                                                    .wait();
                                              }},
                                 Disagreement{"Root",
                                              [](ProcessGroup& w, bool odd, std::vector<float>& d) {
                                                w.broadcast(d, {.root = odd ? w.size() - 1 : 0})
                                                    .wait();
                                              }},
                                 Disagreement{"Order",
                                              [](ProcessGroup& w, bool odd, std::vector<float>& d) {
                                                if (odd) w.barrier().wait();
                                                w.all_reduce(d).wait();
                                                if (!odd) w.barrier().wait();
                                              }}),
                             testing::Values(2, 3, 8),
                             testing::Values(Config::TransportChoice::automatic,
                                             Config::TransportChoice::tcp)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).name) +
                                  std::to_string(std::get<1>(one.param)) +
                                  (std::get<2>(one.param) == Config::TransportChoice::tcp ? "Tcp"
                                                                                          : "Shm");
                         });

class ThreadRanksStrict : public testing::TestWithParam<Config::TransportChoice> {};

INSTANTIATE_TEST_SUITE_P(Transports, ThreadRanksStrict,
                         testing::Values(Config::TransportChoice::automatic,
                                         Config::TransportChoice::tcp));

TEST_P(ThreadRanksStrict, LetNobodyReturnBeforeAllWereCompared) {
  Config config;
  config.transport = GetParam();
  config.agree = Config::Agree::strict;
  config.timeout = std::chrono::seconds(20);
  std::atomic<bool> looked{false};
  std::atomic<int> errors{0};
  run_threads(
      3,
      [&](ProcessGroup& world) {
        std::vector<float> data(8, 1);
        const bool odd = world.rank() == 2;
        while (odd && !looked) std::this_thread::yield();
        try {  // the root of a broadcast alone would not wait for anybody
          Work work = world.broadcast(std::span(data).first(odd ? 4 : 8));
          if (world.rank() == 0) {
            EXPECT_FALSE(work.wait_for(std::chrono::milliseconds(100))) << "one has not come yet";
            looked = true;
          }
          work.wait();
        } catch (const DisagreementError&) {
          ++errors;
        }
      },
      config);
  EXPECT_EQ(errors, 3);
}

/// A coroutine whose end somebody waits for.
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Task add_twice(ProcessGroup& world, std::vector<int>& data, std::promise<std::string>& end) {
  try {
    co_await world.all_reduce(data);
    co_await world.all_reduce(data);
    co_await world.barrier();  // who comes to the next one knows that all have the second sum
    co_await world.all_reduce(std::span(data).first(world.rank() == 0 ? 1 : 2));
    end.set_value("no error");
  } catch (const DisagreementError&) {
    end.set_value("disagreement");
  }
}

TEST(ThreadRanksCoroutine, IsResumedAndGetsTheError) {
  run_threads(3, [](ProcessGroup& world) {
    std::vector<int> data(5000, 1);
    std::promise<std::string> end;
    std::future<std::string> ended = end.get_future();
    add_twice(world, data, end);
    ASSERT_EQ(ended.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_EQ(ended.get(), "disagreement");
    EXPECT_EQ(data, std::vector<int>(5000, 9));
  });
}

}  // namespace
}  // namespace tutti
