#include "store/log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/fnv.hpp"
#include "base/little_endian.hpp"
#include "store/wire.hpp"

namespace tutti::store {
namespace {

// Record: length of the payload u32, check u32, payload. Payload: kind u8, then the request as it
// goes over the wire, or nothing.
constexpr std::string_view kMagic = "tuttifs\x01";  // the last byte is the version
constexpr std::size_t kRecordHead = 8;
constexpr std::byte kChange{1};
constexpr std::byte kArrival{2};

/// A checksum that finds torn writes; it is no protection against attacks.
std::uint32_t check_of(std::span<const std::byte> bytes) noexcept { return base::fnv32_of(bytes); }

Outcome damaged() { return Outcome(Errc::store, "the bytes there are no record"); }

std::vector<std::byte> record_of(std::byte kind, std::span<const std::byte> rest) {
  std::vector<std::byte> record(kRecordHead + 1 + rest.size());
  record[kRecordHead] = kind;
  std::ranges::copy(rest, record.begin() + kRecordHead + 1);
  const auto payload = std::span<const std::byte>(record).subspan(kRecordHead);
  base::put_number(std::span(record).first(4), payload.size());
  base::put_number(std::span(record).subspan(4, 4), check_of(payload));
  return record;
}

Result<LogRecord> parse_payload(std::span<const std::byte> payload, const Limits& limits) {
  LogRecord record;
  record.bytes = kRecordHead + payload.size();
  const std::span<const std::byte> rest = payload.subspan(1);
  if (payload.front() == kArrival && rest.empty()) return record;
  if (payload.front() != kChange || rest.size() < kHeaderBytes) return damaged();
  auto header = parse_header(rest.first<kHeaderBytes>(), limits);
  if (!header) return header.status();
  auto request = parse_request(*header, rest.subspan(kHeaderBytes), limits);
  if (!request) return request.status();
  if (!changes(request->op)) return damaged();
  record.change = std::move(*request);
  return record;
}

}  // namespace

std::array<std::byte, kLogHeadBytes> log_head() noexcept {
  std::array<std::byte, kLogHeadBytes> head{};
  std::memcpy(head.data(), kMagic.data(), kLogHeadBytes);
  return head;
}

LogHead check_head(std::span<const std::byte> bytes) noexcept {
  const std::size_t size = std::min(bytes.size(), kLogHeadBytes);
  const std::size_t name = std::min(size, kMagic.size() - 1);
  if (name > 0 && std::memcmp(bytes.data(), kMagic.data(), name) != 0) return LogHead::foreign;
  if (size == kLogHeadBytes && bytes[name] != static_cast<std::byte>(kMagic.back()))
    return LogHead::other_version;
  return size == kLogHeadBytes ? LogHead::good : LogHead::torn;
}

Result<std::optional<LogRecord>> parse_record(std::span<const std::byte> bytes,
                                              const Limits& limits) {
  const std::optional<LogRecord> none;
  if (bytes.size() < kRecordHead) return none;
  const std::size_t length = base::take_number(bytes.first(4));
  const std::size_t most = limits.body_bytes + kHeaderBytes + 1;
  if (length > 0 && length <= most) {
    if (length > bytes.size() - kRecordHead) return none;
    const auto payload = bytes.subspan(kRecordHead, length);
    if (check_of(payload) == base::take_number(bytes.subspan(4, 4))) {
      auto record = parse_payload(payload, limits);
      if (!record) return record.status();
      return std::optional<LogRecord>(std::move(*record));
    }
    if (length == bytes.size() - kRecordHead) return none;
  }
  // After a power failure a file may be longer than the bytes that were written to it.
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return none;
  return damaged();
}

std::vector<std::byte> encode_change(const Request& request) {
  return record_of(kChange, encode_request(request, 0));
}

std::vector<std::byte> encode_arrival() { return record_of(kArrival, {}); }

}  // namespace tutti::store
