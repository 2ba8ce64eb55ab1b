#include "engine/p2p_table.hpp"

#include "engine_parts.hpp"

// The matchers of all groups, without an engine. Rank 0 of three; rank 2 is played by the test.
namespace tutti::engine {
namespace {

using namespace transport;

class P2PTableTest : public EnginePartsTest {
 protected:
  std::uint64_t recv(Group& group) {
    return first_.p2p.submit(group, {.kind = Kind::recv,
                                     .root = 1,
                                     .timeout = std::chrono::seconds(1),
                                     .input = {},
                                     .output = TensorView(data_)});
  }
  /// An eager message of rank 2 comes. True unless it was refused.
  bool hear(std::uint64_t group, std::uint32_t bytes, std::uint64_t announced) {
    FrameHeader header = encode(EagerMessageFrame{
        {group, 1, 1000, static_cast<std::uint64_t>(DType::float32), 0, announced}});
    header.payload_bytes = bytes;
    first_.channel.arriving(2, header);
    const std::span<std::byte> into = first_.p2p.place_of(2, header);
    if (into.empty()) return false;
    const float sent[] = {7, 8};
    std::ranges::copy(std::as_bytes(std::span(sent)), into.begin());
    first_.p2p.on_frame(2, header);
    return true;
  }

  std::vector<float> data_ = std::vector<float>(2);
};

TEST_F(P2PTableTest, AMessageForAGroupThatIsNotMadeYetWaitsForIt) {
  EXPECT_TRUE(hear(7, 8, 8));
  Group& group = first_.make(7, {0, 2});
  first_.p2p.adopt_early(group);
  const std::uint64_t ticket = recv(group);
  EXPECT_TRUE(is_p2p(ticket));
  EXPECT_TRUE(P2PTable::is_done(group, ticket));
  EXPECT_EQ(P2PTable::received(group, ticket).source, 1);
  EXPECT_EQ(data_, (std::vector<float>{7, 8}));
}

TEST_F(P2PTableTest, AMessageGoesToTheMatcherOfItsGroup) {
  Group& group = first_.make(7, {0, 2});
  Group& other = first_.make(8, {0, 2});
  const std::uint64_t ticket = recv(group);
  const std::uint64_t other_ticket = recv(other);
  EXPECT_TRUE(first_.p2p.busy());
  EXPECT_THAT(first_.p2p.running_text(), testing::HasSubstr("'group 7' of 2 ranks, recv("));
  EXPECT_TRUE(hear(8, 8, 8));
  EXPECT_FALSE(P2PTable::is_done(group, ticket));
  EXPECT_TRUE(P2PTable::is_done(other, other_ticket));
  first_.p2p.forget(group);
  first_.p2p.forget(other);
}

TEST_F(P2PTableTest, FramesThatCannotBeAreRefused) {
  first_.make(7, {0, 1});
  EXPECT_FALSE(hear(7, 8, 8)) << "its sender is no member";
  EXPECT_FALSE(hear(9, 8, 4)) << "of another length than it says";
  EXPECT_FALSE(hear(9, 6, 6)) << "with a part of an element";
}

TEST_F(P2PTableTest, ABrokenGroupRefusesACall) {
  Group& group = first_.make(7, {0, 2});
  first_.propagation.break_group(group, Outcome(Errc::aborted, "enough of it"));
  const std::uint64_t ticket = recv(group);
  EXPECT_EQ(ticket, kRefusedTicket);
  EXPECT_TRUE(P2PTable::is_done(group, ticket) && P2PTable::may_have_failed(group, ticket));
  EXPECT_EQ(P2PTable::outcome(group, ticket)->message(), "enough of it");
  EXPECT_EQ(first_.p2p.release(group, ticket).source, -1);
}

}  // namespace
}  // namespace tutti::engine
