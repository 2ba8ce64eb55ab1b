#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tutti/error.hpp>

#include "store/request.hpp"

// The frames of the TCP store as pure functions on bytes; drawn in docs/design/wire-store.md. All
// numbers are little-endian. Every length is compared with what is there before memory is taken for
// it.
namespace tutti::store {

inline constexpr std::size_t kHeaderBytes = 16;
/// The length of each key and value, which precedes its bytes.
inline constexpr std::size_t kItemBytes = sizeof(std::uint32_t);
/// The id of a response to no request: the server ends gracefully.
inline constexpr std::uint64_t kGracefulShutdownId = 0;

struct FrameHeader {
  std::uint32_t body_bytes = 0;
  std::uint8_t op = 0;  ///< 0 for a response
  std::uint64_t id = 0;
};

/// The most bytes read from a connection at a time.
inline constexpr std::size_t kReadBytes = std::size_t{64} << 10;

/// `bytes` has kHeaderBytes. Refuses what cannot be a header or announces more than the limit.
Result<FrameHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                 const Limits& limits);
/// `body` has header.body_bytes. Refuses what is not exactly one request within the limits.
Result<Request> parse_request(const FrameHeader& header, std::span<const std::byte> body,
                              const Limits& limits);
Result<Response> parse_response(const FrameHeader& header, std::span<const std::byte> body,
                                const Limits& limits);

/// Header and body. The request must have passed `check_request`.
std::vector<std::byte> encode_request(const Request& request, std::uint64_t id);
/// The header of the same frame with another id.
std::vector<std::byte> header_for(std::span<const std::byte> frame, std::uint64_t id);
/// An answer that would be longer than the limit becomes an error that says so.
std::vector<std::byte> encode_response(const Response& response, std::uint64_t id,
                                       const Limits& limits);

}  // namespace tutti::store
