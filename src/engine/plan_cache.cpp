#include "engine/plan_cache.hpp"

#include <algorithm>
#include <utility>

#include "plan/builders.hpp"
#include "plan/select.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::engine {
namespace {

// From here on a copy to the output goes around the cache: it would not be read back from there.
constexpr std::size_t kStreamBytes = std::size_t{16} << 20;

bool rounds(const Collective& call) noexcept {
  const bool exact_op = call.op == ReduceOp::min || call.op == ReduceOp::max ||
                        call.op == ReduceOp::band || call.op == ReduceOp::bor ||
                        call.op == ReduceOp::bxor;
  if (call.kind != Kind::all_reduce || exact_op) return false;
  return call.input.dtype() >= DType::float16;
}

}  // namespace

PlanCache::PlanCache(int rank, plan::Topology topology, int cpus, std::string override_text)
    : rank_(rank),
      topology_(std::move(topology)),
      cpus_(cpus),
      override_(std::move(override_text)) {}

const plan::Schedule& PlanCache::schedule_of(const Collective& call) {
  const bool token = call.kind == Kind::new_group || call.kind == Kind::close;
  const Kind kind = token ? Kind::barrier : call.kind;
  const std::size_t bytes = call.kind == Kind::barrier || token ? 0 : call.input.size_bytes();
  const plan::Choice choice = plan::select(kind, rounds(call), bytes, topology_, cpus_, override_);
  const int root = kind == Kind::broadcast ? call.root : 0;
  auto& slot = schedules_[Key(choice.algorithm, root, choice.chunk_bytes)];
  if (!slot) {
    const plan::Shape shape{rank_, topology_.size(), root, &topology_, choice.chunk_bytes};
    slot = std::make_unique<plan::Schedule>(choice.build(shape));
  }
  return *slot;
}

const BoundPlan& PlanCache::find_slow(const Collective& call) {
  for (int i = 0; i < kEntries; ++i) {
    if (entries_[i].matches(call)) {
      last_ = &entries_[i];
      used_[i] = ++clock_;
      return *last_;
    }
  }
  BoundPlan bound;
  bound.kind = call.kind;
  bound.op = call.op;
  bound.dtype = call.input.dtype();
  bound.root = call.root;
  bound.count = call.input.count();
  bound.digest = call.digest;
  bound.code = encode(call);
  const plan::Schedule& schedule = schedule_of(call);
  bound.schedule = &schedule;
  if (call.kind == Kind::all_reduce) {
    bound.reduce = kernels::find_reduce(call.op, call.input.dtype());
    bound.reduce_past = kernels::find_reduce_nt(call.op, call.input.dtype());
  }
  const bool data = call.kind == Kind::all_reduce || call.kind == Kind::broadcast;
  const std::size_t element = data ? size_of(call.input.dtype()) : 1;
  const std::size_t count = data ? call.input.count() : 1;  // a barrier is one byte to whoever asks
  bound.binding = plan::bind(schedule, count, element);
  bound.slot_bytes = plan::slot_bytes(schedule, bound.binding);
  std::int32_t stage_slots = schedule.stage_slots;
  bound.cycle = schedule.slot_cycle;
  if (schedule.slot_cycle > 0) {
    const std::int64_t chunks =
        std::max<std::int64_t>(1, plan::times_of({plan::Times::Of::chunks, 1, 0}, bound.binding));
    bound.cycle = static_cast<std::int32_t>(std::min<std::int64_t>(schedule.slot_cycle, chunks));
    stage_slots = schedule.stage_slots / schedule.slot_cycle * bound.cycle;
  }
  bound.inline_stage = stage_slots == 1 && count * element <= transport::shm::kInlineBytes;
  if (!bound.inline_stage)
    bound.stage_bytes = static_cast<std::size_t>(stage_slots) * bound.slot_bytes;
  for (const plan::Step& step : schedule.steps) {
    const bool writes = step.kind == plan::StepKind::copy || step.kind == plan::StepKind::reduce;
    if (writes && step.dst.space == plan::Space::stage) bound.own_stage = true;
  }
  bound.scratch_bytes = static_cast<std::size_t>(schedule.scratch_slots) * bound.slot_bytes;
  bound.stream_out = count * element >= kStreamBytes;
  // The one that was not used for longest: operations in flight still read theirs.
  const auto oldest = std::min_element(std::begin(used_), std::end(used_)) - std::begin(used_);
  used_[oldest] = ++clock_;
  last_ = &entries_[oldest];
  *last_ = bound;
  return *last_;
}

}  // namespace tutti::engine
