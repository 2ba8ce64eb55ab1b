#include "store/store_table.hpp"

#include <gmock/gmock.h>

#include "requests.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using namespace tutti::store;
using tutti::Errc;

namespace {

const StoreTable::Clock::time_point kStart{};

std::optional<Response> submit(StoreTable& table, Request what, StoreTable::Ticket ticket = 0) {
  return table.submit(std::move(what), ticket, kStart);
}

using Answers = std::vector<std::pair<StoreTable::Ticket, std::shared_ptr<const Response>>>;

Answers take_answers(StoreTable& table) {
  Answers answers;
  while (auto answer = table.take_answer()) answers.emplace_back(answer->ticket, answer->response);
  return answers;
}

class EmptyTable : public testing::Test {
 protected:
  StoreTable table;
};

TEST_F(EmptyTable, AnswersWhoWaitedInOneStep) {
  EXPECT_FALSE(submit(table, request(Op::multi_get, {"a", "b"}), 1));
  EXPECT_FALSE(submit(table, request(Op::get, {"b"}), 2));
  submit(table, request(Op::set, {"a"}, {"1"}));
  EXPECT_THAT(take_answers(table), IsEmpty());
  submit(table, request(Op::set, {"b"}, {"2"}));
  const auto answers = take_answers(table);
  ASSERT_EQ(answers.size(), 2U);
  for (const auto& [ticket, response] : answers) {
    EXPECT_EQ(response->code, Errc::ok);
    EXPECT_EQ(response->values.size(), ticket == 1 ? 2U : 1U);
    EXPECT_EQ(response->values.back(), "2");
  }
  EXPECT_FALSE(table.next_deadline()) << "nobody waits any more";
}

TEST(StoreTable, SetsWhatIsAbsentAndNothingElse) {
  StoreTable table({.total_bytes = 1000});
  EXPECT_FALSE(submit(table, request(Op::get, {"will"}), 1));
  EXPECT_TRUE(table.set_if_absent("will", "done"));
  const auto answers = take_answers(table);
  ASSERT_THAT(answers, ElementsAre(Key(1U)));
  EXPECT_THAT(answers[0].second->values, ElementsAre("done"));
  submit(table, request(Op::set, {"empty"}, {""}));
  EXPECT_TRUE(table.set_if_absent("empty", "no"));
  EXPECT_THAT(submit(table, request(Op::get, {"empty"}))->values, ElementsAre(""));
  EXPECT_EQ(table.set_if_absent("more", std::string(1000, 'x')).code(), Errc::store);
}

TEST_F(EmptyTable, AKeyThatWasDeletedAgainIsWaitedForAgain) {
  EXPECT_FALSE(submit(table, request(Op::wait, {"a", "b"}), 1));
  submit(table, request(Op::set, {"a"}, {""}));
  submit(table, request(Op::delete_key, {"a"}));
  submit(table, request(Op::set, {"b"}, {""}));
  EXPECT_THAT(take_answers(table), IsEmpty());
  submit(table, request(Op::set, {"a"}, {""}));
  EXPECT_EQ(take_answers(table).size(), 1U);
}

// Each key that is set costs each of those who wait for it one look, whatever else they wait for.
TEST(StoreTable, AKeyThatIsSetIsLookedUpOnceByEachWhoWaits) {
  constexpr std::size_t kUsers = 40;
  constexpr std::size_t kKeys = 100;
  StoreTable table;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kKeys; ++i) keys.push_back("key " + std::to_string(i));
  for (StoreTable::Ticket user = 1; user <= kUsers; ++user)
    EXPECT_FALSE(submit(table, request(Op::multi_get, keys), user));
  Answers answers;
  for (const std::string& key : keys) {
    EXPECT_THAT(answers, IsEmpty()) << "before " << key;
    submit(table, request(Op::set, {key}, {"v"}));
    answers = take_answers(table);
  }
  EXPECT_LE(table.lookups(), 2 * kUsers * kKeys) << "once when it is found to be absent, once set";
  ASSERT_EQ(answers.size(), kUsers);
  for (const auto& [ticket, response] : answers) {
    EXPECT_EQ(response->values.size(), kKeys);
    EXPECT_EQ(response, answers[0].second) << "one object for all";
  }
}

TEST_F(EmptyTable, EndsWhatIsOverInOrder) {
  submit(table, request(Op::get, {"late"}, {}, 200), 1);
  submit(table, request(Op::wait, {"x", "y"}, {}, 100), 2);
  submit(table, request(Op::set, {"y"}, {""}));
  EXPECT_EQ(table.next_deadline(), kStart + 100ms);
  table.expire(kStart + 99ms);
  EXPECT_THAT(take_answers(table), IsEmpty());
  table.expire(kStart + 100ms);
  const auto answers = take_answers(table);
  ASSERT_THAT(answers, ElementsAre(Key(2U)));
  EXPECT_EQ(answers[0].second->code, Errc::timeout);
  EXPECT_THAT(answers[0].second->values, ElementsAre("x")) << "only what is missing";
  EXPECT_EQ(table.next_deadline(), kStart + 200ms);
}

TEST_F(EmptyTable, TheFirstInAQueuesLineIsServed) {
  for (const StoreTable::Ticket user : {1, 2, 3})
    submit(table, request(Op::queue_pop, {"q"}), user);
  table.cancel(1);
  for (const char* const value : {"a", "b", "c"})
    submit(table, request(Op::queue_push, {"q"}, {value}));
  const auto answers = take_answers(table);
  ASSERT_THAT(answers, ElementsAre(Key(2U), Key(3U)));
  EXPECT_THAT(answers[0].second->values, ElementsAre("a"));
  EXPECT_EQ(submit(table, request(Op::queue_len, {"q"}))->number, 1);
}

TEST_F(EmptyTable, CancelledRequestsLeaveNothing) {
  submit(table, request(Op::get, {"a"}), 1);
  submit(table, request(Op::get, {"a"}), 2);
  table.cancel(1);
  table.cancel(1);
  table.cancel(77);
  submit(table, request(Op::set, {"a"}, {"v"}));
  EXPECT_THAT(take_answers(table), ElementsAre(Key(2U)));
}

TEST(StoreTable, KeepsNoMoreThanItMay) {
  StoreTable table({.total_bytes = 10'000});
  // A key counts 128 bytes more than it has, a queue 768, a value in it 48.
  const auto put = [&](Op op, const char* key, std::size_t bytes) {
    return submit(table, request(op, {key}, {std::string(bytes, 'v')}))->code;
  };
  EXPECT_EQ(put(Op::set, "k", 9871), Errc::ok);
  EXPECT_EQ(put(Op::set, "l", 0), Errc::store);
  EXPECT_EQ(put(Op::append, "k", 1), Errc::store);
  EXPECT_EQ(put(Op::queue_push, "q", 0), Errc::store);
  EXPECT_EQ(put(Op::set, "k", 5871), Errc::ok);
  EXPECT_EQ(put(Op::queue_push, "q", 3183), Errc::ok);
  EXPECT_EQ(put(Op::queue_push, "q", 0), Errc::store);
  EXPECT_EQ(submit(table, request(Op::queue_pop, {"q"}))->code, Errc::ok);
  EXPECT_EQ(submit(table, request(Op::delete_key, {"k"}))->number, 1);
  EXPECT_EQ(put(Op::set, "k", 9871), Errc::ok);
}

// Fills it with `more(i)`, i counting up, until it is refused. How many were taken; -1: no end.
template <class More>
int fill(StoreTable& table, More more) {
  for (int i = 0; i < 100'000; ++i) {
    const auto response = submit(table, more(i), static_cast<StoreTable::Ticket>(i + 1));
    if (response && response->code == Errc::store) return i;
  }
  return -1;
}

TEST(StoreTable, NamesAndEmptyValuesCountToo) {
  struct Case {
    Op op;
    int least;  ///< how many are taken
    std::vector<std::string> values = {};
    bool one_name = false;
  };
  for (const Case& one : {Case{Op::queue_push, 50, {""}}, Case{Op::queue_push, 1000, {""}, true},
                          Case{Op::set, 500, {""}}, Case{Op::append, 500, {""}}, Case{Op::add, 500},
                          Case{Op::compare_set, 500, {"", ""}}, Case{Op::get, 100},
                          Case{Op::wait, 100}, Case{Op::queue_pop, 100}}) {
    StoreTable table({.total_bytes = 100'000});
    const int taken = fill(table, [&](int i) {
      return request(one.op, {"name " + std::to_string(one.one_name ? 0 : i)}, one.values);
    });
    EXPECT_GT(taken, one.least) << to_string(one.op);
  }
}

TEST(StoreTable, WhatIsGoneCountsNoLonger) {
  StoreTable table({.total_bytes = 4000});
  for (int round = 0; round < 1000; ++round) {
    const std::string name = "name " + std::to_string(round);
    ASSERT_EQ(submit(table, request(Op::set, {name}, {"value"}))->code, Errc::ok) << round;
    ASSERT_EQ(submit(table, request(Op::append, {name}, {"more"}))->code, Errc::ok);
    ASSERT_EQ(submit(table, request(Op::delete_key, {name}))->number, 1);
    for (const char* const value : {"", "two"})
      ASSERT_EQ(submit(table, request(Op::queue_push, {name}, {value}))->code, Errc::ok);
    ASSERT_EQ(submit(table, request(Op::queue_pop, {name}))->code, Errc::ok);
    ASSERT_EQ(submit(table, request(Op::queue_try_pop, {name}))->number, 1);
    // Those who wait: answered, cancelled, their time over.
    ASSERT_FALSE(submit(table, request(Op::queue_pop, {name}), 1));
    ASSERT_EQ(submit(table, request(Op::queue_push, {name}, {"value"}))->code, Errc::ok);
    ASSERT_FALSE(submit(table, request(Op::multi_get, {"a", name}), 2));
    table.cancel(2);
    ASSERT_FALSE(submit(table, request(Op::wait, {name, "b"}), 3));
    table.expire(kStart + 100ms);
    ASSERT_EQ(take_answers(table).size(), 2U);
  }
}

TEST_F(EmptyTable, AMessageShowsForeignBytesAndIsCutBetweenCharacters) {
  submit(table, request(Op::set, {"k\xff"}, {"\x80"}));
  auto response = submit(table, request(Op::add, {"k\xff"}));
  EXPECT_EQ(response->code, Errc::invalid_argument);
  EXPECT_THAT(response->text, AllOf(HasSubstr(R"(key "k\xff")"), HasSubstr(R"("\x80")")));
  std::string long_text = "x";
  for (int i = 0; i < 100; ++i) long_text += "\xc3\xa9";
  submit(table, request(Op::set, {"k"}, {long_text}));
  response = submit(table, request(Op::add, {"k"}));
  EXPECT_THAT(response->text, HasSubstr('"' + long_text.substr(0, 127) + '"'));
}

TEST(StoreTable, ManyNamesOfOneLongValueMakeNoEndlessAnswer) {
  StoreTable table({.body_bytes = 10'000});
  submit(table, request(Op::set, {"k"}, {std::string(1000, 'v')}));
  const auto response = submit(table, request(Op::multi_get, std::vector<std::string>(100, "k")));
  EXPECT_EQ(response->code, Errc::store);
  EXPECT_THAT(response->values, IsEmpty());
}

// Their answers are made one after the other, so the bound holds although all wake at once.
TEST(StoreTable, WhatWakesAtOnceFindsNoMoreRoomThanThereIs) {
  constexpr std::size_t kValue = 100'000;
  constexpr StoreTable::Ticket kUsers = 40;
  StoreTable table({.total_bytes = 10 * kValue}, true);
  for (StoreTable::Ticket user = 1; user <= kUsers; ++user)
    EXPECT_FALSE(
        submit(table, request(Op::multi_get, std::vector<std::string>(user % 2 + 1, "k")), user));
  submit(table, request(Op::set, {"k"}, {std::string(kValue, 'v')}));
  std::size_t answered = 0;
  std::size_t refused = 0;
  while (const auto answer = table.take_answer()) {
    if (answer->response->code != Errc::ok) {
      ++refused;
      EXPECT_THAT(answer->response->text, HasSubstr("the store is full"));
      continue;
    }
    ++answered;
    const std::size_t bytes = answer->response->values.size() * kValue;
    ASSERT_TRUE(table.has_room(bytes));
    table.hold(bytes);
  }
  EXPECT_GE(answered, 4U);
  EXPECT_EQ(answered + refused, kUsers);
}

TEST(StoreTable, ManyKeysMakeNoEndlessList) {
  StoreTable table({.body_bytes = 10'000});
  for (int i = 0; i < 1000; ++i)
    submit(table, request(Op::set, {"key " + std::to_string(i)}, {""}));
  const auto response = submit(table, request(Op::list_keys, {}));
  EXPECT_EQ(response->code, Errc::store);
  EXPECT_THAT(response->values, IsEmpty()) << "all are copied and sorted first";
}

}  // namespace
