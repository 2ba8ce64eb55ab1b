#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/request.hpp"

namespace tutti::store {

/// `timeout_ms`: how long it may wait.
inline Request request(Op op, std::vector<std::string> keys, std::vector<std::string> values = {},
                       std::uint32_t timeout_ms = 100) {
  return {.op = op, .timeout_ms = timeout_ms, .keys = std::move(keys), .values = std::move(values)};
}

}  // namespace tutti::store
