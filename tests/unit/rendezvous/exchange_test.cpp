#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <tutti/init.hpp>
#include <tutti/log.hpp>

#include "os/host.hpp"
#include "record/start_watch.hpp"
#include "rendezvous/rendezvous.hpp"
#include "store/request_store.hpp"
#include "store/tcp_client.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using tutti::Errc;
using tutti::rendezvous::exchange;

namespace {

using Texts = tutti::Result<std::vector<std::string>>;

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

struct Caller {
  int rank = 0;
  int size = 1;
};

// Each caller on a thread of its own, all on one store.
std::vector<Texts> run(tutti::Store& store, const std::vector<Caller>& callers,
                       std::chrono::milliseconds timeout = 10s) {
  std::vector<Texts> outcomes(callers.size(), tutti::Outcome());
  const auto deadline = in(timeout);
  tutti::test::in_threads(static_cast<int>(callers.size()), [&](int i) {
    const auto [rank, size] = callers[static_cast<std::size_t>(i)];
    outcomes[static_cast<std::size_t>(i)] =
        exchange(store, "addresses", rank, size, "blob " + std::to_string(rank), deadline);
  });
  return outcomes;
}

TEST(Exchange, EverybodyGetsAllInOrder) {
  for (int size : {1, 2, 3, 5, 8}) {
    auto store = tutti::make_hash_store();
    std::vector<Caller> callers;
    std::vector<std::string> blobs;
    for (int rank = 0; rank < size; ++rank) {
      callers.push_back({size - 1 - rank, size});
      blobs.push_back("blob " + std::to_string(rank));
    }
    for (const Texts& outcome : run(*store, callers)) {
      ASSERT_TRUE(outcome) << outcome.status().message();
      EXPECT_EQ(outcome.value(), blobs);
    }
  }
}

TEST(Exchange, BlobsAreAnyBytes) {
  for (const std::string& bytes : {std::string("\0T\xff\n", 4), std::string()}) {
    const auto store = tutti::make_hash_store();
    EXPECT_THAT(exchange(*store, "n", 0, 1, bytes, in(5s)).value(), ElementsAre(bytes));
  }
}

/// Each caller is told, and none waits for those who have not come where nobody can help.
void expect_told(const std::vector<Caller>& callers, Errc code,
                 const testing::Matcher<std::string>& text) {
  auto store = tutti::make_hash_store();
  const auto start = in(0s);
  for (const Texts& outcome : run(*store, callers, code == Errc::timeout ? 1s : 15s)) {
    EXPECT_EQ(outcome.status().code(), code);
    const std::string told(outcome.status().message());
    EXPECT_THAT(told, text);
    if (code != Errc::timeout) continue;
    EXPECT_THAT(told, HasSubstr(" s at " + store->describe() + "; w"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(Exchange, WhatIsWrongIsToldToAll) {
  expect_told({{0, 8}, {1, 8}, {3, 8}, {4, 8}, {6, 8}, {7, 8}}, Errc::timeout,
              AllOf(ContainsRegex("ranks 2, 5 of 8 have not joined after [0-9]+\\.[0-9]"),
                    HasSubstr("; were they started")));
  expect_told({{1, 3}, {2, 3}}, Errc::timeout,
              AllOf(HasSubstr("rank 0 of 3 has not joined after 1."),
                    HasSubstr("; was it started, with the same MASTER_ADDR and MASTER_PORT (or "
                              "init_method)? Survivors of a failure that have new ranks need a "
                              "new job name (InitOptions::job_name, group_name)")));
  // Rank 1 never comes: without the fault all would wait for it.
  expect_told({{0, 4}, {2, 4}, {3, 4}, {2, 4}}, Errc::disagreement,
              AllOf(HasSubstr("rank 2 of 4"), HasSubstr("two processes"),
                    HasSubstr("process " + std::to_string(getpid()))));
  expect_told({{0, 3}, {1, 3}, {0, 3}}, Errc::disagreement, testing::_);
  expect_told({{0, 3}, {1, 3}, {2, 4}}, Errc::disagreement,
              AllOf(HasSubstr("disagree on the number of processes"), HasSubstr("of 3"),
                    HasSubstr("of 4")));
}

/// Each line about a long wait is logged by one of the ranks.
TEST(Exchange, ALongWaitIsLoggedByOneRankAndNamesWhoIsMissing) {
  std::mutex mutex;
  std::vector<std::string> lines;
  tutti::set_log_sink([&](tutti::LogLevel, std::string_view text) {
    const std::lock_guard lock(mutex);
    if (text.starts_with("init of rank")) lines.emplace_back(text);
  });
  auto store = tutti::make_hash_store();
  tutti::test::in_threads(2, [&](int i) {
    tutti::record::StartWatch watch(200ms, true);
    const int rank = 2 * i;
    watch.show(rank, 4, "here");
    const auto outcome =
        exchange(*store, "addresses", rank, 4, "", std::chrono::steady_clock::now() + 2s, &watch);
    EXPECT_EQ(outcome.status().code(), Errc::timeout);
  });
  tutti::set_log_sink({});
  ASSERT_FALSE(lines.empty());
  EXPECT_LE(lines.size(), 4U) << "it is logged when a rank has waited twice as long";
  std::string line = lines.front();
  line.replace(line.find_first_of("02"), 1, "R");
  EXPECT_THAT(line, testing::MatchesRegex(
                        "init of rank R of 4 has waited for [0-9.]+ s: ranks 1, 3 have not joined "
                        "at " +
                        store->describe() + "; the others are on " + tutti::os::host_name() +
                        ". It goes on waiting; the next line in [0-9.]+ s"));
}

TEST(Exchange, WhoComesAfterTheFailureLearnsOfIt) {
  auto store = tutti::make_hash_store();
  run(*store, {{0, 2}}, 50ms);
  const auto late = exchange(*store, "addresses", 1, 2, "", in(5s));
  EXPECT_EQ(late.status().code(), Errc::timeout);
  EXPECT_THAT(late.status().message(), HasSubstr("rank 1 of 2 has not joined"));
}

// Its connection ends without a good-bye when it is let go, as that of a process that is killed.
// While `silent`, its server does not answer.
class AbruptStore final : public tutti::store::RequestStore<tutti::Store> {
 public:
  explicit AbruptStore(std::uint16_t port)
      : client_(std::move(tutti::store::TcpClient::connect(
                              {"127.0.0.1", port},
                              tutti::store::store_party({.job = tutti::store::kUnnamedJob,
                                                         .secret = tutti::job_secret()}),
                              Clock::now() + 5s))
                    .value()) {}

  std::atomic<bool> silent{false};

 protected:
  tutti::store::Response call(tutti::store::Request request, Deadline deadline) override {
    if (!silent) return client_->call(request, deadline);
    tutti::store::Response none;
    none.code = Errc::timeout;
    return none;
  }
  bool do_set_will(std::string_view key, std::string_view value, Deadline deadline) override {
    ask(tutti::store::Op::set_will, {std::string(key)}, {std::string(value)}, deadline);
    return true;
  }

 private:
  std::unique_ptr<tutti::store::TcpClient> client_;
};

TEST(Exchange, ARankThatIsLostIsToldToAllAtOnce) {
  for (const bool has_arrived : {false, true}) {
    auto store = tutti::make_tcp_store({.serve = true, .timeout = 20s});
    auto victim = std::make_unique<AbruptStore>(store->port());
    ASSERT_TRUE(tutti::rendezvous::set_exchange_will(*victim, "addresses", 2, 4));
    if (has_arrived) {
      // All it does in an exchange but for waiting.
      ASSERT_EQ(exchange(*victim, "addresses", 2, 4, "", in(0s)).status().code(), Errc::timeout);
      ASSERT_TRUE(store->delete_key("addresses/table"));
    }
    const std::jthread killer([&] {
      store->wait({"addresses/worker_address/0", "addresses/worker_address/1"});
      victim.reset();
    });
    const auto start = in(0s);
    for (const Texts& outcome : run(*store, {{0, 4}, {1, 4}}, 15s)) {
      EXPECT_EQ(outcome.status().code(), Errc::peer_lost);
      EXPECT_EQ(outcome.status().culprit(), 2);
      EXPECT_THAT(outcome.status().message(),
                  AllOf(HasSubstr("rank 2 of 4"),
                        HasSubstr("was lost during init: its connection to the store"),
                        HasSubstr("ended unexpectedly; look at that rank's output for the cause, "
                                  "and start the job again")));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  }
}

TEST(Exchange, AStoreThatDoesNotAnswerIsLoggedAndSurvived) {
  auto store = tutti::make_tcp_store({.serve = true, .timeout = 20s});
  AbruptStore pausing(store->port());
  const auto answer_again = [&] {
    pausing.silent = false;
    pausing.silent.notify_all();
  };
  std::string line;
  tutti::set_log_sink([&](tutti::LogLevel, std::string_view text) {
    if (text.find("does not answer") == std::string_view::npos) return;
    line = text;
    answer_again();
  });
  tutti::record::StartWatch watch(100ms, false);
  {
    const std::jthread late([&] {
      store->wait({"addresses/arrived"});
      pausing.silent = true;
      pausing.silent.wait(true);
      EXPECT_TRUE(exchange(*store, "addresses", 1, 2, "", in(20s)));
    });
    EXPECT_TRUE(exchange(pausing, "addresses", 0, 2, "", in(20s), &watch));
    answer_again();
  }
  tutti::set_log_sink({});
  EXPECT_THAT(line, testing::MatchesRegex(
                        "init of rank 0 of 2 has waited for [0-9.]+ s: the store does not answer; "
                        "look whether its process \\(rank 0, or tuttirun\\) is stopped, or the "
                        "network cut\\. It goes on waiting; the next line in [0-9.]+ s"));
}

TEST(Exchange, AWillIsTakenBackWhenAllHaveCome) {
  auto store = tutti::make_tcp_store({.serve = true, .timeout = 20s});
  for (const Texts& outcome : run(*store, {{0, 2}, {1, 2}})) ASSERT_TRUE(outcome);
  for (std::size_t i = 0; i < tutti::Store::kMaxWills; ++i)
    EXPECT_TRUE(store->set_will("will " + std::to_string(i), "x")) << "all places are free";
}

TEST(Exchange, WhoCannotComeSaysWhy) {
  auto store = tutti::make_hash_store();
  tutti::rendezvous::report_failure(*store, "addresses", 1, 3,
                                    tutti::Outcome(Errc::invalid_argument, "no such address"));
  for (const Texts& outcome : run(*store, {{0, 3}, {2, 3}}, 15s)) {
    EXPECT_EQ(outcome.status().code(), Errc::peer_left);
    EXPECT_EQ(outcome.status().culprit(), 1);
    EXPECT_THAT(outcome.status().message(),
                AllOf(HasSubstr("rank 1 of 3"), HasSubstr(" has given up: no such address")));
  }
}

TEST(Exchange, TheTableIsMadeEvenIfHeWhoCameLastIsStopped) {
  auto store = tutti::make_hash_store();
  const std::jthread stopped([&] {
    store->wait("addresses/arrived");
    store->set("addresses/worker_address/1", "blob 1");
    store->add("addresses/arrived", 1);
  });
  const auto outcome = exchange(*store, "addresses", 0, 2, "blob 0", in(10s));
  ASSERT_TRUE(outcome) << outcome.status().message();
  EXPECT_THAT(outcome.value(), ElementsAre("blob 0", "blob 1"));
}

// A rank of another host writes what it likes.
TEST(Exchange, WhatOthersTellStaysOnOneLine) {
  const std::string theirs = "a\x1b[2J\nb";
  const std::string shown = R"(a\x1b[2J\x0ab)";
  for (const auto& [key, value] : {std::pair(std::string("n/table"), "E9 -1 " + theirs),
                                   {"n/size", "3 rank 1 (" + theirs + ")"},
                                   {"n/rank/0", theirs + "#1#2#3"}}) {
    auto store = tutti::make_hash_store();
    store->set(key, value);
    const auto outcome = exchange(*store, "n", 0, 2, "", in(1s));
    EXPECT_THAT(outcome.status().message(), HasSubstr(shown)) << key;
  }
  std::string line;
  tutti::set_log_sink([&](tutti::LogLevel, std::string_view text) { line = text; });
  auto store = tutti::make_hash_store();
  store->set("n/rank/1", "process 1 on host " + theirs + "#1#2#3");
  tutti::record::StartWatch watch(10ms, true);
  EXPECT_FALSE(exchange(*store, "n", 0, 3, "", in(1s), &watch));
  tutti::set_log_sink({});
  EXPECT_THAT(line, HasSubstr(shown + ", " + tutti::os::host_name()));
}

TEST(Exchange, SenselessArgumentsAreRefused) {
  auto store = tutti::make_hash_store();
  for (const auto& [name, rank, size] :
       {std::tuple("n", 2, 2), {"n", -1, 2}, {"n", 0, 0}, {"", 0, 1}})
    EXPECT_EQ(exchange(*store, name, rank, size, "", in(1s)).status().code(),
              Errc::invalid_argument);
}

TEST(Exchange, ForeignDataIsAnErrorNotACrash) {
  for (const std::string& junk :
       {std::string("T\xff\xff\xff\xff\xff\xff\xff\x7f"), std::string("E"), std::string("E99 x"),
        std::string("?"), std::string("Tshort")}) {
    auto store = tutti::make_hash_store();
    store->set("n/table", junk);
    EXPECT_EQ(exchange(*store, "n", 1, 2, "", in(5s)).status().code(), Errc::store) << junk;
  }
}

}  // namespace
