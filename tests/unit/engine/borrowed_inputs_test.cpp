#include <gmock/gmock.h>

#include <algorithm>
#include <span>

#include "base/log.hpp"
#include "host.hpp"
#include "transport/shm/park.hpp"

// Inputs that other ranks read where they lie: a rank that may have read one after its owner's
// operation ended has no result.
namespace tutti::engine {
namespace {

class BorrowedInputs : public testing::Test {
 protected:
  static constexpr std::uint64_t kGroup = 5;
  static constexpr std::size_t kCount = 50'000;  // of floats
  static constexpr int kRanks = 3;

  BorrowedInputs() {
    now_ = TimePoint(std::chrono::hours(1));
    EXPECT_TRUE(host_.make_all(kGroup));
    for (int rank = 0; rank < kRanks; ++rank) {
      auto* const memory = host_.regions(rank).arena + transport::shm::kUserOffset;
      shared_.emplace_back(reinterpret_cast<float*>(memory), kCount);
      std::ranges::fill(shared_.back(), static_cast<float>(rank + 1));
    }
  }

  [[nodiscard]] Group& group(int rank) { return host_.group(rank, kGroup); }
  std::uint64_t submit(int rank, Kind kind, std::span<float> in, std::span<float> out,
                       int root = 0) {
    return host_.engine(rank).submit(group(rank), {.kind = kind,
                                                   .root = root,
                                                   .timeout = std::chrono::hours(1),
                                                   .input = TensorView(in),
                                                   .output = TensorView(out)});
  }
  /// Of rank 0, out of the memory that others read.
  std::uint64_t broadcast(int rank) {
    const std::span<float> data = rank == 0 ? shared_[0] : std::span(base::at(got_, rank));
    return submit(rank, Kind::broadcast, data, data);
  }
  [[nodiscard]] std::optional<Outcome> outcome(int rank, std::uint64_t ticket) {
    return host_.engine(rank).outcome(group(rank), ticket);
  }

  static TimePoint read_clock() noexcept {
    ++clock_reads_;
    return now_;
  }

  static inline TimePoint now_;
  static inline int clock_reads_ = 0;
  Host host_{kRanks, [](World& world) {
               world.cpus = 8;
               world.now = read_clock;
               world.stall_warning = std::chrono::seconds(30);
             }};
  std::vector<std::span<float>> shared_;  ///< by rank
  std::vector<std::vector<float>> got_{kRanks, std::vector<float>(kCount)};
};

TEST_F(BorrowedInputs, AreInUseUntilAllHaveReadThem) {
  const std::uint64_t ticket = broadcast(0);
  for (const int rank : {1, 2}) {
    host_.settle();
    EXPECT_FALSE(outcome(0, ticket)) << rank;
    broadcast(rank);
  }
  host_.settle();
  EXPECT_TRUE(outcome(0, ticket)->ok());
  for (const int rank : {1, 2}) EXPECT_THAT(base::at(got_, rank), testing::Each(1.0F));
}

TEST_F(BorrowedInputs, ThatNobodyReadsForLongAreLogged) {
  std::vector<std::string> told;
  base::set_log_sink([&](LogLevel, std::string_view text) { told.emplace_back(text); });
  broadcast(0);
  for (int second = 0; second < 40; ++second) {
    host_.engine(0).tick();
    now_ += std::chrono::seconds(1);
  }
  base::set_log_sink({});
  EXPECT_THAT(told, testing::ElementsAre(testing::HasSubstr("rank 1 has not made this call yet")));
}

TEST_F(BorrowedInputs, ABreakThatHasReachedTheirRankOnlyCountsForAll) {
  const std::uint64_t ticket = broadcast(0);
  // Rank 2 breaks the group, and has not come to rank 1 yet.
  (void)transport::shm::tell_break(
      host_.regions(0).control().words(), host_.regions(0).control().break_word(group(0).slot),
      transport::shm::break_word(static_cast<std::uint8_t>(Errc::aborted), 2, -1));
  host_.engine(0).progress();
  ASSERT_TRUE(outcome(0, ticket));
  EXPECT_EQ(outcome(0, ticket)->code(), Errc::aborted);
  std::ranges::fill(shared_[0], 9.0F);  // its caller may
  const std::uint64_t late = broadcast(1);
  ASSERT_TRUE(outcome(1, late));
  EXPECT_EQ(outcome(1, late)->code(), Errc::aborted);
}

TEST_F(BorrowedInputs, OfAGroupThatTheirRankHasDestroyedAreNoResult) {
  broadcast(0);
  host_.close(0, kGroup);
  std::ranges::fill(shared_[0], 9.0F);
  const std::uint64_t ticket = broadcast(1);
  ASSERT_TRUE(outcome(1, ticket));
  EXPECT_EQ(outcome(1, ticket)->code(), Errc::peer_left);
  EXPECT_EQ(outcome(1, ticket)->culprit(), 0);
  EXPECT_THAT(std::string(outcome(1, ticket)->message()),
              testing::HasSubstr("has destroyed the group while its input was read"));
}

TEST_F(BorrowedInputs, OfEarlierOperationsAreForgotten) {
  std::vector<std::vector<float>> all(kRanks, std::vector<float>(kRanks * kCount));
  for (int rank = 0; rank < kRanks; ++rank)
    submit(rank, Kind::all_gather, base::at(shared_, rank), base::at(all, rank));
  host_.settle();
  for (int i = 1; i < transport::shm::kWindow; ++i) {
    for (int rank = 0; rank < kRanks; ++rank) submit(rank, Kind::barrier, {}, {});
    host_.settle();
  }
  // In the slot of the all_gather: of rank 0 alone. Rank 2 has done its part.
  broadcast(0);
  const std::uint64_t of_second = broadcast(2);
  host_.settle();
  ASSERT_TRUE(outcome(2, of_second) && outcome(2, of_second)->ok());
  host_.close(2, kGroup);
  const std::uint64_t ticket = broadcast(1);
  ASSERT_TRUE(outcome(1, ticket));
  EXPECT_TRUE(outcome(1, ticket)->ok()) << outcome(1, ticket)->message();
  EXPECT_THAT(got_[1], testing::Each(1.0F));
}

TEST_F(BorrowedInputs, TeachNothingAboutTheCachesOfOthers) {
  for (const bool staged : {true, false}) {
    clock_reads_ = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::span<float> data =
          rank == 0 && !staged ? shared_[0] : std::span(base::at(got_, rank));
      submit(rank, Kind::broadcast, data, data);
    }
    host_.settle();
    EXPECT_EQ(clock_reads_ > 0, staged);
  }
}

}  // namespace
}  // namespace tutti::engine
