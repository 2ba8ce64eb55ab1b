#include "call/gpu_calls.hpp"
#include "engine/credit_account.hpp"
#include "lone_engine.hpp"

// Sends and recvs whose tensors are on GPUs (GpuMessage): what the two ranks tell each other, and
// what a peer that lies can do.
namespace tutti::engine {
namespace {

using std::chrono::seconds;
using namespace transport;
using State = call::GpuMessage::State;

constexpr std::size_t kBytes = kEagerLimit + 64;

class P2PGpuTest : public P2PWorld {
 protected:
  struct Message {
    call::GpuMessage gpu;
    Details details;
    std::uint64_t ticket = 0;
  };
  void submit(Message& message, Kind kind, int other) {
    message.details.gpu_message = &message.gpu;
    message.ticket = submit(kind, other, nullptr, &message.details);
  }
  std::uint64_t submit(Kind kind, int other, void* data, const Details* details = nullptr) {
    const TensorView view(data, DType::uint8, kBytes);
    return engine_.submit(world_, {.kind = kind,
                                   .root = other,
                                   .timeout = seconds(1),
                                   .input = view,
                                   .output = view,
                                   .details = details});
  }
  static FrameHeader rts(std::uint64_t number, bool on_gpu) {
    return encode(RtsFrame{envelope(number, kBytes), on_gpu});
  }
  [[nodiscard]] bool done(std::uint64_t ticket) { return P2PWorld::done(world_, ticket); }
  [[nodiscard]] bool done(const Message& message) { return done(message.ticket); }
  static State state_of(const Message& message) { return message.gpu.state.load(); }
  void come(Message& message) { message.gpu.stream_came.store(true); }
  void give_memory(Message& message) {
    message.gpu.memory = TensorView(memory.data(), DType::uint8, kBytes);
    message.gpu.state.store(State::has_memory);
  }
  [[nodiscard]] CtsFrame last_cts() const { return decode<CtsFrame>(transport_.sent.back()); }

  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(kBytes, 1);
  std::uint64_t number_ = 0;  ///< of the last message of rank 1
};

TEST_F(P2PGpuTest, ARecvOfAMessageFromAGpuEndsWithItsCts) {
  Message first;
  Message second;
  Message other;
  for (Message* const one : {&first, &second, &other}) come(*one);
  submit(first, Kind::recv, 1);
  EXPECT_TRUE(hear(1, rts(1, true)));
  EXPECT_TRUE(done(first));
  EXPECT_EQ(state_of(first), State::on_gpus);
  EXPECT_EQ(first.gpu.number, 1u);
  EXPECT_TRUE(last_cts().on_gpus);
  EXPECT_EQ(last_cts().send, 1001u);
  EXPECT_TRUE(hear(1, rts(2, true)));
  EXPECT_TRUE(hear(2, rts(1, true)));
  submit(other, Kind::recv, any_source);  // behind, as rank 1's came first
  EXPECT_TRUE(done(other));
  EXPECT_EQ(other.gpu.number, 2u);
  EXPECT_EQ(engine_.received(world_, other.ticket).source, 1);
  submit(second, Kind::recv, 2);
  EXPECT_TRUE(done(second));
  EXPECT_EQ(second.gpu.number, 1u) << "each pair counts its own";
}

/// The numbers are those of the frames: a CTS that waits is counted when it is sent.
TEST_F(P2PGpuTest, ACtsThatCannotBeSentYetIsNotCounted) {
  Message recv;
  come(recv);
  submit(recv, Kind::recv, 1);
  transport_.open = false;
  EXPECT_TRUE(hear(1, rts(1, true)));
  EXPECT_FALSE(done(recv));
  EXPECT_EQ(state_of(recv), State::unmatched);
  transport_.open = true;
  EXPECT_TRUE(done(recv));
  EXPECT_EQ(recv.gpu.number, 1u);
}

/// So a message of another recv is not behind one whose stream does something else.
TEST_F(P2PGpuTest, ARecvAsksForItsStreamFirst) {
  Message late;
  Message other;
  come(other);
  submit(late, Kind::recv, 1);
  EXPECT_TRUE(hear(1, rts(1, true)));
  EXPECT_FALSE(done(late));
  EXPECT_EQ(state_of(late), State::needs_stream);
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
  submit(other, Kind::recv, 1);
  EXPECT_TRUE(hear(1, rts(2, true)));
  EXPECT_TRUE(done(other));
  EXPECT_EQ(other.gpu.number, 1u);
  lone_engine_now += seconds(10);
  engine_.tick();
  EXPECT_FALSE(done(late)) << "its caller keeps the timeout";
  come(late);
  EXPECT_TRUE(done(late));
  EXPECT_EQ(late.gpu.number, 2u);
  EXPECT_TRUE(last_cts().on_gpus);
}

TEST_F(P2PGpuTest, ARecvOfAMessageFromTheHostAsksForMemoryFirst) {
  Message recv;
  submit(recv, Kind::recv, 1);
  EXPECT_TRUE(hear(1, rts(1, false)));
  EXPECT_FALSE(done(recv));
  EXPECT_EQ(state_of(recv), State::needs_memory);
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
  EXPECT_FALSE(hear(1, encode(P2PDataFrame{1, 1, recv.ticket, 0, 64}))) << "nobody asked for them";
  give_memory(recv);
  EXPECT_FALSE(done(recv));
  ASSERT_EQ(transport_.frames(FrameType::cts), 1);
  EXPECT_FALSE(last_cts().on_gpus);
  EXPECT_TRUE(hear(1, encode(P2PDataFrame{1, 1, recv.ticket, 0, kBytes}),
                   std::vector<std::byte>(kBytes, std::byte{7})));
  EXPECT_TRUE(done(recv));
  EXPECT_EQ(state_of(recv), State::has_memory);
  EXPECT_EQ(memory, std::vector<std::uint8_t>(kBytes, 7));
}

/// Bytes ahead of the CTS are kept until its caller gives memory.
TEST_F(P2PGpuTest, BytesAheadWaitForTheMemoryOfARecv) {
  const FrameHeader announced = encode(RtsFrame{envelope(1, kBytes), false, kBytes});
  const FrameHeader data = encode(P2PDataFrame{1, 1, 0, 0, kBytes, true});
  const std::vector<std::byte> bytes(kBytes, std::byte{7});
  for (const bool recv_first : {true, false}) {
    for (const bool memory_first : {true, false}) {
      Message recv;
      FrameHeader head = announced;
      FrameHeader piece = data;
      head.seq = piece.seq = ++number_;
      memory.assign(kBytes, 1);
      if (recv_first) submit(recv, Kind::recv, 1);
      EXPECT_TRUE(hear(1, head));
      if (recv_first && memory_first) {
        give_memory(recv);
        EXPECT_FALSE(done(recv));
      }
      EXPECT_TRUE(hear(1, piece, bytes));
      if (!recv_first) submit(recv, Kind::recv, 1);
      if (!recv_first || !memory_first) {
        EXPECT_FALSE(done(recv));
        EXPECT_EQ(state_of(recv), State::needs_memory);
        give_memory(recv);
      }
      EXPECT_TRUE(done(recv));
      EXPECT_EQ(memory, std::vector<std::uint8_t>(kBytes, 7));
    }
  }
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
}

TEST_F(P2PGpuTest, ASendToAGpuEndsWithTheCts) {
  Message first;
  Message second;
  submit(first, Kind::send, 1);
  submit(second, Kind::send, 1);
  settle();
  ASSERT_EQ(transport_.frames(FrameType::rts), 2);
  EXPECT_TRUE(decode<RtsFrame>(transport_.sent[0]).on_gpu);
  // The receiver takes the second one first.
  EXPECT_TRUE(hear(1, encode(CtsFrame{1, 2, second.ticket, 99, kBytes, true})));
  EXPECT_TRUE(done(second));
  EXPECT_FALSE(done(first));
  EXPECT_TRUE(hear(1, encode(CtsFrame{1, 1, first.ticket, 99, kBytes, true})));
  EXPECT_TRUE(done(first));
  EXPECT_EQ(second.gpu.number, 1u);
  EXPECT_EQ(first.gpu.number, 2u);
  EXPECT_EQ(transport_.frames(FrameType::p2p_data), 0);
}

TEST_F(P2PGpuTest, ASendToTheHostAsksForMemoryFirst) {
  Message send;
  submit(send, Kind::send, 1);
  settle();
  const CtsFrame cts{1, 1, send.ticket, 99, kBytes};
  EXPECT_TRUE(hear(1, encode(cts)));
  EXPECT_FALSE(done(send));
  EXPECT_EQ(state_of(send), State::needs_memory);
  EXPECT_TRUE(hear(1, encode(cts)));  // a second one changes nothing
  CtsFrame lie = cts;
  lie.on_gpus = true;
  EXPECT_TRUE(hear(1, encode(lie)));
  EXPECT_FALSE(done(send));
  EXPECT_EQ(state_of(send), State::needs_memory);
  EXPECT_EQ(transport_.frames(FrameType::p2p_data), 0);
  give_memory(send);
  EXPECT_TRUE(done(send));
  EXPECT_EQ(transport_.bytes(FrameType::p2p_data, 1), kBytes);
}

TEST_F(P2PGpuTest, ATensorOfTheHostIsAnsweredSo) {
  const std::uint64_t recv = submit(Kind::recv, 1, memory.data());
  EXPECT_TRUE(hear(1, rts(1, true)));
  EXPECT_FALSE(done(recv));
  ASSERT_EQ(transport_.frames(FrameType::cts), 1);
  EXPECT_FALSE(last_cts().on_gpus);
  // A peer that takes our message from the host for one of a GPU is not listened to.
  transport_.room = 1;  // so that no bytes go ahead of the CTS
  const std::uint64_t send = submit(Kind::send, 1, memory.data());
  EXPECT_FALSE(decode<RtsFrame>(transport_.sent.back()).on_gpu);
  EXPECT_TRUE(hear(1, encode(CtsFrame{1, 1, send, 99, kBytes, true})));
  EXPECT_FALSE(done(send));
}

TEST_F(P2PGpuTest, ARankMayReceiveItsOwnMessageFromTheHost) {
  std::vector<std::uint8_t> values(kBytes, 5);
  const std::uint64_t send = submit(Kind::send, 0, values.data());
  Message recv;
  submit(recv, Kind::recv, any_source);
  EXPECT_FALSE(done(recv));
  EXPECT_EQ(state_of(recv), State::needs_memory);
  give_memory(recv);
  EXPECT_TRUE(done(recv));
  EXPECT_TRUE(done(send));
  EXPECT_EQ(memory, values);
  EXPECT_EQ(engine_.received(world_, recv.ticket).source, 0);
}

TEST_F(P2PGpuTest, ABrokenGroupTouchesNeitherMemoryNorState) {
  Message recv;
  Message send;
  submit(recv, Kind::recv, 1);
  submit(send, Kind::send, 2);
  EXPECT_TRUE(hear(1, rts(1, false)));
  settle();
  engine_.break_group(world_, Outcome(Errc::aborted, "a test"));
  EXPECT_TRUE(done(recv));
  EXPECT_TRUE(done(send));
  EXPECT_TRUE(engine_.may_have_failed(world_, recv.ticket));
  give_memory(recv);
  settle();
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
  EXPECT_EQ(state_of(send), State::unmatched);
}

}  // namespace
}  // namespace tutti::engine
