#include "engine/one_shot_plan.hpp"

#include <tutti/backend/kinds.hpp>

#include "engine/plan_cache.hpp"

namespace tutti::engine {
namespace {

using plan::Operand;
using plan::Range;
using plan::Space;
using plan::Step;
using plan::StepKind;

constexpr std::int64_t kNoLoop[2] = {0, 0};

/// Reads a schedule from its first step to its last.
class Reader {
 public:
  Reader(const BoundPlan& bound, int size) noexcept
      : bound_(bound), steps_(bound.schedule->steps), size_(size) {}

  /// False: it is no schedule of this form.
  [[nodiscard]] bool read(OneShotPlan& plan) {
    const plan::Schedule& schedule = *bound_.schedule;
    if (schedule.messages || schedule.slot_cycle != 0) return false;
    read_copies(plan.staged, Space::stage);
    if (take(StepKind::publish) == nullptr) return false;
    plan.waits_at = at_;
    if (const Step* const lines = take(StepKind::await_line))
      plan.awaited = RankRow(lines->ranks, size_, kNoLoop);
    plan.follows = traits_of(schedule.kind).rooted || traits_of(schedule.kind).prefix;
    if (take(StepKind::agree) == nullptr) return false;
    read_copies(plan.copied, Space::output);
    plan.claim = take(StepKind::claim);
    const Step* const sum = take(StepKind::reduce);
    if (sum != nullptr && !read_sum(plan, *sum)) return false;
    return (plan.claim == nullptr || read_shared(plan)) && at_ == steps_.size();
  }

 private:
  [[nodiscard]] const Step* take(StepKind kind) noexcept {
    return at_ < steps_.size() && steps_[at_].kind == kind ? &steps_[at_++] : nullptr;
  }

  void read_copies(std::vector<OneShotPlan::Copy>& copies, Space to) {
    while (at_ < steps_.size() && steps_[at_].kind == StepKind::copy) {
      const Step& step = steps_[at_];
      const bool from_input = step.src.space == Space::input;
      const bool from_stage = step.src.space == Space::stage && to == Space::output;
      if (step.dst.space != to || !(from_input || from_stage)) return;
      ++at_;
      const Range range = range_of(step.src);
      if (range.count == 0) continue;
      add(copies, {from_input ? OneShotPlan::Copy::kInput
                              : RankRow({step.src.rank, 1, 1}, size_, kNoLoop)[0],
                   offset_of(step.src), offset_of(step.dst), range.count * bound_.binding.element});
    }
  }

  /// Copies that follow each other in memory become one.
  static void add(std::vector<OneShotPlan::Copy>& copies, const OneShotPlan::Copy& next) {
    if (!copies.empty()) {
      OneShotPlan::Copy& last = copies.back();
      if (last.from == next.from && last.src + last.bytes == next.src &&
          last.dst + last.bytes == next.dst) {
        last.bytes += next.bytes;
        return;
      }
    }
    copies.push_back(next);
  }

  [[nodiscard]] bool read_sum(OneShotPlan& plan, const Step& step) const {
    const Space to = plan.claim != nullptr ? Space::stage : Space::output;
    if (step.sources != plan::Sources::stages || step.dst.space != to || bound_.reduce == nullptr)
      return false;
    Operand own = step.src;
    own.space = Space::input;
    plan.sum = {RankRow(step.ranks, size_, kNoLoop),
                step.own_input,
                step.last,
                offset_of(step.src),
                offset_of(own),
                offset_of(step.dst),
                range_of(step.dst).count};
    return true;
  }

  /// The rest of a schedule in which one sum serves all ranks.
  [[nodiscard]] bool read_shared(OneShotPlan& plan) noexcept {
    plan.signal = take(StepKind::signal);
    const Step* const ours = take(StepKind::copy);
    const Step* const end = take(StepKind::jump);
    const Step* const theirs = take(StepKind::copy);
    if (plan.signal == nullptr || ours == nullptr || end == nullptr || theirs == nullptr)
      return false;
    return theirs->src.of_winner && offset_of(theirs->src) == plan.sum.dst &&
           offset_of(ours->src) == plan.sum.dst &&
           &steps_[static_cast<std::size_t>(plan.claim->jump)] == theirs &&
           static_cast<std::size_t>(end->jump) == steps_.size();
  }

  [[nodiscard]] Range range_of(const Operand& operand) const noexcept {
    return plan::range_of(operand, bound_.binding, 0, 0);
  }
  /// Of the operand's first element, from where its memory begins for this rank.
  [[nodiscard]] std::size_t offset_of(const Operand& operand) const noexcept {
    const std::size_t first = range_of(operand).first;
    const std::size_t element = bound_.binding.element;
    if (operand.space == Space::input) return (first - bound_.input_first) * element;
    if (operand.space == Space::output) return (first - bound_.output_first) * element;
    return static_cast<std::size_t>(operand.slot.at(0, 0)) * bound_.slot_bytes +
           (first - plan::slot_origin(operand, bound_.binding, 0, 0)) * element;
  }

  const BoundPlan& bound_;
  const std::vector<Step>& steps_;
  int size_;
  std::uint32_t at_ = 0;
};

}  // namespace

OneShotPlan one_shot_plan(const BoundPlan& bound, int size) {
  OneShotPlan plan;
  return Reader(bound, size).read(plan) ? plan : OneShotPlan();
}

}  // namespace tutti::engine
