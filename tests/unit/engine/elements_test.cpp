#include "engine/elements.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <numeric>

namespace tutti::engine {
namespace {

/// Pieces of three tensors, some of them empty, one with strides; every element has its number.
class PiecesTest : public testing::Test {
 protected:
  PiecesTest() {
    const std::int64_t shape[] = {5};
    const std::int64_t strides[] = {3};
    const TensorView row(first_.data(), DType::int32, first_.size());
    const TensorView spread(second_.data(), DType::int32, shape, strides);
    const TensorView last(third_.data(), DType::int32, third_.size());
    const std::vector<Piece> all{{row, 4, 0},  {row, 2, 6},  {spread, 1, 4},
                                 {last, 0, 0}, {last, 0, 7}, {row, 0, 2}};
    pieces_.assign(all);
    for (std::size_t i = 2; i < 8; ++i) where_.push_back(&first_[i]);
    for (std::size_t i = 1; i < 5; ++i) where_.push_back(&second_[3 * i]);
    for (std::size_t i = 0; i < 7; ++i) where_.push_back(&third_[i]);
    for (std::size_t i = 0; i < 2; ++i) where_.push_back(&first_[i]);
    for (std::size_t i = 0; i < where_.size(); ++i) *where_[i] = static_cast<int>(100 + i);
  }

  std::vector<std::int32_t> first_ = std::vector<std::int32_t>(8, -1);
  std::vector<std::int32_t> second_ = std::vector<std::int32_t>(13, -1);
  std::vector<std::int32_t> third_ = std::vector<std::int32_t>(7, -1);
  std::vector<std::int32_t*> where_;  ///< each element, in the row
  Pieces pieces_;
};

TEST_F(PiecesTest, AreARowOfElements) {
  ASSERT_EQ(pieces_.count(), where_.size());
  for (std::size_t begin = 0; begin < where_.size(); ++begin) {
    for (std::size_t count = 0; begin + count <= where_.size(); ++count) {
      std::vector<std::int32_t> row(count + 1, -7);
      pieces_.pack(row.data(), begin, count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(row[i], static_cast<int>(100 + begin + i));
      EXPECT_EQ(row[count], -7);
    }
  }
}

TEST_F(PiecesTest, AreWrittenWhereTheyLieAndNowhereElse) {
  for (std::size_t begin = 0; begin < where_.size(); ++begin) {
    for (std::size_t count = 1; begin + count <= where_.size(); ++count) {
      for (std::int32_t* const one : where_) *one = 0;
      std::vector<std::int32_t> row(count);
      std::iota(row.begin(), row.end(), 500);
      pieces_.unpack(begin, count, row.data());
      for (std::size_t i = 0; i < where_.size(); ++i) {
        const bool inside = i >= begin && i < begin + count;
        EXPECT_EQ(*where_[i], inside ? static_cast<int>(500 + i - begin) : 0);
      }
      for (std::size_t i = 0; i < second_.size(); ++i) {
        if (i % 3 == 0) continue;
        EXPECT_EQ(second_[i], -1) << "a gap was written";
      }
    }
  }
}

TEST_F(PiecesTest, WithinOneTensorInARowNeedNoCopy) {
  const Elements inside = pieces_.at(1, 5);
  EXPECT_TRUE(inside.contiguous());
  EXPECT_EQ(inside.data(sizeof(std::int32_t)), reinterpret_cast<std::byte*>(where_[1]));
  const Elements across = pieces_.at(5, 2);
  EXPECT_FALSE(across.contiguous());
  std::int32_t two[2] = {};
  across.pack(two, 0, 2);
  EXPECT_THAT(two, testing::ElementsAre(105, 106));
  const Elements spread = pieces_.at(7, 2);
  EXPECT_FALSE(spread.contiguous());
  spread.pack(two, 1, 1);
  EXPECT_EQ(two[0], 108);
  EXPECT_FALSE(pieces_.at(where_.size(), 0).contiguous());
}

}  // namespace
}  // namespace tutti::engine
