#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "store/log.hpp"

// Records of a file store's log as text.
namespace tutti::store {

inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string change(const std::string& key, const std::string& value) {
  return text_of(encode_change({.op = Op::set, .keys = {key}, .values = {value}}));
}

}  // namespace tutti::store
