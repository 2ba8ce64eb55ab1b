#pragma once

#include <cstdint>
#include <vector>

#include "engine/scratch.hpp"
#include "plan/schedule.hpp"

namespace tutti::engine {

/// The part of an operation that the Interpreter has: where its schedule stands.
struct ProgramState {
  std::uint32_t pc = 0;         ///< number of the next step
  std::int32_t at = 0;          ///< how many of the ranks of that step are through
  bool agreed = false;          ///< the calls of the ranks that we depend on are equal to ours
  bool one_shot = false;        ///< run_one_shot runs it (see OneShotPlan)
  bool out_past_cache = false;  ///< copies to the output go around the cache
  std::int32_t winner = -1;     ///< the rank that a claim step found
  std::int32_t depth = 0;       ///< of loops
  std::int64_t var[2] = {0, 0};
  std::int64_t limit[2] = {0, 0};
  std::uint32_t begin[2] = {0, 0};
  /// Elements that a reduce step has already written to the output (reduce_home), so that the copy
  /// step for them is skipped; count 0: none.
  plan::Range home;
  Scratch scratch;
  std::vector<const void*> sources;  ///< of a reduce step; has room for all ranks
};

}  // namespace tutti::engine
