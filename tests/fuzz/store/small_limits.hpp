#pragma once

#include "store/request.hpp"

namespace tutti::fuzz {

/// Limits that short inputs reach.
inline store::Limits small_limits() {
  store::Limits limits;
  limits.key_bytes = 64;
  limits.value_bytes = 512;
  limits.items = 16;
  limits.body_bytes = 5120;
  limits.total_bytes = 4096;
  return limits;
}

}  // namespace tutti::fuzz
