// Parsing any bytes ends in a good request or response, or in an error; and what was parsed says
// the same when it is encoded and parsed again.

#include <span>

#include "fuzz/fuzzer.hpp"
#include "fuzz/store/small_limits.hpp"
#include "store/store_table.hpp"
#include "store/wire.hpp"

using namespace tutti::store;

namespace tutti::fuzz::store_wire_parser {

void check_request_round_trip(const Request& request, const Limits& limits) {
  const std::vector<std::byte> frame = encode_request(request, 1);
  const std::span<const std::byte> bytes(frame);
  auto header = parse_header(bytes.first<kHeaderBytes>(), limits);
  require(header.ok());
  auto again = parse_request(*header, bytes.subspan(kHeaderBytes), limits);
  require(again.ok());
  require(again->op == request.op && again->keys == request.keys &&
          again->values == request.values && again->amount == request.amount &&
          again->timeout_ms == request.timeout_ms);
}

TUTTI_FUZZER(store_wire_fuzz)(const std::uint8_t* data, std::size_t size) {
  const Limits limits = small_limits();
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);

  // A stream of frames, as a proven user would send it, carried out by a table.
  StoreTable table(limits);
  StoreTable::Ticket ticket = 0;
  auto now = StoreTable::Clock::time_point{};
  while (bytes.size() >= kHeaderBytes) {
    auto header = parse_header(bytes.first<kHeaderBytes>(), limits);
    if (!header || bytes.size() - kHeaderBytes < header->body_bytes) break;
    const auto body = bytes.subspan(kHeaderBytes, header->body_bytes);
    bytes = bytes.subspan(kHeaderBytes + header->body_bytes);
    if (header->op == 0) {
      if (auto response = parse_response(*header, body, limits))
        require(!encode_response(*response, 1, limits).empty());
      continue;
    }
    auto request = parse_request(*header, body, limits);
    if (!request) break;
    check_request_round_trip(*request, limits);
    if (auto response = table.submit(std::move(*request), ++ticket, now))
      require(!encode_response(*response, ticket, limits).empty());
    while (const auto answer = table.take_answer()) require(answer->ticket <= ticket);
    now += std::chrono::milliseconds(1);
    table.expire(now);
    if (ticket % 3 == 0) table.cancel(ticket - 1);
  }
  return 0;
}

}  // namespace tutti::fuzz::store_wire_parser
