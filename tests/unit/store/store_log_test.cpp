// The records of a file store's log.

#include <gtest/gtest.h>

#include <string>

#include "log_text.hpp"
#include "store/log.hpp"

using namespace tutti::store;

namespace {

TEST(StoreLog, EveryRecordComesBack) {
  Request request{.op = Op::multi_set, .keys = {"a", "b"}, .values = {"1", ""}};
  const auto bytes = encode_change(request);
  auto record = parse_record(bytes, {});
  ASSERT_TRUE(record);
  ASSERT_TRUE(*record && (*record)->change);
  EXPECT_EQ((*record)->bytes, bytes.size());
  EXPECT_EQ((*record)->change->keys, request.keys);
  EXPECT_EQ((*record)->change->values, request.values);
  auto arrival = parse_record(encode_arrival(), {});
  ASSERT_TRUE(arrival && *arrival);
  EXPECT_FALSE((*arrival)->change);
  request.op = Op::wait;
  request.values.clear();
  EXPECT_FALSE(parse_record(encode_change(request), {})) << "that is no change";
}

// The layout of docs/file-store.md, byte by byte.
TEST(StoreLog, TheLayoutIsFrozen) {
  const auto head = log_head();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(head.data()), head.size()),
            std::string("tuttifs\x01"));
  const auto arrival = encode_arrival();
  EXPECT_EQ(text_of(arrival), std::string("\x01\0\0\0\x45\x60\x0c\x07\x02", 9));
  const std::string set = change("k", "v");
  EXPECT_EQ(set.substr(0, 4), std::string("\x2f\0\0\0", 4));
  EXPECT_EQ(set[8], '\x01');
  EXPECT_EQ(set.size(), 8U + 0x2f);
}

}  // namespace
