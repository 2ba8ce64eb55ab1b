#pragma once

#include <array>
#include <cstdint>

#include "transport/transport.hpp"

// One struct for each type of frame, with the fields that this type has. All of them travel in the
// same 64 bytes (FrameHeader): encode() and decode() are the only code that knows where a field
// stands there. docs/design/wire.md draws it, the cases WireFormat freeze it.
namespace tutti::transport {

/// A call packed into 24 bytes (call/call_code.hpp).
using CallWords = std::array<std::uint64_t, 3>;

/// Bytes of an operation.
struct DataFrame {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;          ///< of the operation in its group
  std::uint64_t fingerprint = 0;  ///< of the sender's call
  std::uint64_t offset = 0;       ///< in this pair's stream of the operation
  CallWords call{};  ///< with splits call[2] is the number of elements for this receiver
  std::uint32_t bytes = 0;
  bool eager = false;  ///< sent before the receiver gave credit
};

/// The receiver has entered the operation and takes bytes of its stream up to `end`.
struct CreditFrame {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  std::uint64_t end = 0;
};

/// So many eager bytes of operations have been used or dropped, over all groups.
struct EagerCreditFrame {
  std::uint64_t taken_bytes = 0;
};

/// The sender waits for credit.
struct WantFrame {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
};

/// The group is broken. Payload: the cause in words.
struct AbortFrame {
  std::uint64_t group = 0;
  std::uint64_t code = 0;  ///< an Errc, or what a broken peer sends
  /// Rank in the group that is to blame, plus 1; 0: nobody.
  std::uint64_t culprit_plus_1 = 0;
};

/// The sender waits in operation `seq`; 0: in a send or a recv.
struct PingFrame {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  std::uint64_t fingerprint = 0;
  CallWords call{};
  bool asks_doing = false;  ///< the answer is to say what the receiver is doing
  /// Rank in the group, plus 1, that the sender cannot reach: the receiver is to answer again
  /// (PongFrame::reaches_plus_1) once that rank has answered a ping of its own. 0: none.
  std::uint64_t unreached_plus_1 = 0;
};

/// The bytes that a rank has moved in an operation by messages.
struct MovedBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t per_second = 0;  ///< both, in the last seconds
};

/// The answer to a ping. Payload, if the ping asked for it: what the sender is doing, in words;
/// empty: nothing.
struct PongFrame {
  std::uint64_t group = 0;
  std::uint64_t last_seq = 0;  ///< of the last call of its sender; 0: it does not know the group
  /// The sender has destroyed the group, and sends no frame of it after this one.
  bool given_up = false;
  std::uint64_t passed = 0;  ///< every operation up to this one has ended at the sender
  bool tells_doing = false;
  MovedBytes moved = {};             ///< in operation `passed` + 1, if that runs at the sender
  std::uint64_t reaches_plus_1 = 0;  ///< PingFrame::unreached_plus_1, which has answered; else 0
};
/// Longest payload of a pong.
inline constexpr std::size_t kMostDoing = 512;

/// The sender, and all ranks that it has heard from, make this call. Strict agreement uses tokens,
/// and so do algorithms that forward outputs (BoundPlan::forwards_output).
struct TokenFrame {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t round = 0;
  CallWords call{};
};

/// An earlier call differs. Payload: the last calls of the sender.
struct HistoryFrame {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
};

/// The description of a message point to point.
struct Envelope {
  std::uint64_t group = 0;
  std::uint64_t number = 0;  ///< of the message from its sender to its receiver, from 1
  std::uint64_t send = 0;    ///< ticket of the send
  std::uint64_t dtype = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;  ///< of the message
};
/// A small message, with all its bytes.
struct EagerMessageFrame : Envelope {};
/// Request to send: the bytes of this message stay with the sender until the CTS, but for those
/// that it sends ahead.
struct RtsFrame : Envelope {
  bool on_gpu = false;      ///< the bytes are in the memory of a GPU
  std::uint64_t ahead = 0;  ///< so many of its bytes follow without a CTS
};

/// Clear to send: the receiver has called recv.
struct CtsFrame {
  std::uint64_t group = 0;
  std::uint64_t number = 0;
  std::uint64_t send = 0;   ///< ticket of the send
  std::uint64_t recv = 0;   ///< ticket of the recv
  std::uint64_t bytes = 0;  ///< how many the recv takes
  /// Both tensors are in the memory of GPUs: this message has no bytes, they go another way.
  bool on_gpus = false;
};

/// Bytes of a message after its CTS, or ahead of it.
struct P2PDataFrame {
  std::uint64_t group = 0;
  std::uint64_t number = 0;
  std::uint64_t recv = 0;    ///< ticket of the recv; ahead of the CTS it is not known
  std::uint64_t offset = 0;  ///< in the message
  std::uint32_t bytes = 0;
  bool ahead = false;  ///< sent ahead of the CTS
};

/// How much of what came before its recv has been received or dropped, over all groups.
struct P2PCreditFrame {
  std::uint64_t taken_messages = 0;
  std::uint64_t taken_bytes = 0;
};

[[nodiscard]] FrameHeader encode(const DataFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const CreditFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const EagerCreditFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const WantFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const AbortFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const PingFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const PongFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const TokenFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const HistoryFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const EagerMessageFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const RtsFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const CtsFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const P2PDataFrame& frame) noexcept;
[[nodiscard]] FrameHeader encode(const P2PCreditFrame& frame) noexcept;

/// Reads a head whose type is that of `Frame`. Checks nothing: a sender may have put anything into
/// any field.
template <class Frame>
[[nodiscard]] Frame decode(const FrameHeader& header) noexcept;

[[nodiscard]] constexpr FrameType type_of(const FrameHeader& header) noexcept {
  return static_cast<FrameType>(header.type);
}

/// A frame of operation `seq` of this group: data, credit, want, token.
[[nodiscard]] constexpr bool belongs_to(const FrameHeader& header, std::uint64_t group,
                                        std::uint64_t seq) noexcept {
  return header.group == group && header.seq == seq;
}

/// Eager message, RTS, CTS, data or credit of messages point to point.
[[nodiscard]] constexpr bool is_p2p(const FrameHeader& header) noexcept {
  switch (type_of(header)) {
    case FrameType::eager_message:
    case FrameType::rts:
    case FrameType::cts:
    case FrameType::p2p_data:
    case FrameType::p2p_credit: return true;
    default: return false;
  }
}

/// The head of a message: what a recv is matched with.
[[nodiscard]] constexpr bool is_envelope(const FrameHeader& header) noexcept {
  return type_of(header) == FrameType::eager_message || type_of(header) == FrameType::rts;
}

/// Of the message of this envelope: bytes that come with it, or after it without a CTS.
[[nodiscard]] std::uint64_t unasked_bytes(const FrameHeader& envelope) noexcept;

}  // namespace tutti::transport
