#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "base/index.hpp"

// A schedule is the work of one rank in one operation: a small program of steps with loops. It is
// pure data: no sockets, no threads, no clock, no byte counts and no addresses. So one schedule
// serves every call of a size class (see Shape in builders.hpp). A unit test proves it by running
// all ranks (verify/prover.hpp), and the one engine executes it on shared memory, TCP or a
// simulated network.
namespace tutti::plan {

/// A number that may depend on the variables of the loops around its step: i of the outer one, j of
/// the inner one. It is base + (c0 + c1 * i + c2 * j) modulo `mod` (mathematical: never negative),
/// or without the modulo if mod is 0.
///
/// Builders write the formula: with `const Expr i = Expr::loop()` chunk i + 1, n - 2 - i chunks,
/// slot (i + 1) % kChunkSlots, or kChunkSlots further on: (i + 1) % kChunkSlots + kChunkSlots.
struct Expr {
  constexpr Expr(std::int64_t number = 0) noexcept : c0(number) {}
  [[nodiscard]] static constexpr Expr loop() noexcept { return term(1, 0); }
  [[nodiscard]] static constexpr Expr inner_loop() noexcept { return term(0, 1); }

  [[nodiscard]] constexpr std::int64_t at(std::int64_t i, std::int64_t j) const noexcept {
    const std::int64_t value = c0 + c1 * i + c2 * j;
    if (mod == 0) return base + value;
    const std::int64_t rest = value % mod;
    return base + (rest < 0 ? rest + mod : rest);
  }
  [[nodiscard]] constexpr bool is_number() const noexcept { return c1 == 0 && c2 == 0 && mod == 0; }
  friend bool operator==(const Expr&, const Expr&) = default;
  /// If `a` has a modulo, `b` must be a plain number.
  friend constexpr Expr operator+(Expr a, const Expr& b) noexcept {
    assert(b.mod == 0 && (a.mod == 0 || b.is_number()));
    if (a.mod != 0) {
      a.base += b.c0;
      return a;
    }
    a.c0 += b.c0;
    a.c1 += b.c1;
    a.c2 += b.c2;
    return a;
  }
  friend constexpr Expr operator-(const Expr& a, const Expr& b) noexcept { return a + -1 * b; }
  friend constexpr Expr operator*(std::int32_t factor, Expr e) noexcept {
    assert(e.mod == 0);
    e.c0 *= factor;
    e.c1 *= factor;
    e.c2 *= factor;
    return e;
  }
  friend constexpr Expr operator%(Expr e, std::int64_t modulus) noexcept {
    assert(e.mod == 0);
    e.mod = modulus;
    return e;
  }

  std::int64_t c0 = 0;
  std::int32_t c1 = 0;
  std::int32_t c2 = 0;
  std::int64_t mod = 0;
  std::int64_t base = 0;  ///< added after the modulo; 0 without one

 private:
  [[nodiscard]] static constexpr Expr term(std::int32_t i, std::int32_t j) noexcept {
    Expr e;
    e.c1 = i;
    e.c2 = j;
    return e;
  }
};

/// Which elements of the operation's `count` a step touches.
///
/// whole: all of them. chunk: elements [c*C, (c+1)*C) cut at count; C is `Schedule::chunk_bytes` in
/// elements; an index outside gives nothing. part: `count` divided into `parts` runs of equal
/// length, rounded up to 64 bytes, the last ones shorter or empty. chunk_part: part p of chunk c.
/// part_chunk: chunk c of part p. A step on zero elements does nothing (a message of zero elements
/// is not sent, and a receive of zero elements is complete at once: both sides see the same sizes).
///
/// Operations of blocks (include/tutti/kinds.hpp) have P blocks, one for each rank, and `count` is
/// the sum of them. block: block `part`. block_chunk: chunk c of that block. In all_to_all a block
/// is the one for rank `part` in the input and in stages, and the one from rank `part` in the
/// output and in scratch. A side that may be a list of tensors, or a tensor that differs in length
/// from the operation (see Layout), is only touched by these two shapes. blocks: `parts` blocks
/// from `part` on, of what lies in one piece: stages and scratch.
struct Slice {
  enum class Shape : std::uint8_t {
    whole,
    chunk,
    part,
    chunk_part,
    part_chunk,
    block,
    block_chunk,
    blocks
  };
  Shape shape = Shape::whole;
  Expr chunk = {};
  Expr part = {};
  std::int32_t parts = 1;
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// Memory of one rank during one operation.
enum class Space : std::uint8_t {
  input,    ///< what the caller reads from (this rank's own; may be the same memory as output)
  output,   ///< what the caller gets (this rank's own)
  stage,    ///< this rank's staging slots, readable by the ranks of its host: region steps only
  scratch,  ///< private slots: where messages land
};

/// The elements of `slice` in `slot` of `space` of `rank`. Slots of stage and scratch hold elements
/// at their place relative to the first element of their chunk (shapes with a chunk), else of the
/// operation: element e of chunk c lies at slot base + (e - first(c)) elements. For part_chunk and
/// block_chunk it is relative to the first element of the chunk of that part or block. Slots are
/// `Schedule::slot_bytes(...)` wide.
struct Operand {
  Space space = Space::input;
  Expr rank = {};  ///< whose memory; only stage may name another rank
  Expr slot = {};
  Slice slice = {};
  bool of_winner = false;  ///< stage of the rank that the claim step found
  friend bool operator==(const Operand&, const Operand&) = default;
};

enum class StepKind : std::uint8_t {
  publish,  ///< write this rank's line: fingerprint, and where its stage lies. Once, region only.
  await_line,  ///< wait for the lines of `ranks` and compare their fingerprints
  agree,       ///< from here on outputs may be written
  copy,        ///< dst <- src (src may be a peer's stage)
  reduce,      ///< dst <- the sources, combined in the order of the binomial tree over them
  signal,      ///< own counter `counter` := value; nothing if value is below 1
  await,       ///< wait until counter `counter` of each of `ranks` is at least `value`; not at all
               ///< if value is below 1
  claim,  ///< if one of `ranks` has signalled `counter` >= value: it is the winner, jump to `jump`
  jump,   ///< continue at `jump`
  send,   ///< post src to peer; may be read until the operation ends
  recv,   ///< post a receive from peer into dst, in the order of the peer's sends
  await_recv,  ///< wait until the receives posted from each of `ranks` are complete, but for the
               ///< last `value` of each (those of zero elements are counted too)
  loop,        ///< repeat until the matching end_loop, `times` times; at most two deep
  end_loop,
};

/// A set of ranks: `count` ranks first, first+stride, ... taken modulo the group's size.
struct RankSet {
  Expr first;
  std::int32_t count = 1;
  std::int32_t stride = 1;
  friend bool operator==(const RankSet&, const RankSet&) = default;
};

/// How often a loop runs: `plus` rounds, and one for each chunk of what `of` says.
struct Times {
  enum class Of : std::uint8_t { constant, chunks, part_chunks, block_chunks };
  Of of = Of::constant;    ///< constant: no chunks are counted; chunks: of the operation
  std::int32_t parts = 1;  ///< part_chunks: chunks of the largest of so many parts; block_chunks:
                           ///< of the largest block
  std::int64_t plus = 0;   ///< constant: the number; else added to the number of chunks
  friend bool operator==(const Times&, const Times&) = default;
};

/// Sources of a reduce step, k = ranks.count of them, combined in the order of the set.
/// stages: `src` in the stage of each rank of `ranks` (src.rank is ignored).
/// slots: scratch slot src.slot + index for every index of the set.
/// If `own_input` is set, the source of this rank itself is its input (space input, same slice)
/// instead.
enum class Sources : std::uint8_t { stages, slots };

struct Step {
  StepKind kind = StepKind::agree;
  Sources sources = Sources::stages;
  bool own_input = false;
  bool last = false;         ///< reduce: the result is complete, nothing is added to it later
  std::uint8_t counter = 0;  ///< 0..kCounters-1
  std::int32_t jump = 0;     ///< claim, jump: index of a step; loop: index after its end_loop
  Expr peer = {};            ///< send, recv
  RankSet ranks = {};        ///< await_line, await, claim, await_recv, reduce
  Expr value = {};           ///< signal, await, claim, await_recv
  Times times = {};          ///< loop
  Operand dst = {};
  Operand src = {};
  friend bool operator==(const Step&, const Step&) = default;
};

/// Counters per operation and rank. Each has one writer and only grows.
inline constexpr int kCounters = 2;

/// The order of additions of a schedule. Automatic selection takes only `binomial` for operations
/// that round.
enum class OrderClass : std::uint8_t {
  binomial,  ///< the lowest-bit binomial tree over ranks, whatever size and chunking
  other,     ///< exact operations only, unless asked for by name
};

/// Which ranks run the same steps once their ranks are renamed. Declared by the builder, checked by
/// the prover up to 64 ranks.
enum class Symmetry : std::uint8_t {
  none,
  rotation,  ///< all ranks, if rank r counts the others from itself: q becomes q - r mod size
  per_host,  ///< the ranks of a host, without the lowest one and the root; only r is renamed
};

/// The contents of a slot, see Schedule::slot_parts.
inline constexpr std::int32_t kSlotOfBlock = -1;
inline constexpr std::int32_t kSlotOfAll = 0;
inline constexpr std::int32_t kSlotOfChunk = 1;

struct Schedule {
  std::string_view algorithm;  ///< "one_shot", "slice_owner", ... a literal
  Kind kind = Kind::barrier;
  OrderClass order = OrderClass::binomial;
  Symmetry symmetry = Symmetry::none;
  int rank = 0;
  int size = 1;
  int root = 0;
  std::size_t chunk_bytes = 0;   ///< 0: the schedule has no chunks
  std::int32_t stage_slots = 0;  ///< slots of stage that are used
  std::int32_t scratch_slots = 0;
  /// Slots that the chunks cycle through: chunk c uses slot c mod slot_cycle, and perhaps the same
  /// slot of further banks of slot_cycle slots each. 0: no cycle. Example: with slot_cycle 4 and
  /// stage_slots 8 (slots 0 to 3 for inputs, 4 to 7 for results) chunk 5 uses slots 1 and 5. An
  /// operation of fewer chunks gets fewer slots (cycle_of), so that its staging stays in the cache.
  std::int32_t slot_cycle = 0;
  /// Consecutive slots of the cycle that one chunk takes: chunk c has those from
  /// c * slots_per_chunk mod slot_cycle on. Example: a rank stages blocks for 3 ranks, with
  /// slots_per_chunk 3 and slot_cycle 12: chunk 1 has slots 3 to 5, chunk 4 has slots 0 to 2 again.
  std::int32_t slots_per_chunk = 1;
  /// The size of a slot. kSlotOfAll: the whole operation. A number n > 0: one chunk of a part, if
  /// the operation is divided into n parts (kSlotOfChunk, 1: one chunk). kSlotOfBlock: one chunk of
  /// the largest block.
  std::int32_t slot_parts = kSlotOfAll;
  bool region = false;  ///< has steps on shared memory
  bool messages = false;
  std::vector<Step> steps;
};

/// A run of elements.
struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// How many elements each block has.
struct BlockTable {
  std::size_t each = 0;               ///< elements of each block, if all are equal
  const std::size_t* ends = nullptr;  ///< else the end of each block; `largest` is set too
  std::size_t largest = 0;

  [[nodiscard]] static BlockTable even(std::size_t each) noexcept { return {each, nullptr, each}; }
  [[nodiscard]] Range range(std::int64_t block) const noexcept {
    const auto b = base::as_size(block);
    if (ends == nullptr) return {b * each, each};
    const std::size_t first = b == 0 ? 0 : ends[b - 1];
    return {first, ends[b] - first};
  }
};

/// The numbers that a schedule is bound to for one call.
struct Binding {
  std::size_t count = 0;    ///< elements of the operation
  std::size_t element = 1;  ///< bytes of one
  std::size_t chunk = 0;    ///< elements of a chunk; 0 without chunks
  std::size_t align = 1;    ///< elements that fill 64 bytes (at least 1)
  BlockTable in;            ///< of blocks in inputs and stages
  BlockTable out;           ///< of blocks in outputs and scratch; as `in` but for all_to_all
};
[[nodiscard]] Binding bind(const Schedule& schedule, std::size_t count,
                           std::size_t element) noexcept;
/// Binds an operation that has blocks. `count` is the sum of them (all_to_all: of the input's).
[[nodiscard]] Binding bind(const Schedule& schedule, std::size_t count, std::size_t element,
                           const BlockTable& in, const BlockTable& out) noexcept;
/// The elements that an operand means at loop variables i, j, as numbered in its memory.
[[nodiscard]] Range range_in_chunks(const Operand& operand, const Binding& b, std::int64_t i,
                                    std::int64_t j) noexcept;
[[nodiscard]] inline Range range_of(const Operand& operand, const Binding& b, std::int64_t i,
                                    std::int64_t j) noexcept {
  // In the header for the smallest operations, which know no other shape.
  if (operand.slice.shape == Slice::Shape::whole) return {0, b.count};
  return range_in_chunks(operand, b, i, j);
}
/// The element that lies at the start of the slot which `operand` is kept in (see Operand).
[[nodiscard]] std::size_t origin_in_chunks(const Operand& operand, const Binding& b, std::int64_t i,
                                           std::int64_t j) noexcept;
[[nodiscard]] inline std::size_t slot_origin(const Operand& operand, const Binding& b,
                                             std::int64_t i, std::int64_t j) noexcept {
  return operand.slice.shape == Slice::Shape::whole ? 0 : origin_in_chunks(operand, b, i, j);
}
/// The number of the first element in a rank's input or output: not 0 if that holds only the rank's
/// own block.
[[nodiscard]] std::size_t first_element(Kind kind, Space space, int rank,
                                        const Binding& b) noexcept;
/// How many elements a rank's input has.
[[nodiscard]] std::size_t input_elements(Kind kind, int rank, const Binding& b) noexcept;
/// Bytes of one slot, rounded up to 64.
[[nodiscard]] std::size_t slot_bytes(const Schedule& schedule, const Binding& b) noexcept;
[[nodiscard]] std::int64_t times_of(const Times& times, const Binding& b) noexcept;
/// Slots that this operation cycles through: at most `slot_cycle`, and no more than its chunks use.
/// Slot s is kept at s / slot_cycle * cycle_of + s % slot_cycle. Example: with slot_cycle 4 and
/// stage_slots 8 an operation of 2 chunks has a cycle of 2, and slot 5 is kept at 1 * 2 + 1 = 3.
[[nodiscard]] std::int32_t cycle_of(const Schedule& schedule, const Binding& b) noexcept;
/// Slots of stage that this operation needs, see cycle_of. In the example: 4.
[[nodiscard]] std::int32_t stage_slots_of(const Schedule& schedule, const Binding& b) noexcept;

}  // namespace tutti::plan
