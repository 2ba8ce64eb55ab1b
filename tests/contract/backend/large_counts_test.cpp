#include <algorithm>
#include <cstring>

#include "arrangement.hpp"
#include "support/long_tests.hpp"

// Counts that an int of MPI cannot hold, on 2 ranks: 2^31 + 5 bytes or elements, in place where
// there is a place. Without TUTTI_LONG_TESTS=1 the same with less memory.
namespace tutti::test {
namespace {

const std::size_t kHalf = long_tests() ? std::size_t{1} << 30 : 50'000;
const std::size_t kBeyond = 2 * kHalf + 5;

/// Bytes, all of one value.
class Memory {
 public:
  Memory(std::size_t bytes, int fill)
      : bytes_(bytes), data_(std::make_unique_for_overwrite<std::uint8_t[]>(bytes)) {
    std::memset(data_.get(), fill, bytes_);
  }

  /// A value at each 4096th byte and at the end: blocks that are put elsewhere are noticed.
  void mark(int of) {
    const auto seed = static_cast<std::uint8_t>(of);
    for (std::size_t at = 0; at < bytes_; at += 4096) data_[at] = mark_at(at, seed);
    data_[bytes_ - 1] = seed;
  }
  /// Of a part, the first byte that is not as mark() or the constructor has left it; absent: all
  /// are.
  [[nodiscard]] std::optional<std::size_t> differs(std::size_t first, std::size_t count,
                                                   std::uint8_t fill, std::uint8_t seed) const {
    for (std::size_t at = 0; at < count; ++at) {
      std::uint8_t wanted = fill;
      if (at % 4096 == 0) wanted = mark_at(at, seed);
      if (at == count - 1) wanted = seed;
      if (data_[first + at] != wanted) return first + at;
    }
    return std::nullopt;
  }
  [[nodiscard]] TensorView view(std::size_t first, std::size_t count) {
    return TensorView(data_.get() + first, DType::uint8, count);
  }
  [[nodiscard]] TensorView view() { return view(0, bytes_); }
  [[nodiscard]] const std::uint8_t* begin() const { return data_.get(); }
  [[nodiscard]] const std::uint8_t* end() const { return data_.get() + bytes_; }

 private:
  static std::uint8_t mark_at(std::size_t at, std::uint8_t seed) {
    return static_cast<std::uint8_t>(seed + at / 4096 * 7 + (at >> 31));
  }

  std::size_t bytes_;
  std::unique_ptr<std::uint8_t[]> data_;
};

class LargeCounts : public testing::Test {
 protected:
  void SetUp() override {
    // MPI may keep an operation that was given up, and its tensors with it.
    world_ = launched_world("mpi", std::chrono::minutes(15));
    ASSERT_EQ(world_.size(), 2);
  }
  void TearDown() override {
    if (world_ && world_.health().ok()) world_.barrier().wait();
  }
  [[nodiscard]] ProcessGroup& world() { return world_; }
  [[nodiscard]] std::uint8_t rank() const { return static_cast<std::uint8_t>(world_.rank()); }

 private:
  ProcessGroup world_;
};

TEST_F(LargeCounts, Broadcast) {
  Memory memory(kBeyond, 1 + rank());
  if (rank() == 1) memory.mark(9);
  world().broadcast(memory.view(), {.root = 1}).wait();
  EXPECT_EQ(memory.differs(0, kBeyond, 2, 9), std::nullopt);
}

TEST_F(LargeCounts, SendAndReceive) {
  Memory memory(kBeyond, 1 + rank());
  if (rank() == 0) {
    memory.mark(5);
    world().send(memory.view(), 1);
  } else {
    EXPECT_EQ(world().recv(memory.view(), 0), 0);
    EXPECT_EQ(memory.differs(0, kBeyond, 1, 5), std::nullopt);
  }
}

TEST_F(LargeCounts, AllGatherInPlaceOfMoreThanABlock) {
  const std::size_t block_size = kHalf + 3;
  Memory memory(2 * block_size, 0);
  Memory block(block_size, 1 + rank());
  block.mark(20 + rank());
  const TensorView mine = memory.view(rank() * block_size, block_size);
  std::memcpy(mine.data(), block.begin(), block_size);
  world().all_gather(memory.view(), mine).wait();
  EXPECT_EQ(memory.differs(0, block_size, 1, 20), std::nullopt);
  EXPECT_EQ(memory.differs(block_size, block_size, 2, 21), std::nullopt);
}

TEST_F(LargeCounts, AllGatherOfUnevenBlocks) {
  const std::size_t counts[] = {kBeyond, 1000};
  Memory all(kBeyond + 1000, 0);
  Memory mine(counts[rank()], 1 + rank());
  mine.mark(30 + rank());
  world().all_gather(all.view(), mine.view(), {.output_counts = counts}).wait();
  EXPECT_EQ(all.differs(0, kBeyond, 1, 30), std::nullopt);
  EXPECT_EQ(all.differs(kBeyond, 1000, 2, 31), std::nullopt);
}

TEST_F(LargeCounts, AllToAllOfUnevenBlocks) {
  // A rank keeps 10 bytes and sends the other more than 2^31, or 20.
  const std::size_t to_other = rank() == 0 ? kBeyond : 20;
  const std::size_t from_other = rank() == 0 ? 20 : kBeyond;
  const bool first = rank() == 0;
  const std::size_t sends[] = {first ? 10 : to_other, first ? to_other : 10};
  const std::size_t gets[] = {first ? 10 : from_other, first ? from_other : 10};
  Memory in(10 + to_other, 1 + rank());
  Memory out(10 + from_other, 0);
  world().all_to_all(out.view(), in.view(), {.output_splits = gets, .input_splits = sends}).wait();
  const std::uint8_t* const split = out.begin() + gets[0];
  EXPECT_EQ(std::count(out.begin(), split, std::uint8_t{1}), split - out.begin());
  EXPECT_EQ(std::count(split, out.end(), std::uint8_t{2}), out.end() - split);
}

TEST_F(LargeCounts, AllReduceInParts) {
  Memory memory(kBeyond, 1 + rank());
  memory.mark(40 + rank());
  world().all_reduce(memory.view(), {.op = ReduceOp::max}).wait();
  for (std::size_t at = 0; at < kBeyond; ++at) {
    // Marks of rank 1 are one above those of rank 0, but where they wrap around.
    const std::uint8_t found = memory.begin()[at];
    std::uint8_t wanted = 2;
    if (at % 4096 == 0) {
      const auto low = static_cast<std::uint8_t>(40 + at / 4096 * 7 + (at >> 31));
      wanted = std::max(low, static_cast<std::uint8_t>(low + 1));
    }
    if (at == kBeyond - 1) wanted = 41;
    ASSERT_EQ(found, wanted) << at;
  }
}

TEST_F(LargeCounts, ReduceToOneRank) {
  Memory memory(kBeyond, 3 + rank());
  world().reduce(memory.view(), {.root = 1}).wait();
  const std::uint8_t wanted = rank() == 1 ? 7 : 3;
  EXPECT_EQ(static_cast<std::size_t>(std::count(memory.begin(), memory.end(), wanted)), kBeyond);
}

TEST_F(LargeCounts, ReduceScatterOfMoreThanCountsReach) {
  const std::size_t block_size = kHalf + 3;
  Memory in(2 * block_size, 3 + rank());
  Memory out(block_size, 0);
  world().reduce_scatter(out.view(), in.view()).wait();
  EXPECT_EQ(static_cast<std::size_t>(std::count(out.begin(), out.end(), std::uint8_t{7})),
            block_size);
}

}  // namespace
}  // namespace tutti::test
