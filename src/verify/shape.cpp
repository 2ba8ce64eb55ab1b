#include "verify/shape.hpp"

#include "base/format.hpp"
#include "plan/program.hpp"
#include "verify/text.hpp"

namespace tutti::verify::proof {

using namespace plan;

namespace {

Step step(StepKind kind) {
  Step s;
  s.kind = kind;
  return s;
}

Step copy_of(const Operand& dst, const Operand& src) {
  Step s = step(StepKind::copy);
  s.dst = dst;
  s.src = src;
  return s;
}

/// The sum of what all have staged, whole.
Step sum_into(const Operand& dst, const Schedule& schedule) {
  Step s = step(StepKind::reduce);
  s.ranks = {0, schedule.size, 1};
  s.last = schedule.size > 1;
  s.dst = dst;
  s.src.space = Space::stage;
  return s;
}

/// The steps of an engine that runs the shape in one go.
std::vector<Step> steps_of(const Schedule& schedule) {
  const auto stage = [&](int slot) { return Program::stage_of(schedule.rank, slot, whole()); };
  const RankSet others{(schedule.rank + 1) % schedule.size, schedule.size - 1, 1};
  Step lines = step(StepKind::await_line);
  lines.ranks = others;
  std::vector<Step> steps{copy_of(stage(0), input(whole())), step(StepKind::publish), lines,
                          step(StepKind::agree)};
  if (schedule.shape == Schedule::Shape::one_shot) {
    steps.push_back(sum_into(output(whole()), schedule));
    return steps;
  }
  Step claim = step(StepKind::claim);
  claim.ranks = others;
  claim.counter = 1;
  claim.value = 1;
  claim.jump = one_shot_steps::kCopyWinner;
  Step signal = step(StepKind::signal);
  signal.counter = 1;
  signal.value = 1;
  Step jump = step(StepKind::jump);
  jump.jump = one_shot_steps::kCopyWinner + 1;
  steps.insert(steps.end(),
               {claim, sum_into(stage(1), schedule), signal, copy_of(output(whole()), stage(1)),
                jump, copy_of(output(whole()), Program::stage_of_winner(1, whole()))});
  return steps;
}

}  // namespace

std::vector<Finding> check_shape(const Schedule& schedule) {
  if (schedule.shape == Schedule::Shape::none) return {};
  const auto finding = [&](const std::string& text) {
    return Finding{Fault::wrong_shape, schedule.rank,
                   base::format("{}: rank {} of {}: {}", to_string(Fault::wrong_shape),
                                schedule.rank, schedule.algorithm, text)};
  };
  const int slots = schedule.shape == Schedule::Shape::one_shot ? 1 : 2;
  if (!schedule.region || schedule.messages || schedule.chunk_bytes != 0 ||
      schedule.slot_cycle != 0 || schedule.stage_slots != slots) {
    return {finding(base::format("not whole, in shared memory and in {} slots", slots))};
  }
  const std::vector<Step> wanted = steps_of(schedule);
  if (wanted.size() != schedule.steps.size()) {
    return {finding(base::format("{} steps, not {}", schedule.steps.size(), wanted.size()))};
  }
  std::vector<Finding> found;
  for (std::size_t at = 0; at < wanted.size(); ++at) {
    if (schedule.steps[at] == wanted[at]) continue;
    found.push_back(finding(base::format("step {} is \"{}\", not \"{}\"", at,
                                         to_text(schedule.steps[at]), to_text(wanted[at]))));
  }
  return found;
}

}  // namespace tutti::verify::proof
