// Whatever stands in a store's file, reading it ends in whole records, in an unfinished one or in
// an error; and a record says the same when it is written and read again.

#include <span>

#include "fuzz/fuzzer.hpp"
#include "fuzz/store/small_limits.hpp"
#include "store/log.hpp"
#include "store/store_table.hpp"

using namespace tutti::store;

namespace tutti::fuzz::store_log_parser {

// As the file would be: the fuzzer need not find the check.
std::vector<std::byte> with_good_check(std::span<const std::byte> bytes) {
  std::vector<std::byte> record(bytes.begin(), bytes.end());
  if (record.size() <= 8) return record;
  std::uint32_t hash = 0x811c9dc5U;
  for (std::size_t i = 8; i < record.size(); ++i)
    hash = (hash ^ std::to_integer<std::uint32_t>(record[i])) * 0x01000193U;
  const std::size_t length = record.size() - 8;
  for (std::size_t i = 0; i < 4; ++i) {
    record[i] = static_cast<std::byte>((length >> (8 * i)) & 0xff);
    record[4 + i] = static_cast<std::byte>((hash >> (8 * i)) & 0xff);
  }
  return record;
}

void read_all(std::span<const std::byte> bytes, const Limits& limits) {
  StoreTable table(limits);
  while (!bytes.empty()) {
    auto record = parse_record(bytes, limits);
    if (!record || !*record) return;
    require((*record)->bytes > 0 && (*record)->bytes <= bytes.size());
    bytes = bytes.subspan((*record)->bytes);
    if (!(*record)->change) continue;
    const auto again = encode_change(*(*record)->change);
    auto same = parse_record(again, limits);
    require(same.ok() && same->has_value() && (*same)->bytes == again.size());
    require((*same)->change->keys == (*record)->change->keys &&
            (*same)->change->values == (*record)->change->values);
    require(table.submit(std::move(*(*record)->change), 0, {}).has_value());
  }
}

TUTTI_FUZZER(store_log_fuzz)(const std::uint8_t* data, std::size_t size) {
  const Limits limits = small_limits();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(check_head(bytes));
  read_all(bytes, limits);
  read_all(with_good_check(bytes), limits);
  return 0;
}

}  // namespace tutti::fuzz::store_log_parser
