#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/rank_row.hpp"
#include "plan/schedule.hpp"

namespace tutti::engine {

struct BoundPlan;

/// The steps of a schedule that stages, publishes, waits for lines once, and then copies or adds,
/// with the places of all operands: what one_shot.cpp runs without looking at each step.
struct OneShotPlan {
  /// Consecutive bytes that move from a rank's stage, or from our input.
  struct Copy {
    static constexpr int kInput = -1;
    int from = kInput;    ///< the rank whose stage is read
    std::size_t src = 0;  ///< offset there
    std::size_t dst = 0;  ///< offset in our stage or output
    std::size_t bytes = 0;
  };
  /// A sum of what ranks have staged, or our own input.
  struct Sum {
    RankRow ranks{0};
    bool own_input = false;
    bool last = false;      ///< see plan::Step
    std::size_t src = 0;    ///< offset in each stage
    std::size_t input = 0;  ///< offset in our input
    std::size_t dst = 0;    ///< offset in our stage or output
    std::size_t count = 0;  ///< elements; 0: there is no sum
  };
  std::vector<Copy> staged;    ///< from our input to our stage; then the line is published
  RankRow awaited{0};          ///< whose lines are awaited then
  std::uint32_t waits_at = 0;  ///< the number of that step; 0: the schedule is no such one
  bool follows = false;        ///< those ranks do not wait for us, and may be ahead
  std::vector<Copy> copied;    ///< to our output
  Sum sum;
  /// A rank looks for a sum that another one has made, in the second slot, before it makes one for
  /// all: the steps that look and tell.
  const plan::Step* claim = nullptr;
  const plan::Step* signal = nullptr;

  [[nodiscard]] bool exists() const noexcept { return waits_at != 0; }
};

/// The one-shot plan of a call; `bound` is set up to what the schedule is bound to.
[[nodiscard]] OneShotPlan one_shot_plan(const BoundPlan& bound, int size);

}  // namespace tutti::engine
