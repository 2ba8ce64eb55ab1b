// What every store promises: one body, one line per store at the end.

#include <gmock/gmock.h>
#include <tutti/store.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "support/temporary_folder.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tutti::Store;
using tutti::test::in_threads;

namespace {

// As a user would write one: only what is pure. Shows that the built-in rest is correct.
class PlainStore final : public Store {
 protected:
  void do_set(std::string_view key, std::string_view value, Deadline deadline) override {
    inner_->set(key, value, left(deadline));
  }
  std::string do_get(std::string_view key, Deadline deadline) override {
    return inner_->get(key, left(deadline));
  }
  std::int64_t do_add(std::string_view key, std::int64_t amount, Deadline deadline) override {
    return inner_->add(key, amount, left(deadline));
  }
  bool do_check(std::span<const std::string> keys, Deadline deadline) override {
    return inner_->check(keys, left(deadline));
  }
  void do_wait(std::span<const std::string> keys, Deadline deadline) override {
    inner_->wait(keys, left(deadline));
  }
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired, Deadline deadline) override {
    return inner_->compare_set(key, expected, desired, left(deadline));
  }
  bool do_delete_key(std::string_view key, Deadline deadline) override {
    return inner_->delete_key(key, left(deadline));
  }
  std::vector<std::string> do_list_keys(Deadline deadline) override {
    return inner_->list_keys(left(deadline));
  }

 private:
  static std::chrono::milliseconds left(Deadline deadline) {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()), 0ms);
  }
  std::shared_ptr<Store> inner_ = tutti::make_hash_store();
};

std::shared_ptr<Store> prefix_store() {
  auto inner = tutti::make_hash_store();
  inner->set("beside", "not of this part");
  return tutti::make_prefix_store("part", inner);
}
std::shared_ptr<Store> plain_store() { return std::make_shared<PlainStore>(); }
std::shared_ptr<Store> tcp_store() {
  return tutti::make_tcp_store({.serve = true, .timeout = 10s});
}
std::shared_ptr<Store> tcp_store_with(bool encrypt) {
  return tutti::make_tcp_store({.serve = true,
                                .timeout = 10s,
                                .secret = std::vector<std::byte>(32, std::byte{7}),
                                .encrypt = encrypt});
}

// Each test its own file, gone with the store.
std::shared_ptr<Store> file_store() {
  static const tutti::test::TemporaryFolder folder;
  static int count = 0;
  const std::string path = folder.at(std::to_string(++count));
  return tutti::make_file_store({.path = path, .users = 1, .timeout = 10s});
}

struct Kind {
  const char* name;
  std::shared_ptr<Store> (*make)();
};

class StoreContract : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Store> store = GetParam().make();
};
/// Not of the built-in queues: they are made of keys, so these show up among the keys.
class OwnQueues : public StoreContract {};

template <class F>
void expect_timeout(F&& call, std::chrono::milliseconds at_least) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(call(), tutti::TimeoutError);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, at_least);
  EXPECT_LT(took, at_least + 5s);
}

TEST_P(StoreContract, GetReturnsWhatWasSet) {
  for (const char* const value : {"1", "2"}) {
    store->set("a", value);
    EXPECT_EQ(store->get("a"), value);
  }
}

TEST_P(StoreContract, ValuesAreAnyBytes) {
  std::string bytes(256, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  store->set(bytes, bytes);
  store->set("empty", "");
  EXPECT_EQ(store->get(bytes), bytes);
  EXPECT_EQ(store->get("empty"), "");
}

TEST_P(StoreContract, GetWaitsUntilKeyIsSet) {
  const std::jthread setter([&] {
    store->set("other", "x");
    store->set("late", "here");
  });
  EXPECT_EQ(store->get("late", 10s), "here");
}

TEST_P(StoreContract, AllWhoWaitAreWoken) {
  in_threads(9, [&](int i) {
    if (i == 0) store->set("go", "now");  // the last that begins
    EXPECT_EQ(store->get("go", 10s), "now");
  });
}

TEST_P(StoreContract, GetEndsAtItsTimeout) {
  expect_timeout([&] { store->get("never", 50ms); }, 50ms);
  expect_timeout([&] { store->get("never", 0ms); }, 0ms);
  store->set("still", "works");
  EXPECT_EQ(store->get("still"), "works");
}

TEST_P(StoreContract, TimeoutNamesKeyAndDuration) {
  EXPECT_THAT([&] { store->wait(std::vector<std::string>{"missing-key"}, 60ms); },
              testing::ThrowsMessage<tutti::TimeoutError>(
                  AllOf(HasSubstr("missing-key"), HasSubstr(" ms"), HasSubstr("?"))))
      << "the ? of what to try";
}

TEST_P(StoreContract, OwnTimeoutIsTheDefault) {
  store->set_timeout(40ms);
  EXPECT_EQ(store->get_timeout(), 40ms);
  expect_timeout([&] { store->get("never"); }, 40ms);
  EXPECT_THROW(store->set_timeout(-1ms), tutti::InvalidArgument);
  EXPECT_THROW(store->get("a", -1ms), tutti::InvalidArgument);
}

TEST_P(StoreContract, AddCountsInDecimalText) {
  EXPECT_EQ(store->add("n", 5), 5);
  EXPECT_EQ(store->add("n", -7), -2);
  EXPECT_EQ(store->get("n"), "-2");
  store->set("n", "40");
  EXPECT_EQ(store->add("n", 2), 42);
}

TEST_P(StoreContract, AddRefusesWhatIsNoNumber) {
  for (const char* const text : {"12 monkeys", "9223372036854775807"}) {
    store->set("text", text);
    EXPECT_THROW(store->add("text", 1), tutti::InvalidArgument);
    EXPECT_EQ(store->get("text"), text);
  }
}

TEST_P(StoreContract, AddFromManyThreadsLosesNothing) {
  in_threads(4, [&](int) {
    for (int i = 0; i < 100; ++i) store->add("sum", 1);
  });
  EXPECT_EQ(store->add("sum", 0), 400);
}

TEST_P(StoreContract, CheckDoesNotWait) {
  EXPECT_FALSE(store->check("a"));
  store->set("a", "");
  EXPECT_TRUE(store->check("a"));
  EXPECT_FALSE(store->check(std::vector<std::string>{"a", "b"}));
  store->set("b", "");
  EXPECT_TRUE(store->check(std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(store->check(std::vector<std::string>{}));
  EXPECT_TRUE(store->check({"a", "b"})) << "a list, not the two ends of a range";
  EXPECT_FALSE(store->check({"a", "c"}));
  store->wait({"a", "b"});
  EXPECT_THAT(store->multi_get({"a", "b"}), ElementsAre("", ""));
}

TEST_P(StoreContract, WaitNeedsAllKeys) {
  store->set("a", "");
  expect_timeout([&] { store->wait(std::vector<std::string>{"a", "b"}, 30ms); }, 30ms);
  const std::jthread setter([&] {
    store->set("c", "");
    store->set("b", "");
  });
  store->wait(std::vector<std::string>{"a", "b", "c"}, 10s);
}

TEST_P(StoreContract, CompareSetTellsWhatStands) {
  EXPECT_EQ(store->compare_set("k", "expected", "new"), "expected") << "absent stays absent";
  EXPECT_FALSE(store->check("k"));
  EXPECT_EQ(store->compare_set("k", "", "first"), "first");
  EXPECT_EQ(store->compare_set("k", "", "second"), "first");
  EXPECT_EQ(store->compare_set("k", "wrong", "second"), "first");
  EXPECT_EQ(store->compare_set("k", "first", "second"), "second");
  EXPECT_EQ(store->get("k"), "second");
}

TEST_P(StoreContract, CompareSetHasOneWinner) {
  std::atomic<int> winners = 0;
  in_threads(6, [&](int t) {
    const std::string me = std::to_string(t);
    winners += store->compare_set("lock", "", me) == me ? 1 : 0;
  });
  EXPECT_EQ(winners, 1);
}

TEST_P(StoreContract, DeleteKeyTellsWhetherItWasThere) {
  store->set("a", "1");
  EXPECT_TRUE(store->delete_key("a"));
  EXPECT_FALSE(store->delete_key("a"));
  EXPECT_FALSE(store->check("a"));
}

TEST_P(StoreContract, KeysAreCountedAndListed) {
  EXPECT_EQ(store->num_keys(), 0);
  EXPECT_THAT(store->list_keys(), IsEmpty());
  for (const char* const key : {"b", "a", "c"}) store->set(key, "");
  store->delete_key("c");
  EXPECT_EQ(store->num_keys(), 2);
  EXPECT_THAT(store->list_keys(), ElementsAre("a", "b"));
}

TEST_P(StoreContract, AppendMakesAndExtends) {
  store->append("log", "one,");
  store->append("log", "two");
  EXPECT_EQ(store->get("log"), "one,two");
}

TEST_P(StoreContract, AppendFromManyThreadsLosesNothing) {
  in_threads(4, [&](int t) {
    const std::string mark(1, static_cast<char>('a' + t));
    for (int i = 0; i < 25; ++i) store->append("log", mark);
  });
  const std::string log = store->get("log");
  EXPECT_EQ(log.size(), 100U);
  for (const char mark : {'a', 'b', 'c', 'd'}) EXPECT_EQ(std::ranges::count(log, mark), 25) << mark;
}

TEST_P(StoreContract, MultiSetAndMultiGetKeepTheOrder) {
  store->multi_set(std::vector<Store::KeyValue>{{"x", "1"}, {"y", "2"}, {"z", "3"}});
  EXPECT_THAT(store->multi_get(std::vector<std::string>{"z", "x", "z"}),
              ElementsAre("3", "1", "3"));
  EXPECT_THAT(store->multi_get(std::vector<std::string>{}), IsEmpty());
  expect_timeout([&] { store->multi_get(std::vector<std::string>{"x", "w"}, 30ms); }, 30ms);
}

TEST_P(StoreContract, QueueGivesInOrder) {
  EXPECT_EQ(store->queue_len("q"), 0);
  EXPECT_EQ(store->queue_try_pop("q"), std::nullopt);
  for (const char* const value : {"1", "", "3"}) store->queue_push("q", value);
  EXPECT_EQ(store->queue_len("q"), 3);
  EXPECT_EQ(store->queue_pop("q"), "1");
  EXPECT_EQ(store->queue_try_pop("q"), "");
  EXPECT_EQ(store->queue_pop("q"), "3");
  EXPECT_EQ(store->queue_len("q"), 0);
}

TEST_P(StoreContract, QueuePopWaits) {
  const std::jthread pusher([&] { store->queue_push("q", "late"); });
  EXPECT_EQ(store->queue_pop("q", 10s), "late");
}

TEST_P(StoreContract, PopThatTimedOutTakesNothing) {
  expect_timeout([&] { store->queue_pop("q", 40ms); }, 40ms);
  store->queue_push("q", "kept");
  EXPECT_EQ(store->queue_len("q"), 1);
  EXPECT_EQ(store->queue_pop("q", 1s), "kept");
}

TEST_P(StoreContract, QueueServesEachValueOnce) {
  constexpr int kEach = 25;
  std::mutex mutex;
  std::vector<std::string> taken;
  in_threads(6, [&](int t) {
    for (int i = 0; i < kEach; ++i) {
      if (t % 2 == 0) {
        store->queue_push("q", std::to_string(t) + "/" + std::to_string(i));
        continue;
      }
      std::string value = store->queue_pop("q", 15s);
      const std::lock_guard lock(mutex);
      taken.push_back(std::move(value));
    }
  });
  std::ranges::sort(taken);
  EXPECT_EQ(taken.size(), 3U * kEach);
  EXPECT_EQ(std::ranges::unique(taken).size(), 0U);
}

TEST_P(OwnQueues, AreNotKeys) {
  store->queue_push("q", "1");
  EXPECT_FALSE(store->check("q"));
  EXPECT_EQ(store->num_keys(), 0);
}

TEST_P(StoreContract, BadArgumentsAreToldAtTheCall) {
  EXPECT_THROW(store->set("", "x"), tutti::InvalidArgument);
  EXPECT_THROW(store->get(std::string(Store::kMaxKeyBytes + 1, 'k')), tutti::InvalidArgument);
  EXPECT_THROW(store->wait(std::vector<std::string>{"a", ""}), tutti::InvalidArgument);
  EXPECT_THROW(store->queue_push("", "x"), tutti::InvalidArgument);
  const std::string long_value(Store::kMaxValueBytes + 1, 'v');
  EXPECT_THROW(store->set("k", long_value), tutti::InvalidArgument);
  store->set("k", "fine");
  EXPECT_EQ(store->get("k"), "fine");
}

TEST_P(StoreContract, LongValuesPass) {
  const std::string value(std::size_t{3} << 20, 'v');
  store->set("long", value);
  EXPECT_EQ(store->get("long"), value);
}

TEST_P(StoreContract, AWaitingCallHoldsUpNobody) {
  const std::jthread waiter([&] { EXPECT_EQ(store->get("slow", 10s), "done"); });
  for (int i = 0; i < 50; ++i) store->add("busy", 1);
  EXPECT_EQ(store->add("busy", 0), 50);
  store->set("slow", "done");
}

std::string name_of(const testing::TestParamInfo<Kind>& kind) { return kind.param.name; }
const std::vector<Kind> kOwnQueues = {{"Hash", tutti::make_hash_store},
                                      {"Prefix", prefix_store},
                                      {"Tcp", tcp_store},
                                      {"TcpWithSecret", [] { return tcp_store_with(false); }},
                                      {"TcpWithTls", [] { return tcp_store_with(true); }},
                                      {"File", file_store}};
INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::ValuesIn(kOwnQueues), name_of);
INSTANTIATE_TEST_SUITE_P(Stores, OwnQueues, testing::ValuesIn(kOwnQueues), name_of);
INSTANTIATE_TEST_SUITE_P(Users, StoreContract, testing::Values(Kind{"Plain", plain_store}),
                         name_of);

TEST(PrefixStore, PartsDoNotMeet) {
  auto inner = tutti::make_hash_store();
  auto a = tutti::make_prefix_store("a", inner);
  auto b = tutti::make_prefix_store("b", inner);
  a->set("k", "of a");
  b->set("k", "of b");
  EXPECT_EQ(a->get("k"), "of a");
  EXPECT_EQ(inner->get("b/k"), "of b");
  EXPECT_EQ(a->num_keys(), 1);
  EXPECT_EQ(inner->num_keys(), 2);
  a->queue_push("q", "x");
  EXPECT_EQ(b->queue_len("q"), 0);
  EXPECT_THROW(tutti::make_prefix_store("p", nullptr), tutti::InvalidArgument);
}

}  // namespace
