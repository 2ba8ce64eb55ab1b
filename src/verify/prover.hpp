#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/builders.hpp"
#include "plan/schedule.hpp"

// Proofs about schedules. Lines, counters with one writer each and channels that are
// first in, first out make a set of schedules a Kahn network: what one execution of all ranks does
// is what every interleaving does, as long as no two accesses to the same memory are unordered; and
// vector clocks see every such pair in that one execution. A claim is the one step with several
// outcomes: all owners are tried.
namespace tutti::verify {

using plan::Schedule;
using plan::Shape;
using plan::Topology;

/// The faults that a set of schedules can have.
enum class Fault : std::uint8_t {
  malformed,          ///< no program: jumps or loops astray, steps that its flags exclude, no end
  missing_publish,    ///< steps on shared memory, but no line (or two)
  deadlock,           ///< ranks wait for what never comes
  early_read,         ///< reads what is not certain to have been written yet
  early_reuse,        ///< writes over what somebody may still read or send
  unordered_writes,   ///< two writes, no order between them
  undefined_read,     ///< reads memory that nobody wrote
  wrong_element,      ///< takes an element for another one
  added_twice,        ///< an input counts twice in a result
  not_added,          ///< an input is missing in a result
  wrong_order,        ///< right inputs, but not the order of additions that the schedule declares
  not_written,        ///< an element of an output is never written
  not_divided,        ///< a complete result that its reduce step does not mark as such
  divided_wrongly,    ///< marked as complete before it is, or twice
  several_passes,     ///< claims single_pass, but a result is made of partial sums
  splits_used,        ///< claims any_splits, but does more than each rank's own table tells
  input_touched,      ///< reads an input that nobody gave (of a broadcast's receiver)
  output_touched,     ///< uses an output that nobody asked for (of the root of a broadcast)
  before_agree,       ///< writes an output before its step `agree`
  not_compared,       ///< uses data of ranks (or leaves a barrier) without knowing that they agree
  left_early,         ///< a barrier that does not wait for everybody
  out_of_bounds,      ///< outside of a slot, of the slots, of the group or of the counters
  foreign_write,      ///< writes memory of another rank
  stage_unknown,      ///< uses a stage without having seen the line that tells where it is
  counter_falls,      ///< a counter that does not grow
  unmatched_message,  ///< sent, but nobody receives it; or received, but nobody awaits it
  size_mismatch,      ///< a receive of another size than its send
  wrong_symmetry,     ///< not the symmetry that the schedule declares
};
[[nodiscard]] std::string_view to_string(Fault fault) noexcept;

struct Finding {
  Fault kind = Fault::malformed;
  int rank = 0;
  std::string text;  ///< for people: rank, step, which memory, who else
};

/// The numbers of one execution, small so that many can be run. Elements count as 64 bytes, so that
/// a slot has room for what it must hold and no more.
struct ProofCase {
  std::size_t count = 1;  ///< of operations of blocks: elements of each block
  std::size_t chunk = 0;  ///< elements; only for schedules that have chunks
  std::size_t align = 1;
  bool in_place = false;  ///< input and output are the same memory, as far as they overlap
  /// Operations of blocks: if not 0, blocks differ: 0 to 2 * count elements, drawn from this seed.
  /// In all_to_all each rank then knows only its own two tables.
  std::uint32_t uneven = 0;
};

/// The properties that an algorithm claims, beside those of its schedules (see Algorithm).
struct Claims {
  bool single_pass = false;
  bool any_splits = false;
};

/// Runs the schedules of all ranks (all[r] is that of rank r). Nothing found: proven for this case.
[[nodiscard]] std::vector<Finding> prove(std::span<const Schedule> all, const ProofCase& c,
                                         const Claims& claims = {});

/// Has each rank a block in it?
[[nodiscard]] bool has_blocks(Kind kind) noexcept;

/// The schedules of all ranks.
[[nodiscard]] std::vector<Schedule> build_all(Schedule (*build)(const Shape&),
                                              const Topology& topology, int root,
                                              std::size_t chunk_bytes);

/// Does each schedule do what its declared symmetry says? Compares what the ranks do step by step,
/// with ranks renamed; slots and sizes are left out. per_host: the ranks of a host that neither
/// lead it nor are the root do the same.
[[nodiscard]] std::vector<Finding> check_symmetry(std::span<const Schedule> all,
                                                  const Topology& topology, const ProofCase& c);

}  // namespace tutti::verify
