#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/control_channel.hpp"
#include "engine/credit_account.hpp"
#include "engine/fifo.hpp"
#include "engine/frame_buffers.hpp"
#include "engine/frame_owner.hpp"
#include "engine/held_frames.hpp"
#include "engine/streams.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Streams of bytes and single frames between this rank and each other one: framing, credit of both
/// kinds, copies of strided elements, and what comes before it can be used (docs/wire.md). It knows
/// neither schedules nor groups nor which message goes to which recv: those that use it do.
///
/// "peer" is a rank of the world. Threads: under the driver lock.
class MessageChannel final : public ControlChannel {
 public:
  /// A frame on its way out, until its bytes have left our memory.
  struct OutFrame {
    std::uint64_t token = 0;
    FrameOwner* owner = nullptr;  ///< nullptr: a control frame, or the owner has let go
    std::uint64_t id = 0;         ///< what the owner knows it by
    const std::byte* payload = nullptr;
    std::vector<std::byte> bounce;
    bool bounced = false;  ///< `bounce` is a copy of strided elements
  };

  /// `route`: by rank; nullptr for ourselves.
  explicit MessageChannel(std::span<transport::Transport* const> route);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }
  [[nodiscard]] bool is_lost(int peer) const noexcept { return at(peer).lost; }
  [[nodiscard]] bool has_left(int peer) const noexcept override { return at(peer).left; }
  /// Neither lost nor left: what is sent may arrive.
  [[nodiscard]] bool is_open(int peer) const noexcept { return !at(peer).lost && !at(peer).left; }
  /// False: that is known already.
  bool set_lost(int peer) noexcept;
  void set_left(int peer) noexcept { at(peer).left = true; }
  /// All that we have had with it is the question what it is doing, so we do not know whether it
  /// has ended in peace where it cannot be reached.
  [[nodiscard]] bool is_only_asked(int peer) const noexcept { return at(peer).only_asked; }
  /// Its connection is gone, for whatever reason: nothing of ours is on its way any more.
  void connection_ended(int peer) noexcept;

  // Control frames: sent as soon as the transport takes them, before all payloads.
  /// To a peer that is gone: dropped.
  void control(int peer, const transport::FrameHeader& header, std::string payload = {}) override;
  bool take_in(int peer) override;
  /// Forgets those that wait.
  void clear_control(int peer) noexcept { at(peer).control.clear(); }
  bool flush_control();
  /// Frames wait to be handed to a transport, or for it to be done with them.
  [[nodiscard]] bool has_unsent() const noexcept;

  // Payloads.
  /// A frame with a payload in a row can be sent now.
  [[nodiscard]] bool can_send(int peer);
  /// ... and one whose payload is a copy of strided elements.
  [[nodiscard]] bool may_bounce(int peer) const noexcept;
  /// A frame for this peer. Whatever asks for memory happens here, so that nothing is counted that
  /// is not sent.
  [[nodiscard]] OutFrame prepare(int peer, const std::byte* payload);
  /// The same with a copy of elements that lie here and there: of `bytes` from `offset` on.
  [[nodiscard]] OutFrame prepare(int peer, const Elements& elements, std::size_t element,
                                 std::uint64_t offset, std::size_t bytes);
  /// Only after can_send. The owner is told when the frame has left its memory, or lets go of it.
  void send(int peer, const transport::FrameHeader& header, OutFrame&& frame,
            FrameOwner* owner = nullptr, std::uint64_t id = 0);
  /// All frames up to this token have left our memory (Sink::on_sent).
  void on_sent(int peer, std::uint64_t token) noexcept;
  /// The owner's memory is neither read nor written any more.
  void let_go(FrameOwner& owner) noexcept;

  // Streams of operations.
  /// Operations that exchange messages. Each may have frames held for it.
  void operation_began() noexcept { ++operations_; }
  void operation_ended() noexcept { --operations_; }
  [[nodiscard]] int operations() const noexcept { return operations_; }
  void post_send(StreamState& state, int rank, Stream::Post post, std::uint64_t bytes);
  /// Frames that were held are delivered by deliver_held.
  static void post_receive(StreamState& state, int rank, Stream::Post post, std::uint64_t bytes);
  /// Sends what may be sent. True if something was.
  bool pump(StreamState& state);
  /// Tells all peers how much we take, now that receives are posted for it.
  void grant(StreamState& state);
  /// Uses what came early from this rank. A frame that tells another call than ours, or another
  /// number of elements, stays; it is returned.
  [[nodiscard]] std::optional<transport::DataFrame> deliver_held(StreamState& state, int rank);
  /// A frame of this rank tells our call, but not as many elements as we expect.
  [[nodiscard]] static bool splits_differ(const StreamState& state, int rank,
                                          const transport::DataFrame& data) noexcept;

  // The frame that is arriving. Each place_...: where its payload goes; empty: refused.
  /// A head has come.
  void arriving(int peer, const transport::FrameHeader& header) noexcept;
  /// Counts its payload as eager. False: more than the credit of its sender allows.
  [[nodiscard]] bool count_eager(int peer, const transport::FrameHeader& header) noexcept;
  /// Into memory of ours, to be used (`arrived`) or forgotten when it is here.
  [[nodiscard]] std::span<std::byte> place_buffered(int peer);
  /// ... or to be held: `is_kept`, then `keep` or `consumed`.
  [[nodiscard]] std::span<std::byte> place_kept(int peer);
  /// Into a stream: in its place where a receive is posted.
  [[nodiscard]] std::span<std::byte> place_in_stream(int peer, StreamState& state, int rank,
                                                     const transport::DataFrame& data);
  /// Into the memory of its owner, to which it is bound until it is here; or buffered for it.
  [[nodiscard]] std::span<std::byte> place_for(int peer, FrameOwner& owner,
                                               std::span<std::byte> into);
  /// There is no memory for it: it is read and forgotten.
  [[nodiscard]] std::span<std::byte> place_spilled(int peer) noexcept;
  /// Is there room for a frame without payload, should it have to be held?
  [[nodiscard]] bool may_hold(int peer, const transport::FrameHeader& header) const noexcept;

  // The frame that is here now.
  [[nodiscard]] bool is_kept(int peer) const noexcept { return at(peer).arriving.keep; }
  [[nodiscard]] bool is_spilled(int peer) const noexcept { return at(peer).arriving.spilled; }
  [[nodiscard]] std::span<const std::byte> arrived(int peer) const noexcept;
  /// Its owner, if it was placed for one that has not let go.
  [[nodiscard]] FrameOwner* take_owner(int peer) noexcept;
  /// Of a stream: its bytes are put in their place.
  void stream_arrived(int peer, const transport::FrameHeader& header);
  /// It could not be used yet.
  void keep(int peer, const transport::FrameHeader& header);
  /// The same of a stream that is open. True: deliver_held may use it.
  [[nodiscard]] bool keep_in_stream(int peer, StreamState& state, int rank,
                                    const transport::DataFrame& data);
  /// A control frame: of one operation the last of each type is enough.
  void keep_control(int peer, const transport::FrameHeader& header);
  /// A message of a group that nobody has made here yet.
  void keep_message(int peer, const transport::FrameHeader& header);
  /// It is used or dropped: its sender may send as much again.
  void consumed(int peer, const transport::FrameHeader& header) noexcept;

  // Frames that are held.
  [[nodiscard]] const transport::FrameHeader* find_held(int peer, transport::FrameType type,
                                                        std::uint64_t group,
                                                        std::uint64_t seq) const noexcept;
  [[nodiscard]] std::optional<transport::FrameHeader> take_held(int peer, transport::FrameType type,
                                                                std::uint64_t group,
                                                                std::uint64_t seq) noexcept;
  /// Forgets all data and control frames of a group.
  void drop_held(std::uint64_t group) noexcept;
  [[nodiscard]] std::vector<HeldFrames::Frame> take_messages(int peer, std::uint64_t group);
  [[nodiscard]] FrameBuffers& buffers() noexcept { return buffers_; }

  // Credit.
  void eager_acknowledged(int peer, const transport::EagerCreditFrame& credit) noexcept;
  void messages_acknowledged(int peer, const transport::P2PCreditFrame& credit) noexcept;
  /// Messages point to point that may go to this peer, and bytes with them.
  [[nodiscard]] std::uint64_t message_room(int peer) const noexcept {
    return at(peer).matches.room();
  }
  [[nodiscard]] std::uint64_t eager_message_room(int peer) const noexcept {
    return at(peer).eager_messages.room();
  }
  void message_sent(int peer, std::uint64_t cost) noexcept;
  /// A message that came before its recv is used or dropped.
  void message_consumed(int peer, std::uint64_t cost) noexcept;

 private:
  struct Control {
    transport::FrameHeader header;
    std::string payload;
  };
  struct Arriving {
    transport::FrameHeader header;
    FrameOwner* owner = nullptr;
    Stream* stream = nullptr;  ///< of the owner; nullptr: it has none
    bool keep = false;
    bool spilled = false;
  };
  struct Peer {
    Peer(std::pmr::memory_resource* pool, transport::Transport* with)
        : transport(with), held(pool) {}
    transport::Transport* transport;
    std::uint64_t token = 0;
    Fifo<OutFrame> out;
    int bounces = 0;  ///< frames of `out` that hold a copy of strided elements
    Fifo<Control> control;
    bool in_unflushed = false;  ///< stands in unflushed_
    bool lost = false;
    bool left = false;
    bool used = false;        ///< more was sent to it than a question, or something has come
    bool only_asked = false;  ///< see is_only_asked
    HeldFrames held;
    std::deque<HeldFrames::Frame> messages;                          ///< see keep_message
    CreditAccount eager{kEagerPerPeer, kEagerReport};                ///< bytes of operations
    CreditAccount eager_messages{kP2PEagerCredit, kP2PEagerReport};  ///< bytes of messages
    CreditAccount matches{kMatchCredit, kMatchReport};               ///< messages without a recv
    Arriving arriving;
    std::vector<std::byte> buffer;
  };
  [[nodiscard]] Peer& at(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] const Peer& at(int peer) const noexcept {
    return peers_[static_cast<std::size_t>(peer)];
  }
  /// Not sent yet: flush_control.
  void push_control(int peer, Control frame);
  bool flush_control_of(int peer);
  bool pump(StreamState& state, Stream& stream);
  void arrived_in(Stream& stream, const transport::DataFrame& data, std::size_t element,
                  const std::byte* bounced);
  void take_eager(int peer, std::uint64_t cost) noexcept;

  std::pmr::unsynchronized_pool_resource pool_;  ///< so that holding frames asks for no memory
  std::vector<Peer> peers_;
  std::vector<int> unflushed_;  ///< those whose `control` may hold frames; has room for all
  FrameBuffers buffers_;
  std::size_t bounced_ = 0;  ///< bytes of the copies in frames, over all peers
  int operations_ = 0;
  std::unique_ptr<std::byte[]> spilled_;  ///< where frames go for which there is no memory
};

}  // namespace tutti::engine
