#include "kernels/blocked.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/addition_order.hpp"
#include "base/index.hpp"
#include "kernels/copy.hpp"
#include "kernels/denormals.hpp"

namespace tutti::kernels {
namespace {

constexpr int kGroup = 8;
// All buffers together, and with the block of each source they stay in L1.
constexpr std::size_t kPoolBytes = 16 * 1024;
constexpr std::size_t kMostBlockBytes = 4096;
// With more than kGroup sources there are partial results as well: one per level of a tree over
// 2^31 / kGroup groups, and one more.
constexpr int kPartials = 30;
constexpr std::size_t kPartialBytes = 1024;
// As in the reductions that take no blocks.
constexpr std::size_t kStreamFromBytes = 16 * 1024;
constexpr std::size_t kStreamBlockBytes = 4096;

/// Buffers for up to kGroup prepared sources.
struct Pool {
  alignas(64) std::byte bytes[kPoolBytes];
};

/// A part of the work: dst[0..count) from sources[j][first..first + count).
struct Part {
  const BlockedReduction& reduction;
  std::byte* dst;
  const void* const* sources;
  std::size_t first;
  std::size_t count;
  std::int64_t divisor;
};

/// Combines up to kGroup sources of one block into `to`.
void combine_group(const Part& part, const void* const* sources, int k, Pool& pool,
                   std::size_t row_bytes, void* to) {
  const BlockedReduction& reduction = part.reduction;
  const void* rows[kGroup];
  for (int j = 0; j < k; ++j) {
    const auto* from = static_cast<const std::byte*>(sources[j]) + part.first * reduction.outer;
    rows[j] = from;
    if (reduction.prepare == nullptr) continue;
    // A lone source is its own sum.
    void* const row = k == 1 ? to : pool.bytes + base::as_size(j) * row_bytes;
    reduction.prepare(row, from, part.count);
    rows[j] = row;
  }
  if (k > 1 || reduction.prepare == nullptr) reduction.combine(to, rows, k, part.count);
}

/// From the combined elements in `sum` to dst.
void finish(const Part& part, void* sum) {
  const BlockedReduction& reduction = part.reduction;
  if (reduction.divide != nullptr) {
    void* const to = reduction.finish != nullptr ? sum : part.dst;
    reduction.divide(to, sum, part.count, part.divisor);
  }
  if (reduction.finish != nullptr) reduction.finish(part.dst, sum, part.count);
}

bool combines_into_dst(const BlockedReduction& reduction) {
  return reduction.divide == nullptr && reduction.finish == nullptr;
}

/// Calls `body` with each block of a part.
template <class Body>
void for_each_block(const Part& part, std::size_t block, const Body& body) {
  for (std::size_t at = 0; at < part.count; at += block) {
    body(Part{part.reduction, part.dst + at * part.reduction.outer, part.sources, part.first + at,
              std::min(block, part.count - at), part.divisor});
  }
}

void reduce_few(const Part& part, int k) {
  Pool pool;
  const std::size_t row_bytes =
      std::min(kMostBlockBytes, kPoolBytes / std::bit_ceil(static_cast<unsigned>(k)));
  for_each_block(part, row_bytes / part.reduction.inner, [&](const Part& block) {
    // The first buffer is one of the sources; that is allowed.
    void* const sum = combines_into_dst(part.reduction) ? block.dst : pool.bytes;
    combine_group(block, block.sources, k, pool, row_bytes, sum);
    finish(block, sum);
  });
}

/// Groups of sources are the leaves of the tree; partial results wait on a stack, as in a binary
/// counter: two of the same height become one.
void reduce_many(const Part& part, int k) {
  Pool pool;
  alignas(64) std::byte partials[kPartials][kPartialBytes];
  const int groups = (k - 1) / kGroup + 1;
  for_each_block(part, kPartialBytes / part.reduction.inner, [&](const Part& block) {
    int depth = 0;
    int joins_left = groups - 1;
    const auto join = [&] {
      --depth;
      const void* pair[2] = {partials[depth - 1], partials[depth]};
      const bool last = --joins_left == 0 && combines_into_dst(part.reduction);
      void* const to = last ? block.dst : partials[depth - 1];
      part.reduction.combine(to, pair, 2, block.count);
    };
    for (int group = 0; group < groups; ++group) {
      const int done = group * kGroup;
      const int now = std::min(k - done, kGroup);
      combine_group(block, block.sources + done, now, pool, kPartialBytes, partials[depth++]);
      for (int joins = base::joins_after(group); joins > 0; --joins) join();
    }
    while (depth > 1) join();
    finish(block, partials[0]);
  });
}

void reduce_any(const Part& part, int k) {
  if (k <= kGroup && k > 1 && part.reduction.few != nullptr)
    part.reduction.few(part.dst, part.sources, k, part.first, part.count);
  else if (k <= kGroup)
    reduce_few(part, k);
  else
    reduce_many(part, k);
}

void reduce_past_cache(const Part& part, int k) {
  alignas(64) std::byte block[kStreamBlockBytes];
  for_each_block(part, kStreamBlockBytes / part.reduction.outer, [&](const Part& piece) {
    reduce_any(Part{piece.reduction, block, piece.sources, piece.first, piece.count, piece.divisor},
               k);
    stream(piece.dst, block, piece.count * piece.reduction.outer);
  });
  stream_fence();
}

void run(const BlockedReduction& reduction, const BlockedCall& call, bool past_cache) {
  const Part part{reduction,   static_cast<std::byte*>(call.dst), call.sources, 0, call.count,
                  call.divisor};
  if (past_cache)
    reduce_past_cache(part, call.k);
  else
    reduce_any(part, call.k);
}

// All arithmetic is called through pointers to functions, so the compiler cannot move any of it
// across the changes of the float mode.
void run_in_usual_mode(const BlockedReduction& reduction, const BlockedCall& call,
                       bool past_cache) {
  if (!reduction.floats) return run(reduction, call, past_cache);
  const FloatMode mode;
  if (mode.usual()) [[likely]]
    return run(reduction, call, past_cache);
  mode.make_usual();
  run(reduction, call, past_cache);
  mode.restore();
}

}  // namespace

void reduce_blocked(const BlockedReduction& reduction, const BlockedCall& call) {
  run_in_usual_mode(reduction, call, false);
}

void reduce_blocked_nt(const BlockedReduction& reduction, const BlockedCall& call) {
  run_in_usual_mode(reduction, call, call.count * reduction.outer >= kStreamFromBytes);
}

}  // namespace tutti::kernels
