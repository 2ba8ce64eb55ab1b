#pragma once

#include <cstdint>
#include <string_view>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Promises that some backends keep, beyond those of every backend. docs/reference/backends.md has
/// a table of them.
enum class Promise : std::uint8_t {
  /// One order of additions: the same bits on every run and for every number of hosts.
  same_bits,
  /// Sums of narrow floats are rounded once.
  narrow_rounded_once,
  /// A call that differs from those of other ranks leaves outputs untouched.
  outputs_untouched,
  /// Uneven all_to_all whose sizes do not fit is an error on every rank.
  sizes_compared,
  /// A message that is longer than its recv expects is an error there, however long it is.
  lengths_compared,
  /// A recv of another dtype than was sent is an error there, and a probe tells the dtype.
  dtypes_compared,
  /// A timeout ends the operation: the tensors are free.
  timeout_frees_tensors,
  /// A rank that has not come is named.
  late_rank_named,
  /// A rank that is killed is named on all others.
  killed_rank_named,
  /// Messages take any tag from 0 to 2^31 - 1.
  all_tags,
  /// Making a group cannot block for longer than its timeout.
  group_in_time,
  /// `TUTTI_TLS=1` encrypts what leaves the host.
  encrypted,
  /// Ranks may be threads (`run_threads`).
  thread_ranks,
  /// A forked child that uses a group of its parent gets an error.
  fork_is_error,
  /// Several worlds can follow each other in one process.
  several_worlds,
};

/// True if a backend of this name is known and keeps the promise.
[[nodiscard]] bool keeps_promise(std::string_view backend, Promise promise);

}  // namespace v0
}  // namespace tutti
