#pragma once

#include <cstddef>
#include <cstdint>

#include "base/index.hpp"
#include "plan/schedule.hpp"

namespace tutti::plan {

/// The place in a schedule of a walk without memory and clock: the next step, and the loops that it
/// is in, of which there are two at most.
struct StepCursor {
  std::size_t pc = 0;
  int depth = 0;
  std::int64_t var[2] = {0, 0};
  std::int64_t limit[2] = {0, 0};
  std::size_t begin[2] = {0, 0};

  /// Passes a jump, or the begin or end of a loop.
  void pass(const Step& step, const Binding& binding) noexcept {
    const auto target = base::as_size(step.jump);
    if (step.kind == StepKind::jump) {
      pc = target;
      return;
    }
    if (step.kind == StepKind::end_loop) {
      const int level = depth - 1;
      if (++var[level] < limit[level]) {
        pc = begin[level];
        return;
      }
      var[level] = 0;
      --depth;
      ++pc;
      return;
    }
    const std::int64_t times = times_of(step.times, binding);
    if (times <= 0) {
      pc = target;
      return;
    }
    var[depth] = 0;
    limit[depth] = times;
    begin[depth] = ++pc;
    ++depth;
  }
};

}  // namespace tutti::plan
