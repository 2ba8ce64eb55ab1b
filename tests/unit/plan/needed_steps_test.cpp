#include <algorithm>

#include "proof_cases.hpp"

// Takes every single step out of every schedule: the prover must miss it. So the schedules have no
// step too many, and the prover has no blind spot as long as a step.
namespace tutti::verify {

using namespace plan;

namespace {

/// A copy without the step; an empty one where it cannot be taken out alone.
Schedule without(const Schedule& s, std::size_t at) {
  const StepKind kind = s.steps[at].kind;
  if (kind == StepKind::loop || kind == StepKind::end_loop) return {};
  if (kind == StepKind::claim) return {};  // whoever claims nothing does the work himself
  // The line of a leader that is in another operation, whose counters rise, too: the prover knows
  // calls that agree only.
  const bool leaders = s.kind == Kind::barrier && kind == StepKind::await_line &&
                       at + 1 < s.steps.size() && s.steps[at + 1].kind == StepKind::await;
  if (leaders) return {};
  Schedule out = s;
  out.steps.erase(out.steps.begin() + static_cast<std::ptrdiff_t>(at));
  for (Step& step : out.steps) {
    if (step.jump > static_cast<std::int32_t>(at)) --step.jump;
  }
  return out;
}

bool is_missed(const std::vector<Schedule>& all, const Claims& claims) {
  const auto n = all.size();
  const Kind kind = all.front().kind;
  std::vector<ProofCase> cases{{1, 0, 1, false}};  // of a barrier
  if (has_blocks(kind))
    cases = {{9, 1, 1, false}, {9, 1, 1, true}};
  else if (kind != Kind::barrier)
    cases = {{9 * n + 1, n, 1, false},
             {40 * n + 3, 3, 1, false},
             {9 * n + 1, n, 1, true},
             {40 * n + 3, 3, 1, true}};
  return std::ranges::any_of(cases, [&](const ProofCase& c) {
    return !prove(all, c, has_blocks(kind) ? claims : Claims()).empty();
  });
}

class NeededStep : public testing::TestWithParam<Algorithm> {};

void take_out_each(const Algorithm& a, int size, std::size_t chunk_bytes) {
  const Topology t = a.looks_at_hosts ? in_blocks(size, 2) : one_host(size);
  const std::vector<Schedule> all = build_all(a.build, t, size - 1, chunk_bytes);
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t at = 0; at < all[r].steps.size(); ++at) {
      std::vector<Schedule> less = all;
      less[r] = without(all[r], at);
      if (less[r].steps.empty()) continue;
      EXPECT_TRUE(is_missed(less, claims_of(a))) << name_of(a) << " of " << size << ", rank " << r
                                                 << ", step " << at << " is not needed:\n"
                                                 << to_text(all[r]);
    }
  }
}

TEST_P(NeededStep, IsMissedWhenTakenOut) {
  for (const int size : {3, 5}) {
    take_out_each(GetParam(), size, kChunkBytes);
    if (GetParam().build == two_level_all_reduce) take_out_each(GetParam(), size, 0);
  }
  if (GetParam().name == "recursive_halving") take_out_each(GetParam(), 4, kChunkBytes);
  // Hosts alike, which some forms need.
  if (GetParam().looks_at_hosts) take_out_each(GetParam(), 6, kChunkBytes);
}

INSTANTIATE_TEST_SUITE_P(Every, NeededStep,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& a) { return name_of(a.param); });

}  // namespace
}  // namespace tutti::verify
