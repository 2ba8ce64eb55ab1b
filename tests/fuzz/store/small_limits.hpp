#pragma once

#include "store/request.hpp"

namespace tutti::fuzz {

/// Limits that short inputs reach.
inline store::Limits small_limits() {
  return {
      .key_bytes = 64, .value_bytes = 512, .items = 16, .body_bytes = 5120, .total_bytes = 4096};
}

}  // namespace tutti::fuzz
