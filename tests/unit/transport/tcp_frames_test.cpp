#include "transport/tcp/frame_reader.hpp"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "contract/transport/recorder.hpp"
#include "os/address.hpp"
#include "os/socket.hpp"
#include "transport/tcp/send_queue.hpp"
#include "transport/tcp/stream_socket.hpp"

namespace tutti::transport {
namespace {

using test::head_of;
using test::payload_of;
using test::Recorder;
using Bytes = std::vector<std::byte>;
using Verdict = FrameReader::Verdict;

void append(Bytes& stream, const FrameHeader& header, const Bytes& payload) {
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  stream.insert(stream.end(), head, head + sizeof header);
  stream.insert(stream.end(), payload.begin(), payload.end());
}

Bytes stream_of(const std::vector<std::size_t>& sizes) {
  Bytes stream;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    append(stream, head_of(i, sizes[i]), payload_of(i, sizes[i]));
  return stream;
}

const std::vector<std::size_t> kSizes = {0, 1, 64, 0, 0, 63, 1000, 65, 128, 300};

void expect_all(Recorder& sink) {
  const auto& frames = sink.peers[3].frames;
  ASSERT_EQ(frames.size(), kSizes.size());
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    EXPECT_TRUE(test::same(frames[i].header, head_of(i, kSizes[i]))) << i;
    EXPECT_EQ(frames[i].payload, payload_of(i, kSizes[i])) << i;
  }
}

TEST(FrameReader, FindsTheSameFramesHoweverTheStreamIsCut) {
  const Bytes stream = stream_of(kSizes);
  for (std::size_t step = 1; step <= stream.size(); step += step < 200 ? 1 : 97) {
    Recorder sink;
    FrameReader reader(3);
    for (std::size_t at = 0; at < stream.size(); at += step) {
      const auto piece = std::span(stream).subspan(at, std::min(step, stream.size() - at));
      ASSERT_EQ(reader.feed(piece, sink), Verdict::ok);
    }
    expect_all(sink);
  }
}

TEST(FrameReader, TakesPayloadsThatWereReadStraightIntoPlace) {
  const Bytes stream = stream_of(kSizes);
  Recorder sink;
  FrameReader reader(3);
  std::size_t at = 0;
  bool direct = false;
  while (at < stream.size()) {
    const auto target = reader.awaited();
    std::size_t count = 0;
    if (!target.empty()) {
      direct = true;
      count = std::min<std::size_t>(target.size(), 40);
      std::memcpy(target.data(), stream.data() + at, count);
      ASSERT_EQ(reader.filled(count, sink), Verdict::ok);
    } else {
      count = std::min<std::size_t>(stream.size() - at, 50);
      ASSERT_EQ(reader.feed(std::span(stream).subspan(at, count), sink), Verdict::ok);
    }
    at += count;
  }
  EXPECT_TRUE(direct);
  expect_all(sink);
}

TEST(FrameReader, StopsAtWhatCannotBe) {
  const auto outcome_of = [](void (*change)(FrameHeader&)) {
    FrameHeader header = head_of(1, 8);
    change(header);
    Bytes stream;
    append(stream, header, Bytes(8));
    Recorder sink;
    FrameReader reader(3);
    const Verdict outcome = reader.feed(stream, sink);
    EXPECT_EQ(sink.peers[3].heads, outcome == Verdict::ok ? 1 : 0) << "a bad head was shown";
    return outcome;
  };
  EXPECT_EQ(outcome_of([](FrameHeader&) {}), Verdict::ok);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.payload_bytes = kMaxFramePayload; }), Verdict::ok);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.payload_bytes = kMaxFramePayload + 1; }),
            Verdict::oversized);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.payload_bytes = 0xffffffff; }), Verdict::oversized);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.type = 0; }), Verdict::malformed);
  constexpr auto kNone = static_cast<std::uint8_t>(static_cast<int>(kLastFrameType) + 1);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.type = kNone; }), Verdict::malformed);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.type = 255; }), Verdict::malformed);
  EXPECT_EQ(outcome_of([](FrameHeader& h) { h.reserved = 1; }), Verdict::malformed);
  EXPECT_EQ(
      outcome_of([](FrameHeader& h) { h.type = static_cast<std::uint8_t>(FrameType::leave); }),
      Verdict::left);
}

TEST(FrameReader, ShowsWhatCameBeforeALeaveAndNothingAfter) {
  Bytes stream = stream_of({5, 6});
  FrameHeader leave;
  leave.type = static_cast<std::uint8_t>(FrameType::leave);
  append(stream, leave, {});
  append(stream, head_of(2, 0), {});
  Recorder sink;
  FrameReader reader(3);
  EXPECT_EQ(reader.feed(stream, sink), Verdict::left);
  EXPECT_EQ(sink.received(3), 2U);
}

/// Gives less room than was announced.
class Stingy final : public Recorder {
 public:
  std::span<std::byte> on_header(int peer, const FrameHeader& header) noexcept override {
    const auto room = Recorder::on_header(peer, header);
    return room.first(header.payload_bytes - 1);
  }
};

TEST(FrameReader, NeverWritesBeyondTheRoomItWasGiven) {
  Stingy sink;
  FrameReader reader(3);
  EXPECT_EQ(reader.feed(stream_of({100}), sink), Verdict::refused);
  EXPECT_TRUE(reader.awaited().empty());
}

TEST(FrameReader, DropsTheRestOfAPayloadThatNobodyWantsAnyMore) {
  const Bytes stream = stream_of({10, 1000, 20});
  const std::size_t middle = 64 + 10 + 64 + 400;
  for (const std::size_t step : {1UL, 90UL, 4000UL}) {
    Recorder sink;
    FrameReader reader(3);
    reader.drop_arriving();  // nothing arrives: nothing happens
    ASSERT_EQ(reader.feed(std::span(stream).first(middle), sink), Verdict::ok);
    EXPECT_EQ(reader.awaited().size(), 600U);
    reader.drop_arriving();
    EXPECT_TRUE(reader.awaited().empty());
    const Bytes before = sink.peers[3].arriving;
    for (std::size_t at = middle; at < stream.size(); at += step) {
      const auto piece = std::span(stream).subspan(at, std::min(step, stream.size() - at));
      ASSERT_EQ(reader.feed(piece, sink), Verdict::ok);
      if (at + step < stream.size() - 84) {
        ASSERT_EQ(sink.peers[3].arriving, before) << "written after drop_arriving";
      }
    }
    ASSERT_EQ(sink.received(3), 2U);
    EXPECT_EQ(sink.peers[3].frames[0].payload, payload_of(0, 10));
    EXPECT_EQ(sink.peers[3].frames[1].payload, payload_of(2, 20));
  }
}

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
  Bytes bytes;
  append(bytes, head_of(number, size), payload_of(number, size));
  return bytes;
}

TEST(SendQueue, GivesTheSameBytesHoweverTheyAreTaken) {
  const std::vector<std::size_t> sizes = {100, 0, 5, 64, 1, 0, 300};
  Bytes expected;
  std::vector<Bytes> payloads;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    append(expected, head_of(i, sizes[i]), payload_of(i, sizes[i]));
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
    append(expected, head_of(2, 50), payload_of(2, 50));
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

TEST(StreamSocket, LeavesBbrOnShortPathsOnly) {
  using std::chrono::microseconds;
  for (const std::string_view bbr : {"bbr", "bbr2"}) {
    EXPECT_TRUE(paces_too_slowly(bbr, microseconds(30))) << bbr;
    EXPECT_TRUE(paces_too_slowly(bbr, microseconds(999))) << bbr;
    EXPECT_FALSE(paces_too_slowly(bbr, microseconds(1000))) << bbr;
    EXPECT_FALSE(paces_too_slowly(bbr, microseconds::max())) << bbr;
  }
  for (const std::string_view other : {"", "cubic", "dctcp", "reno"})
    EXPECT_FALSE(paces_too_slowly(other, microseconds(30))) << other;
}

TEST(StreamSocket, TakesRenoWhereItWouldBeBbr) {
  Result<os::Address> any = os::Address::parse("127.0.0.1", 0);
  Result<os::Fd> listener = os::listen_tcp(*any, 1);
  ASSERT_TRUE(listener.ok());
  Result<os::Address> address = os::local_address(listener->get());
  ASSERT_TRUE(address.ok());
  Result<os::Fd> dialled = os::start_connect(*address);
  ASSERT_TRUE(dialled.ok());
  const int fd = dialled->get();
  const auto control = [fd] {
    std::array<char, 16> name{};
    socklen_t size = name.size() - 1;
    EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size), 0);
    return std::string(name.data());
  };
  // Where the kernel has no bbr the socket keeps what it has.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3);
  const std::string before = control();
  choose_congestion_control(fd);
  EXPECT_EQ(control(), before.starts_with("bbr") ? "reno" : before);
}

}  // namespace
}  // namespace tutti::transport
