// A table for which an allocation fails: it stays whole, and serves everybody else.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "requests.hpp"
#include "store/store_table.hpp"

namespace {

long until_failure = 0;  // 0: none fails

}  // namespace

void* operator new(std::size_t size) {
  if (until_failure > 0 && --until_failure == 0) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::store {
namespace {

using namespace std::chrono_literals;

constexpr StoreTable::Clock::time_point kStart{};
const std::string kLong = "a name that is longer than what fits into a std::string";
const std::string kValue = "a value that is longer than what fits into a std::string";

/// The `number`th allocation fails in `step`; whether there was one.
template <class Step>
bool fails_at(long number, Step step) {
  until_failure = number;
  try {
    step();
  } catch (const std::bad_alloc&) {  // told to the one who asked
  }
  return std::exchange(until_failure, 0) == 0;
}

/// Carries out `step` on ever new tables, each time with another allocation that fails.
template <class Prepare, class Step, class Look>
void each_allocation(Prepare prepare, Step step, Look look) {
  long failures = 0;
  for (long number = 1;; ++number) {
    StoreTable table;
    prepare(table);
    const bool failed = fails_at(number, [&] { step(table); });
    SCOPED_TRACE(number);
    look(table);
    table.expire(kStart + 1h);
    while (table.take_answer()) continue;
    EXPECT_FALSE(table.next_deadline());
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 0);
}

void serves(StoreTable& table) {
  EXPECT_EQ(table.submit(request(Op::set, {"other"}, {"v"}), 90, kStart)->code, Errc::ok);
  EXPECT_EQ(table.submit(request(Op::get, {"other"}), 91, kStart)->values.at(0), "v");
}

TEST(StoreTableMemory, ARequestThatCannotWaitLeavesNothing) {
  for (const Op op : {Op::get, Op::queue_pop}) {
    each_allocation([](StoreTable&) {},
                    [&](StoreTable& table) {
                      Request waits = request(op, {kLong});
                      (void)table.submit(std::move(waits), 1, kStart);
                    },
                    [&](StoreTable& table) {
                      serves(table);
                      const Op gives = op == Op::get ? Op::set : Op::queue_push;
                      (void)table.submit(request(gives, {kLong}, {kValue}), 2, kStart);
                    });
  }
}

TEST(StoreTableMemory, WhatDoesNotWaitCountsNothing) {
  for (int i = 0; i < 64; ++i) {
    StoreTable table({.total_bytes = 1000});
    fails_at(i, [&] { (void)table.submit(request(Op::get, {kLong}), 1, kStart); });
    table.cancel(1);
    fails_at(i, [&] { (void)table.submit(request(Op::set, {kLong}, {kValue}), 2, kStart); });
    (void)table.submit(request(Op::delete_key, {kLong}), 3, kStart);
    fails_at(i, [&] { (void)table.submit(request(Op::queue_push, {kLong}, {kValue}), 4, kStart); });
    (void)table.submit(request(Op::queue_try_pop, {kLong}), 5, kStart);
    EXPECT_TRUE(table.has_room(1000)) << i;
  }
}

TEST(StoreTableMemory, ATimeoutThatCannotBeToldEndsOneRequest) {
  each_allocation(
      [](StoreTable& table) {
        for (StoreTable::Ticket ticket = 1; ticket <= 2; ++ticket)
          (void)table.submit(request(Op::get, {kLong}), ticket, kStart);
      },
      [](StoreTable& table) {
        table.expire(kStart + 1s);
        (void)table.take_answer();
      },
      [](StoreTable& table) {
        serves(table);
        table.expire(kStart + 1s);
      });
}

TEST(StoreTableMemory, AWakeThatFailsForOneWakesTheOthers) {
  each_allocation(
      [](StoreTable& table) {
        (void)table.submit(request(Op::get, {kLong}), 1, kStart);
        (void)table.submit(request(Op::multi_get, {kLong, kLong}), 2, kStart);
        (void)table.submit(request(Op::wait, {kLong, "next " + kLong}), 3, kStart);
        (void)table.submit(request(Op::set, {kLong}, {kValue}), 9, kStart);
      },
      [](StoreTable& table) {
        int answers = 0;
        int without = 0;
        while (const auto answer = table.take_answer()) {
          ++answers;
          without += answer->response == nullptr ? 1 : 0;
        }
        EXPECT_GE(answers, 2);
        EXPECT_LE(without, 1);
      },
      serves);
}

TEST(StoreTableMemory, AQueueKeepsItsValues) {
  // Into a line of those who wait, and into an empty queue: the one who pushes is told.
  for (const bool waits : {false, true}) {
    each_allocation(
        [&](StoreTable& table) {
          if (waits) (void)table.submit(request(Op::queue_pop, {kLong}), 1, kStart);
        },
        [](StoreTable& table) {
          (void)table.submit(request(Op::queue_push, {kLong}, {kValue}), 2, kStart);
        },
        [&](StoreTable& table) {
          serves(table);
          const auto popped = table.submit(request(Op::queue_try_pop, {kLong}), 3, kStart);
          if (popped->number == 1) {
            EXPECT_EQ(popped->values.at(0), kValue);
          }
        });
  }
}

TEST(StoreTableMemory, APopThatFailsTakesNothing) {
  bool popped = false;
  each_allocation(
      [&](StoreTable& table) {
        popped = false;
        (void)table.submit(request(Op::queue_push, {kLong}, {kValue}), 2, kStart);
      },
      [&](StoreTable& table) {
        Request pop = request(Op::queue_try_pop, {kLong});
        popped = table.submit(std::move(pop), 3, kStart)->values.at(0) == kValue;
      },
      [&](StoreTable& table) {
        const auto left = table.submit(request(Op::queue_try_pop, {kLong}), 4, kStart);
        EXPECT_EQ(left->number, popped ? 0 : 1);
        if (left->number == 1) {
          EXPECT_EQ(left->values.at(0), kValue);
        }
      });
}

}  // namespace
}  // namespace tutti::store
