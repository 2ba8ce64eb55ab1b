// The head of an object of another rank: what is taken is what this library would have written.

#include <algorithm>
#include <array>

#include "base/object_head.hpp"
#include "fuzz/fuzzer.hpp"

using namespace tutti::base;

namespace tutti::fuzz::object_head_parser {

TUTTI_FUZZER(object_head_fuzz)(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<ObjectHead> head = read_object_head(bytes);
  if (!head.ok()) {
    require(!head.status().message().empty());
    return 0;
  }
  require(head.value().size <= std::uint64_t{1} << 46);
  std::array<std::byte, kObjectHeadBytes> written{};
  write_object_head(head.value(), written);
  require(std::ranges::equal(written, bytes.first(written.size())));
  return 0;
}

}  // namespace tutti::fuzz::object_head_parser
