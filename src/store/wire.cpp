#include "store/wire.hpp"

#include <string_view>
#include <type_traits>

#include "base/format.hpp"
#include "base/little_endian.hpp"

namespace tutti::store {
namespace {

// Request body: timeout_ms u32, keys u32, values u32, amount i64, then each key and each value as
// u32 length and bytes. Response body: code u32, values u32, number i64, text,
// values.

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  template <class T>
  bool number(T& value) noexcept {
    static_assert(std::is_integral_v<T>);
    if (bytes_.size() < sizeof(T)) return false;
    value = static_cast<T>(base::take_number(bytes_.first(sizeof(T))));
    bytes_ = bytes_.subspan(sizeof(T));
    return true;
  }

  bool text(std::string& value, std::size_t limit) {
    std::uint32_t length = 0;
    if (!number(length) || length > limit || length > bytes_.size()) return false;
    value.assign(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return true;
  }

  bool texts(std::vector<std::string>& values, std::size_t count, std::size_t limit) {
    // Each needs at least its length field: a count that lies costs no memory.
    if (count > bytes_.size() / kItemBytes) return false;
    values.resize(count);
    for (std::string& value : values)
      if (!text(value, limit)) return false;
    return true;
  }

  [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

class Writer {
 public:
  explicit Writer(std::size_t size) { bytes_.reserve(size); }

  template <class T>
  void number(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    base::put_number(std::span(bytes_).last(sizeof(T)), static_cast<std::uint64_t>(value));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    const auto* data = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), data, data + value.size());
  }
  void header(std::size_t body_bytes, std::uint8_t op, std::uint64_t id) {
    number(static_cast<std::uint32_t>(body_bytes));
    number(op);
    number(std::uint8_t{0});
    number(std::uint16_t{0});
    number(id);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

std::size_t bytes_of(const std::vector<std::string>& texts) noexcept {
  std::size_t total = 0;
  for (const std::string& text : texts) total += kItemBytes + text.size();
  return total;
}

constexpr std::size_t kRequestFixed = 3 * sizeof(std::uint32_t) + sizeof(std::int64_t);
constexpr std::size_t kResponseFixed = 4 + sizeof(std::uint32_t) + sizeof(std::int64_t);

Outcome malformed(std::string_view what) {
  return Outcome(Errc::store, base::format("malformed store frame: {}", what));
}

}  // namespace

Result<FrameHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                 const Limits& limits) {
  Reader reader(bytes);
  FrameHeader header;
  std::uint8_t zero8 = 0;
  std::uint16_t zero16 = 0;
  reader.number(header.body_bytes);
  reader.number(header.op);
  reader.number(zero8);
  reader.number(zero16);
  reader.number(header.id);
  if (zero8 != 0 || zero16 != 0) return malformed("reserved bytes are not zero");
  if (header.op > kLastOp) return malformed(base::format("operation {} is unknown", header.op));
  if (header.body_bytes > limits.body_bytes)
    return malformed(
        base::format("{} bytes announced, {} is the limit", header.body_bytes, limits.body_bytes));
  return header;
}

Result<Request> parse_request(const FrameHeader& header, std::span<const std::byte> body,
                              const Limits& limits) {
  if (header.op == 0) return malformed("a request without operation");
  if (body.size() != header.body_bytes) return malformed("the body has another length");
  Request request;
  request.op = static_cast<Op>(header.op);
  Reader reader(body);
  std::uint32_t keys = 0;
  std::uint32_t values = 0;
  if (!reader.number(request.timeout_ms) || !reader.number(keys) || !reader.number(values) ||
      !reader.number(request.amount))
    return malformed("too short");
  if (keys > limits.items || values > limits.items) return malformed("too many items");
  if (!reader.texts(request.keys, keys, limits.key_bytes)) return malformed("keys");
  if (!reader.texts(request.values, values, limits.value_bytes)) return malformed("values");
  if (!reader.at_end()) return malformed("bytes behind the last value");
  if (Outcome status = check_request(request, limits); !status) return status;
  return request;
}

Result<Response> parse_response(const FrameHeader& header, std::span<const std::byte> body,
                                const Limits& limits) {
  if (header.op != 0) return malformed("an operation in a response");
  if (body.size() != header.body_bytes) return malformed("the body has another length");
  Response response;
  Reader reader(body);
  std::uint32_t code = 0;
  std::uint32_t values = 0;
  if (!reader.number(code) || !reader.number(values) || !reader.number(response.number))
    return malformed("too short");
  if (code > static_cast<std::uint32_t>(Errc::internal)) return malformed("unknown code");
  response.code = static_cast<Errc>(code);
  if (!reader.text(response.text, limits.body_bytes)) return malformed("text");
  if (!reader.texts(response.values, values, limits.body_bytes)) return malformed("values");
  if (!reader.at_end()) return malformed("bytes behind the last value");
  return response;
}

std::vector<std::byte> encode_request(const Request& request, std::uint64_t id) {
  const std::size_t body = kRequestFixed + bytes_of(request.keys) + bytes_of(request.values);
  Writer writer(kHeaderBytes + body);
  writer.header(body, static_cast<std::uint8_t>(request.op), id);
  writer.number(request.timeout_ms);
  writer.number(static_cast<std::uint32_t>(request.keys.size()));
  writer.number(static_cast<std::uint32_t>(request.values.size()));
  writer.number(request.amount);
  for (const std::string& key : request.keys) writer.text(key);
  for (const std::string& value : request.values) writer.text(value);
  return writer.take();
}

std::vector<std::byte> header_for(std::span<const std::byte> frame, std::uint64_t id) {
  Writer writer(kHeaderBytes);
  writer.header(frame.size() - kHeaderBytes, std::to_integer<std::uint8_t>(frame[4]), id);
  return writer.take();
}

std::vector<std::byte> encode_response(const Response& response, std::uint64_t id,
                                       const Limits& limits) {
  const std::size_t body =
      kResponseFixed + kItemBytes + response.text.size() + bytes_of(response.values);
  if (body > limits.body_bytes) {
    Response error;
    error.code = Errc::store;
    error.text =
        base::format("the answer has {} bytes, {} is the limit; ask for fewer keys at once", body,
                     limits.body_bytes);
    return encode_response(error, id, limits);
  }
  Writer writer(kHeaderBytes + body);
  writer.header(body, 0, id);
  writer.number(static_cast<std::uint32_t>(response.code));
  writer.number(static_cast<std::uint32_t>(response.values.size()));
  writer.number(response.number);
  writer.text(response.text);
  for (const std::string& value : response.values) writer.text(value);
  return writer.take();
}

}  // namespace tutti::store
