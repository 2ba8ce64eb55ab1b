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

/// Fixed head of every frame, 64 bytes, little endian; docs/wire.md freezes it. The type decides
/// what the fields mean: frames.hpp has a struct for each.
struct FrameHeader {
  std::uint32_t payload_bytes = 0;  ///< at most kMaxFramePayload
  std::uint8_t type = 0;            ///< FrameType
  std::uint8_t flags = 0;
  std::uint16_t reserved = 0;
  std::uint64_t group = 0;        ///< group id
  std::uint64_t seq = 0;          ///< number of the operation in its group
  std::uint64_t fingerprint = 0;  ///< what the sender believes it is doing
  std::uint64_t offset =
      0;  ///< data: byte offset in this pair's stream of the operation; credit: granted up to
  std::uint64_t call[3] = {
      0, 0, 0};  ///< the call itself, packed (engine/call_code.hpp): names both calls
};
static_assert(sizeof(FrameHeader) == 64);

enum class FrameType : std::uint8_t {
  data = 1,    ///< bytes of an operation
  credit = 2,  ///< the receiver has entered the operation and takes its bytes
  want = 3,    ///< the sender waits for credit of an operation
  abort = 4,   ///< a group is broken; payload: the cause
  ping = 5,
  pong = 6,
  leave = 7,  ///< the sender is going; everything before this frame is all it had to say
  // Point to point (engine/p2p_matcher.hpp).
  eager_message = 8,  ///< a small message with its bytes
  cts = 9,            ///< clear to send: its receiver has called recv
  p2p_data = 10,      ///< bytes of a message after its CTS
  // Agreement (engine/agreement.cpp).
  token = 11,    ///< strict: the sender, and all that it has heard of, make this call
  history = 12,  ///< our calls differ further back; payload: the sender's last ones
  // Point to point and eager data, again.
  rts = 13,           ///< request to send: a message without its bytes
  p2p_credit = 14,    ///< so many messages have been received or dropped
  eager_credit = 15,  ///< so many bytes of operations that came before credit was given, too
};
/// The least and the greatest type that there is.
inline constexpr FrameType kFirstFrameType = FrameType::data;
inline constexpr FrameType kLastFrameType = FrameType::eager_credit;

inline constexpr std::uint32_t kMaxFramePayload = 128 * 1024;

/// The events of a transport. Called inside Transport::poll only.
class Sink {
 public:
  virtual ~Sink() = default;
  /// A head has arrived. Returns where its payload shall be written: at least payload_bytes long,
  /// or an empty span to refuse (the connection is then dropped as violating the protocol).
  virtual std::span<std::byte> on_header(int peer, const FrameHeader& header) noexcept = 0;
  /// The payload of the last head has arrived completely.
  virtual void on_frame(int peer, const FrameHeader& header) noexcept = 0;
  /// All frames up to `token` (see Transport::send) have left our memory: it may be reused.
  virtual void on_sent(int peer, std::uint64_t token) noexcept = 0;
  /// The peer is gone: why (peer_lost, peer_left, refused). At most once per peer.
  virtual void on_lost(int peer, const Status& why) noexcept = 0;
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
  /// Hands over one frame. Connects on first use. The payload must stay until on_sent(peer, token);
  /// tokens of one peer grow. Only after can_send; a lost peer takes and drops it.
  virtual void send(int peer, const FrameHeader& header, const std::byte* payload,
                    std::uint64_t token) noexcept = 0;
  /// Copies what is queued for this peer into memory of the transport: from here on no payload
  /// handed over before is read, so a failed operation can give the caller's memory back.
  virtual void keep_payloads(int peer) noexcept = 0;
  /// The rest of the payload that is arriving from this peer is read and dropped, without on_frame:
  /// from here on the memory that on_header gave is not touched.
  virtual void drop_arriving(int /*peer*/) noexcept {}
  /// Moves bytes both ways, without blocking; calls the sink. Returns true if anything happened.
  virtual bool poll() noexcept = 0;
  /// A descriptor that becomes readable when poll() has something to do, for sleeping; -1 if none.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  /// Sends what is queued, says leave, closes. Bounded by the deadline.
  virtual void close(std::uint64_t drain_ns) noexcept = 0;
};

}  // namespace tutti::transport
