#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
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

/// Streams of bytes and single frames between this rank and each other one: framing, credit for
/// operations and for messages, copies of strided elements, and frames that come before they can be
/// used (docs/design/wire.md). It knows neither schedules nor groups, nor which message goes to
/// which recv: its users do.
///
/// "peer" is a rank of the world. Threads: under the driver lock.
class MessageChannel final : public ControlChannel {
 public:
  /// A frame on its way out, until its bytes have left our memory.
  struct OutFrame {
    std::uint64_t token = 0;
    FrameOwner* owner = nullptr;  ///< nullptr: a control frame, or let_go was called
    std::uint64_t id = 0;         ///< passed to FrameOwner::on_frame_sent
    const std::byte* payload = nullptr;
    std::vector<std::byte> bounce;
    bool bounced = false;  ///< `bounce` is a copy of strided elements
  };

  /// `transports`: by rank; nullptr for ourselves.
  explicit MessageChannel(std::span<transport::Transport* const> transports);

  [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }
  [[nodiscard]] bool is_lost(int peer) const noexcept { return at(peer).lost; }
  [[nodiscard]] bool has_left(int peer) const noexcept override { return at(peer).left; }
  /// Neither lost nor left: frames that we send may arrive.
  [[nodiscard]] bool is_open(int peer) const noexcept { return !at(peer).lost && !at(peer).left; }
  /// False: that is known already.
  bool set_lost(int peer) noexcept;
  void set_left(int peer) noexcept { at(peer).left = true; }
  /// True if we have sent this peer only questions what it is doing, and nothing has come from it.
  /// If such a peer cannot be reached, it may have ended gracefully: that breaks no group.
  [[nodiscard]] bool is_only_asked(int peer) const noexcept { return at(peer).only_asked; }
  /// True if something has come from this peer, or more than such a question was sent to it.
  [[nodiscard]] bool is_used(int peer) const noexcept { return at(peer).used; }
  /// The connection is gone, for any reason: no frame of ours is on its way any more.
  void connection_ended(int peer) noexcept;

  // Control frames: sent as soon as the transport takes them, before all payloads.
  /// Sends a control frame. For a peer that is gone it is dropped.
  void control(int peer, const transport::FrameHeader& header, std::string payload = {}) override;
  /// Takes in what has come from this peer, and perhaps from others.
  bool take_in(int peer) override;
  /// Drops the control frames that wait for this peer.
  void clear_control(int peer) noexcept { at(peer).control.clear(); }
  bool flush_control();
  /// Control frames wait for a transport.
  [[nodiscard]] bool has_control() const noexcept { return !unflushed_.empty(); }
  /// Frames wait for a transport, or a transport still reads their payloads.
  [[nodiscard]] bool has_unsent() const noexcept;

  // Payloads.
  /// A frame with a contiguous payload can be sent now.
  [[nodiscard]] bool can_send(int peer);
  /// A frame whose payload is a copy of strided elements may be made now.
  [[nodiscard]] bool may_bounce(int peer) const noexcept;
  /// Makes a frame for this peer. Only this needs memory, and before anything is counted as sent.
  [[nodiscard]] OutFrame prepare(int peer, const std::byte* payload);
  /// The same with a copy of strided elements: `bytes` of them from `offset` on.
  [[nodiscard]] OutFrame prepare(int peer, const Elements& elements, std::size_t element,
                                 std::uint64_t offset, std::size_t bytes);
  /// Only after can_send. Calls the owner when the frame has left its memory, perhaps at once,
  /// unless let_go comes before.
  void send(int peer, const transport::FrameHeader& header, OutFrame&& frame,
            FrameOwner* owner = nullptr, std::uint64_t id = 0);
  /// A short message may be sent now, which takes so much credit.
  [[nodiscard]] bool may_send_short(int peer, std::uint64_t cost) const noexcept {
    const Peer& to = at(peer);
    return !to.lost && !to.left && to.control.empty() && to.matches.room() > 0 &&
           to.eager_messages.room() >= cost;
  }
  /// See Transport::send_short. Only after may_send_short.
  [[nodiscard]] bool send_short(int peer, const transport::ShortHead& head,
                                const std::byte* payload) noexcept {
    Peer& to = at(peer);
    if (!to.transport->send_short(peer, head, payload)) return false;
    to.used = true;
    to.only_asked = false;
    return true;
  }
  /// See Transport::take_short; counts a message that is taken.
  [[nodiscard]] transport::ShortLook take_short(int peer, const transport::ShortHead& head,
                                                std::byte* into) noexcept;
  /// All frames up to this token have left our memory (Sink::on_sent).
  void on_sent(int peer, std::uint64_t token) noexcept;
  /// After this the owner's memory is neither read nor written.
  void let_go(FrameOwner& owner) noexcept;

  // Streams of operations.
  /// Counts operations that exchange messages. Each may have frames held for it.
  void operation_began() noexcept { ++operations_; }
  void operation_ended() noexcept { --operations_; }
  [[nodiscard]] int operations() const noexcept { return operations_; }
  void post_send(StreamState& state, int rank, Stream::Post post, std::uint64_t bytes);
  /// Frames that were held are delivered by deliver_held.
  static void post_receive(StreamState& state, int rank, Stream::Post post, std::uint64_t bytes);
  /// Sends what may be sent. True if something was.
  bool pump(StreamState& state);
  /// Sends credit to all peers for the receives that are posted.
  void grant(StreamState& state);
  /// Uses what came early from this rank. A frame that tells another call than ours, or another
  /// number of elements, stays; it is returned.
  [[nodiscard]] std::optional<transport::DataFrame> deliver_held(StreamState& state, int rank);
  /// A frame of this rank tells our call, but not as many elements as we expect.
  [[nodiscard]] static bool splits_differ(const StreamState& state, int rank,
                                          const transport::DataFrame& data) noexcept;

  // The frame that is arriving. Each place_... returns the memory for its payload; empty: refused.
  /// A head has come.
  void arriving(int peer, const transport::FrameHeader& header) noexcept;
  /// Counts its payload as eager. False: more than the credit of its sender allows.
  [[nodiscard]] bool count_eager(int peer, const transport::FrameHeader& header) noexcept;
  /// A short message has come; counts it as count_eager does.
  [[nodiscard]] bool count_short(int peer, std::uint64_t bytes) noexcept;
  /// A buffer of ours. When the payload has come, it is used (`arrived`) or dropped.
  [[nodiscard]] std::span<std::byte> place_buffered(int peer);
  /// A buffer of ours. When the payload has come, `is_kept` is true: call `keep` or `consumed`.
  [[nodiscard]] std::span<std::byte> place_kept(int peer);
  /// The memory of the receive that is posted for it; else a buffer, as place_kept.
  [[nodiscard]] std::span<std::byte> place_in_stream(int peer, StreamState& state, int rank,
                                                     const transport::DataFrame& data);
  /// `into`, which belongs to the owner; if that is empty, a buffer. The owner may call let_go
  /// until the payload has come.
  [[nodiscard]] std::span<std::byte> place_for(int peer, FrameOwner& owner,
                                               std::span<std::byte> into);
  /// Memory whose content is dropped, because there is no memory for the payload.
  [[nodiscard]] std::span<std::byte> place_spilled(int peer) noexcept;
  /// True if a frame without payload could be held.
  [[nodiscard]] bool may_hold(int peer, const transport::FrameHeader& header) const noexcept;

  // The frame that has come completely.
  [[nodiscard]] bool is_kept(int peer) const noexcept { return at(peer).arriving.keep; }
  [[nodiscard]] bool is_spilled(int peer) const noexcept { return at(peer).arriving.spilled; }
  [[nodiscard]] std::span<const std::byte> arrived(int peer) const noexcept;
  /// Its owner, if place_for or place_in_stream was called and let_go was not.
  [[nodiscard]] FrameOwner* take_owner(int peer) noexcept;
  /// Puts the bytes of a stream in their place.
  void stream_arrived(int peer, const transport::FrameHeader& header);
  /// Holds the frame, because it cannot be used yet.
  void keep(int peer, const transport::FrameHeader& header);
  /// Holds a frame of a stream that is open. True: deliver_held may be able to use it.
  [[nodiscard]] bool keep_in_stream(int peer, StreamState& state, int rank,
                                    const transport::DataFrame& data);
  /// Holds a message of a group that this rank has not made yet.
  void keep_message(int peer, const transport::FrameHeader& header);
  /// True if this piece is the next of the last message that is held of its group.
  [[nodiscard]] bool expects_piece(int peer, const transport::FrameHeader& header) noexcept {
    return message_of_piece(peer, header) != nullptr;
  }
  /// Holds it with that message.
  void keep_piece(int peer, const transport::FrameHeader& header);
  /// The frame is used or dropped: its sender may send as much again.
  void consumed(int peer, const transport::FrameHeader& header) noexcept;

  // Frames that are held.
  [[nodiscard]] HeldFrames& held(int peer) noexcept { return at(peer).held; }
  /// Drops all held data and control frames of a group.
  void drop_held(std::uint64_t group) noexcept;
  [[nodiscard]] std::vector<HeldFrames::Frame> take_messages(int peer, std::uint64_t group);
  [[nodiscard]] FrameBuffers& buffers() noexcept { return buffers_; }

  // Credit.
  [[nodiscard]] const EagerWindows& windows() const noexcept { return windows_; }
  void eager_acknowledged(int peer, const transport::EagerCreditFrame& credit) noexcept;
  void messages_acknowledged(int peer, const transport::P2PCreditFrame& credit) noexcept;
  /// How many messages point to point may be sent to this peer; below: how many bytes of them.
  [[nodiscard]] std::uint64_t message_room(int peer) const noexcept {
    return at(peer).matches.room();
  }
  [[nodiscard]] std::uint64_t eager_message_room(int peer) const noexcept {
    return at(peer).eager_messages.room();
  }
  /// How many bytes of a message of so many may be sent ahead of its CTS.
  [[nodiscard]] std::uint64_t room_ahead(int peer, std::uint64_t bytes) const noexcept {
    return bytes_ahead(bytes, eager_message_room(peer), windows_.messages);
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
    Peer(std::pmr::memory_resource* pool, transport::Transport* with, const EagerWindows& windows)
        : transport(with),
          held(pool),
          eager(windows.peer, windows.stream),
          eager_messages(windows.messages, windows.messages / 4) {}
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
    std::list<HeldFrames::Frame> messages;  ///< see keep_message; an empty list takes no memory
    CreditAccount eager;                    ///< bytes of operations
    CreditAccount eager_messages;           ///< bytes of messages
    CreditAccount matches{kMatchCredit, kMatchReport};  ///< messages without a recv
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
  void has_left_memory(Peer& to, OutFrame&& frame) noexcept;
  void take_eager(int peer, std::uint64_t cost) noexcept;
  [[nodiscard]] HeldFrames::Frame* message_of_piece(int peer,
                                                    const transport::FrameHeader& header) noexcept;

  const EagerWindows windows_;
  std::pmr::unsynchronized_pool_resource pool_;  ///< so that holding frames asks for no memory
  std::vector<Peer> peers_;
  std::vector<int> unflushed_;  ///< those whose `control` may hold frames; has room for all
  FrameBuffers buffers_;
  std::size_t bounced_ = 0;  ///< bytes of the copies in frames, over all peers
  int operations_ = 0;
  std::unique_ptr<std::byte[]> spilled_;  ///< where frames go for which there is no memory
};

}  // namespace tutti::engine
