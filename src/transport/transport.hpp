#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tutti/error.hpp>

// How messages travel between two ranks. Implemented by TCP, by the rings of shared memory
// (shm), and by the simulated network. Everything here is called by the holder of the context's
// driver lock: one thread at a time, and never blocks. "peer" is a rank of the world (the
// context), not of a group.
namespace tutti::transport {

/// Fixed head of every frame, 64 bytes, little endian; docs/design/wire.md freezes it. The type
/// decides what the fields mean: frames.hpp has a struct for each.
struct FrameHeader {
  std::uint32_t payload_bytes = 0;  ///< at most kMaxFramePayload
  std::uint8_t type = 0;            ///< FrameType
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint64_t group = 0;        ///< group id
  std::uint64_t seq = 0;          ///< number of the operation in its group
  std::uint64_t fingerprint = 0;  ///< of the sender's call; point to point: a ticket
  /// A number that differs by type. In data it is an offset in bytes; see encode() in frames.cpp.
  std::uint64_t offset = 0;
  /// The call itself, packed (call/call_code.hpp), so that an error can describe both calls.
  std::uint64_t call[3] = {0, 0, 0};
};
static_assert(sizeof(FrameHeader) == 64);

enum class FrameType : std::uint8_t {
  data = 1,    ///< bytes of an operation
  credit = 2,  ///< the receiver has entered the operation and takes its bytes
  want = 3,    ///< the sender waits for credit of an operation
  abort = 4,   ///< a group is broken; payload: the cause
  ping = 5,
  pong = 6,
  leave = 7,  ///< the sender leaves; no frame follows this one
  // Point to point (engine/p2p_matcher.hpp).
  eager_message = 8,  ///< a small message with its bytes
  cts = 9,            ///< clear to send: its receiver has called recv
  p2p_data = 10,      ///< bytes of a message after its CTS
  // Agreement (engine/agreement.cpp).
  token = 11,    ///< the sender, and all ranks that it has heard from, make this call
  history = 12,  ///< an earlier call differs; payload: the sender's last calls
  // Point to point and eager data, again.
  rts = 13,           ///< request to send: a message without its bytes
  p2p_credit = 14,    ///< how many messages have been received or dropped
  eager_credit = 15,  ///< how many eager bytes of operations have been used or dropped
};
/// The least and the greatest type.
inline constexpr FrameType kFirstFrameType = FrameType::data;
inline constexpr FrameType kLastFrameType = FrameType::eager_credit;

inline constexpr std::uint32_t kMaxFramePayload = 128 * 1024;

/// The head of a message point to point that a transport may carry without a frame.
struct ShortHead {
  std::uint64_t group = 0;
  std::uint32_t tag = 0;
  std::uint16_t number = 0;  ///< the low bits of that of an eager message
  std::uint8_t dtype = 0;
  std::uint16_t bytes = 0;  ///< at most kMaxShort
  [[nodiscard]] bool operator==(const ShortHead&) const noexcept = default;
};
inline constexpr std::size_t kMaxShort = 1060;

/// What Transport::take_short has found.
enum class ShortLook : std::uint8_t {
  nothing,  ///< nothing has come
  taken,    ///< the message; it is taken
  other,    ///< perhaps something else: poll
};

/// The events of a transport. Called inside Transport::poll only.
class Sink {
 public:
  virtual ~Sink() = default;
  /// A head has arrived. Returns the memory for its payload, at least payload_bytes long, or an
  /// empty span to refuse the frame (the connection is then dropped as violating the protocol).
  virtual std::span<std::byte> on_header(int peer, const FrameHeader& header) noexcept = 0;
  /// The payload of the last head has arrived completely.
  virtual void on_frame(int peer, const FrameHeader& header) noexcept = 0;
  /// A short message has come; its payload is read in this call only. False: it is refused, as by
  /// on_header.
  virtual bool on_short(int peer, const ShortHead& head, const std::byte* payload) noexcept = 0;
  /// All frames up to `token` for which Transport::send was false have left our memory.
  virtual void on_sent(int peer, std::uint64_t token) noexcept = 0;
  /// The peer is gone, for this reason (peer_lost, peer_left, refused). At most once per peer.
  virtual void on_lost(int peer, const Outcome& why) noexcept = 0;
};

/// Frames in order, to and from each peer that it serves.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] virtual const char* name() const noexcept = 0;
  virtual void set_sink(Sink* sink) noexcept = 0;
  /// Frames can be handed over now (the short unsent queue has room).
  [[nodiscard]] virtual bool can_send(int peer) noexcept = 0;
  /// Hands over one frame. Connects on first use. True: the payload was copied, so its memory may
  /// be reused. False: it must stay until on_sent(peer, token); tokens of one peer grow. Only after
  /// can_send; a lost peer takes and drops it.
  virtual bool send(int peer, const FrameHeader& header, const std::byte* payload,
                    std::uint64_t token) noexcept = 0;
  /// Sends a short message, in the order of the frames. False: not now, or this transport has none;
  /// then send a frame.
  virtual bool send_short(int /*peer*/, const ShortHead& /*head*/,
                          const std::byte* /*payload*/) noexcept {
    return false;
  }
  /// Takes what comes next from this peer, if it is a short message with this head, without the
  /// sink. Its payload goes to `into`.
  [[nodiscard]] virtual ShortLook take_short(int /*peer*/, const ShortHead& /*head*/,
                                             std::byte* /*into*/) noexcept {
    return ShortLook::other;
  }
  /// Copies the payloads that are queued for this peer into memory of the transport. After that the
  /// transport does not read the caller's memory, so a failed operation can give it back.
  virtual void keep_payloads(int peer) noexcept = 0;
  /// The rest of the payload that is arriving from this peer is dropped, without on_frame. After
  /// that the transport does not touch the memory that on_header gave.
  virtual void drop_arriving(int /*peer*/) noexcept {}
  /// True if the peer was lost because nothing has answered us: another rank may still reach it.
  [[nodiscard]] virtual bool is_unanswered(int /*peer*/) const noexcept { return false; }
  /// Moves bytes both ways, without blocking; calls the sink. Returns true if anything happened.
  virtual bool poll() noexcept = 0;
  /// As poll, where that is cheaper only for what comes from this peer.
  virtual bool poll_from(int /*peer*/) noexcept { return poll(); }
  /// A descriptor that becomes readable when poll() has something to do, for sleeping; -1 if none.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  /// Sends what is queued and a leave frame, then closes. Takes `drain_ns` at most.
  virtual void close(std::uint64_t drain_ns) noexcept = 0;
};

}  // namespace tutti::transport
