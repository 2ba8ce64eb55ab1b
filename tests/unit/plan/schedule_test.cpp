#include "plan/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/program.hpp"
#include "verify/text.hpp"

namespace tutti::plan {
namespace {

Schedule with(std::size_t chunk_bytes, std::int32_t slot_parts) {
  Schedule s;
  s.chunk_bytes = chunk_bytes;
  s.slot_parts = slot_parts;
  return s;
}

void expect_range(const Range& range, std::size_t first, std::size_t count) {
  if (count > 0) {
    EXPECT_EQ(range.first, first);
  }
  EXPECT_EQ(range.count, count);
}

TEST(Expr, TakesTheModuloUpwardsAndAddsTheBaseLast) {
  const Expr i = Expr::loop();
  const Expr j = Expr::inner_loop();
  EXPECT_EQ(Expr(7).at(3, 4), 7);
  EXPECT_EQ((i + 2).at(3, 4), 5);
  EXPECT_EQ((j - 1).at(3, 4), 3);
  EXPECT_EQ(((i - 5) % 4).at(0, 0), 3);
  EXPECT_EQ(((i + 1) % 4 + 4).at(3, 0), 4);
  EXPECT_EQ(((i + 1) % 4 + 4).at(2, 0), 7);
  EXPECT_EQ(((2 * i + 3 * j + 1) % 10 + 100).at(4, 5), 104);
}

TEST(Bind, CountsInElements) {
  const Binding b = bind(with(256, 1), 1000, 4);
  EXPECT_EQ(b.count, 1000U);
  EXPECT_EQ(b.chunk, 64U);
  EXPECT_EQ(b.align, 16U);
  EXPECT_EQ(bind(with(0, 0), 10, 8).chunk, 0U);
  EXPECT_EQ(bind(with(256, 1), 10, 128).align, 1U);
}

TEST(RangeOf, WholeAndChunksCoverTheOperation) {
  const Expr i = Expr::loop();
  const Binding b = bind(with(256, 1), 150, 4);  // chunks of 64
  expect_range(range_of(input(whole()), b, 0, 0), 0, 150);
  expect_range(range_of(input(chunk(i)), b, 0, 0), 0, 64);
  expect_range(range_of(input(chunk(i)), b, 2, 0), 128, 22);
  expect_range(range_of(input(chunk(i)), b, 3, 0), 0, 0);
  expect_range(range_of(input(chunk(i - 1)), b, 0, 0), 0, 0);
}

TEST(RangeOf, PartsAreOfEqualLengthInLines) {
  const Binding b = bind(with(0, 0), 100, 4);  // 3 parts: 34, rounded up to lines of 16: 48
  expect_range(range_of(input(part(0, 3)), b, 0, 0), 0, 48);
  expect_range(range_of(input(part(1, 3)), b, 0, 0), 48, 48);
  expect_range(range_of(input(part(2, 3)), b, 0, 0), 96, 4);
  expect_range(range_of(input(part(3, 3)), b, 0, 0), 0, 0);
  const Binding one = bind(with(0, 0), 1, 4);
  expect_range(range_of(input(part(0, 8)), one, 0, 0), 0, 1);
  expect_range(range_of(input(part(1, 8)), one, 0, 0), 0, 0);
}

TEST(RangeOf, PartsOfChunksAndChunksOfPartsCoverEachElementOnce) {
  for (const std::size_t count : {0, 1, 63, 64, 65, 1000, 4097}) {
    const Binding b = bind(with(256, 1), count, 4);
    std::vector<int> by_chunk(count, 0);
    std::vector<int> by_part(count, 0);
    for (int c = 0; c < 100; ++c) {
      for (int p = 0; p < 5; ++p) {
        const Range x = range_of(input(chunk_part(c, p, 5)), b, 0, 0);
        for (std::size_t e = 0; e < x.count; ++e) ++by_chunk.at(x.first + e);
        const Range y = range_of(input(part_chunk(p, 5, c)), b, 0, 0);
        for (std::size_t e = 0; e < y.count; ++e) ++by_part.at(y.first + e);
      }
    }
    EXPECT_EQ(by_chunk, std::vector<int>(count, 1)) << count;
    EXPECT_EQ(by_part, std::vector<int>(count, 1)) << count;
  }
}

TEST(Slots, HoldWhatTheirSlicesNeed) {
  for (const std::size_t count : {1, 63, 64, 65, 1000, 4097}) {
    for (const int parts : {1, 2, 3, 7}) {
      const Schedule s = with(512, parts);
      const Binding b = bind(s, count, 8);
      const std::size_t room = slot_bytes(s, b);
      EXPECT_EQ(room % 64, 0U);
      for (int c = 0; c < 80; ++c) {
        for (int p = 0; p < parts; ++p) {
          const Operand slice = input(part_chunk(p, parts, c));
          const Range x = range_of(slice, b, 0, 0);
          if (x.count == 0) continue;
          const std::size_t origin = slot_origin(slice, b, 0, 0);
          EXPECT_LE((x.first - origin + x.count) * 8, room);
        }
      }
    }
  }
  EXPECT_EQ(slot_bytes(with(0, 0), bind(with(0, 0), 100, 4)), 448U);
  EXPECT_EQ(slot_bytes(with(256, 1), bind(with(256, 1), 1000, 4)), 256U);
  EXPECT_EQ(slot_bytes(with(256, 1), bind(with(256, 1), 10, 4)), 64U);
}

TEST(RangeOf, BlocksLieInTheOrderOfTheRanks) {
  const Expr i = Expr::loop();
  const Expr j = Expr::inner_loop();
  const std::size_t ends[] = {5, 5, 25, 26};
  const Schedule s = with(64, kSlotOfBlock);  // chunks of 8 of 8 bytes
  const Binding b = bind(s, 26, 8, {0, ends, 20}, {0, ends, 20});
  expect_range(range_of(input(block(0)), b, 0, 0), 0, 5);
  expect_range(range_of(input(block(1)), b, 0, 0), 5, 0);
  expect_range(range_of(output(block(i + 1)), b, 1, 0), 5, 20);
  expect_range(range_of(output(block_chunk(2, j)), b, 0, 1), 13, 8);
  expect_range(range_of(output(block_chunk(2, j)), b, 0, 2), 21, 4);
  expect_range(range_of(output(block_chunk(2, j)), b, 0, 3), 0, 0);
  expect_range(range_of(scratch(0, blocks(1, 3)), b, 0, 0), 5, 21);
  expect_range(range_of(scratch(0, blocks(0, 1)), b, 0, 0), 0, 5);
  EXPECT_EQ(times_of(block_chunks(), b), 3);
  EXPECT_EQ(slot_bytes(s, b), 64U);
  EXPECT_EQ(slot_bytes(with(0, kSlotOfBlock), bind(with(0, kSlotOfBlock), 26, 8, b.in, b.out)),
            192U);
  EXPECT_EQ(slot_origin(scratch(0, blocks(2, 2)), b, 0, 0), 0U);
  EXPECT_EQ(slot_origin(scratch(0, block_chunk(2, j)), b, 0, 1), 13U);
}

TEST(RangeOf, BlocksOfAnExchangeDifferAtItsTwoEnds) {
  const std::size_t in[] = {1, 3};
  const std::size_t out[] = {4, 9};
  const Binding b = bind(with(0, 0), 3, 8, {0, in, 2}, {0, out, 5});
  expect_range(range_of(input(block(1)), b, 0, 0), 1, 2);
  expect_range(range_of(Program::stage_of(0, 0, block(1)), b, 0, 0), 1, 2);
  expect_range(range_of(output(block(1)), b, 0, 0), 4, 5);
  expect_range(range_of(scratch(0, block(1)), b, 0, 0), 4, 5);
}

TEST(CycleOf, IsNoLongerThanThereAreChunks) {
  Schedule s = with(64, 1);
  s.stage_slots = 8;
  EXPECT_EQ(cycle_of(s, bind(s, 100, 8)), 0);
  EXPECT_EQ(stage_slots_of(s, bind(s, 100, 8)), 8);
  s.slot_cycle = 4;
  EXPECT_EQ(cycle_of(s, bind(s, 100, 8)), 4);
  EXPECT_EQ(cycle_of(s, bind(s, 16, 8)), 2);
  EXPECT_EQ(stage_slots_of(s, bind(s, 16, 8)), 4);
  EXPECT_EQ(cycle_of(s, bind(s, 0, 8)), 1);
}

TEST(CycleOf, OfBlocksCountsTheChunksOfTheLargest) {
  Schedule s = with(64, kSlotOfBlock);
  s.stage_slots = 12;  // of three ranks
  s.slot_cycle = 12;
  s.slots_per_chunk = 3;
  const auto of = [&](std::size_t each) {
    return bind(s, 3 * each, 8, BlockTable::even(each), BlockTable::even(each));
  };
  EXPECT_EQ(cycle_of(s, of(8)), 3);
  EXPECT_EQ(cycle_of(s, of(9)), 6);
  EXPECT_EQ(cycle_of(s, of(1000)), 12);
  EXPECT_EQ(stage_slots_of(s, of(9)), 6);
}

TEST(TimesOf, CountsChunks) {
  const Binding b = bind(with(256, 1), 1000, 4);  // 64 a chunk
  EXPECT_EQ(times_of(times(3), b), 3);
  EXPECT_EQ(times_of(chunks(), b), 16);
  EXPECT_EQ(times_of(chunks(-1), b), 15);
  EXPECT_EQ(times_of(part_chunks(2), b), 8);
  EXPECT_EQ(times_of(part_chunks(3, 2), b), 8);
  EXPECT_EQ(times_of(chunks(), bind(with(256, 1), 0, 4)), 0);
  EXPECT_EQ(times_of(chunks(-1), bind(with(256, 1), 0, 4)), 0);
  EXPECT_EQ(times_of(chunks(), bind(with(0, 0), 1000, 4)), 1);
}

TEST(ToText, NamesEveryStep) {
  const Schedule s = slice_owner_all_reduce({1, 3, 0, nullptr, 1024});
  const std::string text = verify::to_text(s);
  EXPECT_NE(text.find("slice_owner of all_reduce: rank 1 of 3"), text.npos);
  EXPECT_NE(text.find("loop chunks"), text.npos);
  EXPECT_NE(text.find("await counter 1 of rank 2 >= i+1"), text.npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<std::ptrdiff_t>(s.steps.size()) + 1);
}

}  // namespace
}  // namespace tutti::plan
