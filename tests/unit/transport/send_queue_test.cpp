#include "transport/tcp/send_queue.hpp"

#include <gtest/gtest.h>

#include "contract/transport/recorder.hpp"

namespace tutti::transport {
namespace {

using test::head_of;
using test::payload_of;
using Bytes = std::vector<std::byte>;

/// Takes at most `limit` bytes off the queue, as a socket would.
Bytes take(SendQueue& queue, std::size_t limit) {
  std::array<iovec, SendQueue::kMaxPieces> pieces;
  const std::size_t count = queue.pieces(pieces);
  Bytes taken;
  for (std::size_t i = 0; i < count && taken.size() < limit; ++i) {
    const auto* data = static_cast<const std::byte*>(pieces[i].iov_base);
    const std::size_t size = std::min(pieces[i].iov_len, limit - taken.size());
    EXPECT_GT(pieces[i].iov_len, 0U);
    taken.insert(taken.end(), data, data + size);
  }
  queue.sent(taken.size());
  return taken;
}

Bytes wire_of(std::uint64_t number, std::size_t size) {
  const FrameHeader header = head_of(number, size);
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  Bytes bytes(head, head + sizeof header);
  const Bytes payload = payload_of(number, size);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

TEST(SendQueue, GivesTheSameBytesHoweverTheyAreTaken) {
  const std::vector<std::size_t> sizes = {100, 0, 5, 64, 1, 0, 300};
  Bytes expected;
  std::vector<Bytes> payloads;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Bytes wire = wire_of(i, sizes[i]);
    expected.insert(expected.end(), wire.begin(), wire.end());
    payloads.push_back(payload_of(i, sizes[i]));
  }
  for (std::size_t step = 1; step < 700; step += 3) {
    SendQueue queue;
    Bytes taken;
    std::size_t next = 0;
    while (next < sizes.size() || !queue.empty()) {
      while (next < sizes.size() && queue.has_room()) {
        queue.push(head_of(next, sizes[next]), payloads[next].data(), next + 1);
        ++next;
      }
      const Bytes piece = take(queue, step);
      taken.insert(taken.end(), piece.begin(), piece.end());
    }
    ASSERT_EQ(taken, expected) << "step " << step;
    EXPECT_EQ(queue.finished(), sizes.size());
    EXPECT_EQ(queue.bytes(), 0U);
  }
}

TEST(SendQueue, IsShort) {
  SendQueue small;
  const Bytes payload(kMaxFramePayload);
  std::size_t frames = 0;
  for (; small.has_room(); ++frames) small.push(head_of(0, 0), nullptr, frames + 1);
  EXPECT_EQ(frames, SendQueue::kFrames);
  SendQueue large;
  for (; large.has_room();) large.push(head_of(0, kMaxFramePayload), payload.data(), 1);
  EXPECT_LE(large.bytes(), SendQueue::kBytes + kMaxFramePayload + sizeof(FrameHeader));
}

TEST(SendQueue, HasAlwaysRoomForTheFarewell) {
  SendQueue queue;
  while (queue.has_room()) queue.push(head_of(1, 0), nullptr, 1);
  queue.push_leave();
  const Bytes all = take(queue, 100000);
  ASSERT_EQ(all.size(), (SendQueue::kFrames + 1) * sizeof(FrameHeader));
  EXPECT_EQ(all[SendQueue::kFrames * sizeof(FrameHeader) + 4],
            static_cast<std::byte>(FrameType::leave));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.finished(), 1U);
}

TEST(SendQueue, TellsATokenOnlyWhenItsLastByteIsTaken) {
  SendQueue queue;
  const Bytes payload = payload_of(7, 10);
  queue.push(head_of(7, 10), payload.data(), 41);
  queue.push(head_of(8, 0), nullptr, 42);
  take(queue, 73);
  EXPECT_EQ(queue.finished(), 0U);
  take(queue, 1);
  EXPECT_EQ(queue.finished(), 41U);
  take(queue, 63);
  EXPECT_EQ(queue.finished(), 41U);
  take(queue, 1);
  EXPECT_EQ(queue.finished(), 42U);
}

TEST(SendQueue, KeepsWhatIsNotSentYet) {
  for (const std::size_t sent : {0UL, 30UL, 64UL, 100UL, 164UL, 200UL}) {
    SendQueue queue;
    Bytes first = payload_of(1, 100);
    Bytes second = payload_of(2, 50);
    queue.push(head_of(1, 100), first.data(), 1);
    queue.push(head_of(2, 50), second.data(), 2);
    Bytes taken = take(queue, sent);
    queue.keep_payloads();
    std::ranges::fill(first, std::byte{0xdd});
    std::ranges::fill(second, std::byte{0xdd});
    queue.keep_payloads();
    const Bytes rest = take(queue, 100000);
    taken.insert(taken.end(), rest.begin(), rest.end());
    Bytes expected = wire_of(1, 100);
    const Bytes wire = wire_of(2, 50);
    expected.insert(expected.end(), wire.begin(), wire.end());
    EXPECT_EQ(taken, expected) << sent << " bytes sent before";
  }
}

TEST(SendQueue, StartsAnewAfterClear) {
  SendQueue queue;
  const Bytes payload = payload_of(1, 100);
  queue.push(head_of(1, 100), payload.data(), 1);
  take(queue, 90);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes(), 0U);
  queue.push(head_of(2, 0), nullptr, 2);
  EXPECT_EQ(take(queue, 1000), wire_of(2, 0));
}

}  // namespace
}  // namespace tutti::transport
