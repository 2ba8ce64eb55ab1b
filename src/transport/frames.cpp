#include "transport/frames.hpp"

namespace tutti::transport {
namespace {

constexpr std::uint8_t kEagerFlag = 1;    // of data
constexpr std::uint8_t kGivenUpFlag = 2;  // of a pong
constexpr std::uint8_t kDoingFlag = 4;    // of a ping and its pong
constexpr std::uint8_t kOnGpuFlag = 8;    // of an RTS and its CTS
constexpr std::uint8_t kAheadFlag = 16;   // of p2p_data

FrameHeader head(FrameType type, std::uint64_t group, std::uint64_t seq) noexcept {
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(type);
  header.group = group;
  header.seq = seq;
  return header;
}

void put_call(FrameHeader& header, const CallWords& call) noexcept {
  std::copy(call.begin(), call.end(), header.call);
}

CallWords call_of(const FrameHeader& header) noexcept {
  return {header.call[0], header.call[1], header.call[2]};
}

FrameHeader head_of_message(FrameType type, const Envelope& envelope) noexcept {
  FrameHeader header = head(type, envelope.group, envelope.number);
  header.fingerprint = envelope.send;
  put_call(header, {envelope.dtype, envelope.tag, envelope.bytes});
  return header;
}

}  // namespace

FrameHeader encode(const DataFrame& frame) noexcept {
  FrameHeader header = head(FrameType::data, frame.group, frame.seq);
  header.payload_bytes = frame.bytes;
  header.flags = frame.eager ? kEagerFlag : std::uint8_t{0};
  header.fingerprint = frame.fingerprint;
  header.offset = frame.offset;
  put_call(header, frame.call);
  return header;
}
template <>
DataFrame decode<DataFrame>(const FrameHeader& header) noexcept {
  return {header.group,
          header.seq,
          header.fingerprint,
          header.offset,
          call_of(header),
          header.payload_bytes,
          (header.flags & kEagerFlag) != 0};
}

FrameHeader encode(const CreditFrame& frame) noexcept {
  FrameHeader header = head(FrameType::credit, frame.group, frame.seq);
  header.offset = frame.end;
  return header;
}
template <>
CreditFrame decode<CreditFrame>(const FrameHeader& header) noexcept {
  return {header.group, header.seq, header.offset};
}

FrameHeader encode(const EagerCreditFrame& frame) noexcept {
  FrameHeader header = head(FrameType::eager_credit, 0, 0);
  header.offset = frame.taken_bytes;
  return header;
}
template <>
EagerCreditFrame decode<EagerCreditFrame>(const FrameHeader& header) noexcept {
  return {header.offset};
}

FrameHeader encode(const WantFrame& frame) noexcept {
  return head(FrameType::want, frame.group, frame.seq);
}
template <>
WantFrame decode<WantFrame>(const FrameHeader& header) noexcept {
  return {header.group, header.seq};
}

FrameHeader encode(const AbortFrame& frame) noexcept {
  FrameHeader header = head(FrameType::abort, frame.group, frame.code);
  header.offset = frame.culprit_plus_1;
  return header;
}
template <>
AbortFrame decode<AbortFrame>(const FrameHeader& header) noexcept {
  return {header.group, header.seq, header.offset};
}

FrameHeader encode(const PingFrame& frame) noexcept {
  FrameHeader header = head(FrameType::ping, frame.group, frame.seq);
  header.flags = frame.asks_doing ? kDoingFlag : std::uint8_t{0};
  header.fingerprint = frame.fingerprint;
  header.offset = frame.unreached_plus_1;
  put_call(header, frame.call);
  return header;
}
template <>
PingFrame decode<PingFrame>(const FrameHeader& header) noexcept {
  return {header.group,
          header.seq,
          header.fingerprint,
          call_of(header),
          (header.flags & kDoingFlag) != 0,
          header.offset};
}

FrameHeader encode(const PongFrame& frame) noexcept {
  FrameHeader header = head(FrameType::pong, frame.group, frame.last_seq);
  header.flags = static_cast<std::uint8_t>((frame.given_up ? kGivenUpFlag : 0) |
                                           (frame.tells_doing ? kDoingFlag : 0));
  header.offset = frame.passed;
  header.fingerprint = frame.reaches_plus_1;
  put_call(header, {frame.moved.sent, frame.moved.received, frame.moved.per_second});
  return header;
}
template <>
PongFrame decode<PongFrame>(const FrameHeader& header) noexcept {
  return {header.group,
          header.seq,
          (header.flags & kGivenUpFlag) != 0,
          header.offset,
          (header.flags & kDoingFlag) != 0,
          {header.call[0], header.call[1], header.call[2]},
          header.fingerprint};
}

FrameHeader encode(const TokenFrame& frame) noexcept {
  FrameHeader header = head(FrameType::token, frame.group, frame.seq);
  header.fingerprint = frame.fingerprint;
  header.offset = frame.round;
  put_call(header, frame.call);
  return header;
}
template <>
TokenFrame decode<TokenFrame>(const FrameHeader& header) noexcept {
  return {header.group, header.seq, header.fingerprint, header.offset, call_of(header)};
}

FrameHeader encode(const HistoryFrame& frame) noexcept {
  return head(FrameType::history, frame.group, frame.seq);
}
template <>
HistoryFrame decode<HistoryFrame>(const FrameHeader& header) noexcept {
  return {header.group, header.seq};
}

FrameHeader encode(const EagerMessageFrame& frame) noexcept {
  FrameHeader header = head_of_message(FrameType::eager_message, frame);
  header.payload_bytes = static_cast<std::uint32_t>(frame.bytes);
  return header;
}
FrameHeader encode(const RtsFrame& frame) noexcept {
  FrameHeader header = head_of_message(FrameType::rts, frame);
  header.flags = frame.on_gpu ? kOnGpuFlag : std::uint8_t{0};
  header.offset = frame.ahead;
  return header;
}
template <>
Envelope decode<Envelope>(const FrameHeader& header) noexcept {
  return {header.group,   header.seq,     header.fingerprint,
          header.call[0], header.call[1], header.call[2]};
}
template <>
RtsFrame decode<RtsFrame>(const FrameHeader& header) noexcept {
  return {decode<Envelope>(header), (header.flags & kOnGpuFlag) != 0, header.offset};
}

FrameHeader encode(const CtsFrame& frame) noexcept {
  FrameHeader header = head(FrameType::cts, frame.group, frame.number);
  header.fingerprint = frame.send;
  header.offset = frame.bytes;
  header.call[0] = frame.recv;
  header.flags = frame.on_gpus ? kOnGpuFlag : std::uint8_t{0};
  return header;
}
template <>
CtsFrame decode<CtsFrame>(const FrameHeader& header) noexcept {
  return {header.group,   header.seq,    header.fingerprint,
          header.call[0], header.offset, (header.flags & kOnGpuFlag) != 0};
}

FrameHeader encode(const P2PDataFrame& frame) noexcept {
  FrameHeader header = head(FrameType::p2p_data, frame.group, frame.number);
  header.payload_bytes = frame.bytes;
  header.flags = frame.ahead ? kAheadFlag : std::uint8_t{0};
  header.fingerprint = frame.recv;
  header.offset = frame.offset;
  return header;
}
template <>
P2PDataFrame decode<P2PDataFrame>(const FrameHeader& header) noexcept {
  return {header.group,  header.seq,           header.fingerprint,
          header.offset, header.payload_bytes, (header.flags & kAheadFlag) != 0};
}

FrameHeader encode(const P2PCreditFrame& frame) noexcept {
  FrameHeader header = head(FrameType::p2p_credit, 0, 0);
  header.offset = frame.taken_bytes;
  header.call[0] = frame.taken_messages;
  return header;
}
template <>
P2PCreditFrame decode<P2PCreditFrame>(const FrameHeader& header) noexcept {
  return {header.call[0], header.offset};
}

std::uint64_t unasked_bytes(const FrameHeader& envelope) noexcept {
  return type_of(envelope) == FrameType::rts ? decode<RtsFrame>(envelope).ahead
                                             : envelope.payload_bytes;
}

}  // namespace tutti::transport
