#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/each_float.hpp"
#include "kernels/narrow.hpp"
#include "kernels/reduce.hpp"

namespace tutti::kernels {

/// A reduction that goes block by block through small buffers: there the elements may be wider, and
/// there they can be divided before they are rounded.
struct BlockedReduction {
  std::size_t outer = 1;        ///< bytes of an element in the sources and in dst
  std::size_t inner = 1;        ///< and of one in the buffers
  ConvertFn prepare = nullptr;  ///< from a source to a buffer; absent: sources are combined as is
  ReduceFn combine = nullptr;   ///< of inner elements; is given 8 sources at most
  DivideFn divide = nullptr;    ///< of inner elements, after all are combined
  ConvertFn finish = nullptr;   ///< from a buffer to dst; absent: outer and inner are the same
  bool floats = false;          ///< the caller's float mode must not count
  NarrowSumFn few = nullptr;    ///< all of it for 2 to 8 sources, without buffers; may be absent
};

/// One call: the same rules for sources, dst and order as for ReduceFn.
struct BlockedCall {
  void* dst;
  const void* const* sources;
  int k;
  std::size_t count;
  std::int64_t divisor = 1;
};

void reduce_blocked(const BlockedReduction& reduction, const BlockedCall& call);

/// With non-temporal stores where they pay.
void reduce_blocked_nt(const BlockedReduction& reduction, const BlockedCall& call);

}  // namespace tutti::kernels
