#include "store/broker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace tutti::store;
using tutti::Errc;

namespace {

const Broker::Clock::time_point kStart{};

Request request(Op op, std::vector<std::string> keys, std::vector<std::string> values = {},
                std::uint32_t timeout_ms = 100) {
  Request result;
  result.op = op;
  result.keys = std::move(keys);
  result.values = std::move(values);
  result.timeout_ms = timeout_ms;
  return result;
}

std::optional<Response> submit(Broker& broker, Request what, Broker::Ticket ticket = 0) {
  return broker.submit(std::move(what), ticket, kStart);
}

TEST(Broker, AnswersWhoWaitedInOneStep) {
  Broker broker;
  EXPECT_FALSE(submit(broker, request(Op::multi_get, {"a", "b"}), 1));
  EXPECT_FALSE(submit(broker, request(Op::get, {"b"}), 2));
  submit(broker, request(Op::set, {"a"}, {"1"}));
  EXPECT_THAT(broker.take_answers(), IsEmpty());
  submit(broker, request(Op::set, {"b"}, {"2"}));
  const auto answers = broker.take_answers();
  ASSERT_EQ(answers.size(), 2U);
  for (const auto& [ticket, response] : answers) {
    EXPECT_EQ(response.code, Errc::ok);
    EXPECT_EQ(response.values.size(), ticket == 1 ? 2U : 1U);
    EXPECT_EQ(response.values.back(), "2");
  }
  EXPECT_FALSE(broker.next_deadline()) << "nobody waits any more";
}

TEST(Broker, SetsWhatIsAbsentAndNothingElse) {
  Broker broker({.total_bytes = 20});
  EXPECT_FALSE(submit(broker, request(Op::get, {"will"}), 1));
  EXPECT_TRUE(broker.set_if_absent("will", "done"));
  const auto answers = broker.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_THAT(answers[0].second.values, ElementsAre("done"));
  submit(broker, request(Op::set, {"empty"}, {""}));
  EXPECT_TRUE(broker.set_if_absent("empty", "no"));
  EXPECT_THAT(submit(broker, request(Op::get, {"empty"}))->values, ElementsAre(""));
  EXPECT_EQ(broker.set_if_absent("more", std::string(20, 'x')).code(), Errc::store);
}

TEST(Broker, AKeyThatWasDeletedAgainIsWaitedForAgain) {
  Broker broker;
  EXPECT_FALSE(submit(broker, request(Op::wait, {"a", "b"}), 1));
  submit(broker, request(Op::set, {"a"}, {""}));
  submit(broker, request(Op::delete_key, {"a"}));
  submit(broker, request(Op::set, {"b"}, {""}));
  EXPECT_THAT(broker.take_answers(), IsEmpty());
  submit(broker, request(Op::set, {"a"}, {""}));
  EXPECT_EQ(broker.take_answers().size(), 1U);
}

TEST(Broker, EndsWhatIsOverInOrder) {
  Broker broker;
  submit(broker, request(Op::get, {"late"}, {}, 200), 1);
  submit(broker, request(Op::wait, {"x", "y"}, {}, 100), 2);
  submit(broker, request(Op::set, {"y"}, {""}));
  EXPECT_EQ(broker.next_deadline(), kStart + 100ms);
  broker.expire(kStart + 99ms);
  EXPECT_THAT(broker.take_answers(), IsEmpty());
  broker.expire(kStart + 100ms);
  auto answers = broker.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].first, 2U);
  EXPECT_EQ(answers[0].second.code, Errc::timeout);
  EXPECT_THAT(answers[0].second.values, ElementsAre("x")) << "only what is missing";
  EXPECT_EQ(broker.next_deadline(), kStart + 200ms);
}

TEST(Broker, TheFirstInAQueuesLineIsServed) {
  Broker broker;
  submit(broker, request(Op::queue_pop, {"q"}), 1);
  submit(broker, request(Op::queue_pop, {"q"}), 2);
  submit(broker, request(Op::queue_pop, {"q"}), 3);
  broker.cancel(1);
  submit(broker, request(Op::queue_push, {"q"}, {"a"}));
  submit(broker, request(Op::queue_push, {"q"}, {"b"}));
  submit(broker, request(Op::queue_push, {"q"}, {"c"}));
  const auto answers = broker.take_answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].first, 2U);
  EXPECT_THAT(answers[0].second.values, ElementsAre("a"));
  EXPECT_EQ(answers[1].first, 3U);
  EXPECT_EQ(submit(broker, request(Op::queue_len, {"q"}))->number, 1);
}

TEST(Broker, CancelledRequestsLeaveNothing) {
  Broker broker;
  submit(broker, request(Op::get, {"a"}), 1);
  submit(broker, request(Op::get, {"a"}), 2);
  broker.cancel(1);
  broker.cancel(1);
  broker.cancel(77);
  submit(broker, request(Op::set, {"a"}, {"v"}));
  const auto answers = broker.take_answers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].first, 2U);
}

TEST(Broker, KeepsNoMoreThanItMay) {
  Limits limits;
  limits.total_bytes = 100;
  Broker broker(limits);
  EXPECT_EQ(submit(broker, request(Op::set, {"k"}, {std::string(99, 'v')}))->code, Errc::ok);
  EXPECT_EQ(submit(broker, request(Op::set, {"l"}, {"v"}))->code, Errc::store);
  EXPECT_EQ(submit(broker, request(Op::append, {"k"}, {"v"}))->code, Errc::store);
  EXPECT_EQ(submit(broker, request(Op::queue_push, {"q"}, {"v"}))->code, Errc::store);
  EXPECT_EQ(submit(broker, request(Op::set, {"k"}, {std::string(50, 'w')}))->code, Errc::ok);
  EXPECT_EQ(submit(broker, request(Op::queue_push, {"q"}, {std::string(49, 'v')}))->code, Errc::ok);
  EXPECT_EQ(submit(broker, request(Op::queue_push, {"q"}, {"v"}))->code, Errc::store);
  EXPECT_EQ(submit(broker, request(Op::queue_pop, {"q"}))->code, Errc::ok);
  EXPECT_EQ(submit(broker, request(Op::delete_key, {"k"}))->number, 1);
  EXPECT_EQ(submit(broker, request(Op::set, {"k"}, {std::string(99, 'v')}))->code, Errc::ok);
}

TEST(Broker, ManyNamesOfOneLongValueMakeNoEndlessAnswer) {
  Limits limits;
  limits.body_bytes = 10000;
  Broker broker(limits);
  submit(broker, request(Op::set, {"k"}, {std::string(1000, 'v')}));
  const auto response = submit(broker, request(Op::multi_get, std::vector<std::string>(100, "k")));
  EXPECT_EQ(response->code, Errc::store);
  EXPECT_THAT(response->values, IsEmpty());
}

}  // namespace
