#include "engine/plan_cache.hpp"

#include <algorithm>
#include <utility>

#include <tutti/backend/kinds.hpp>
#include "base/log.hpp"
#include "call/gpu_calls.hpp"
#include "kernels/narrow.hpp"
#include "plan/builders.hpp"
#include "plan/select.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

namespace {

/// A rank that is far ahead of others has staged at most so much in a group.
constexpr std::size_t kAheadBytes = std::size_t{256} << 10;
/// Inputs of which no more is staged are always staged: that takes less time than to wait until
/// others have read them. With more the window is kWindow, so the end of each rank wakes others.
constexpr std::size_t kLeastLent = kAheadBytes / shm::kWindow;
/// The same where ranks are more than CPUs, so that such a wait takes time slices.
constexpr std::size_t kLeastLentInTurns = std::size_t{1} << 20;
constexpr std::size_t kStreamBytes = std::size_t{16} << 20;
constexpr std::size_t kStreamBytesOfHost = std::size_t{32} << 20;

/// True if the output is so large that it would leave the cache before the caller reads it. The
/// ranks of a host share its last cache. `bytes`: of the operation; `ranks`: members of our host.
bool goes_around_cache(Kind kind, std::size_t bytes, std::size_t ranks) noexcept {
  const KindTraits& traits = traits_of(kind);
  const bool all_get_all = traits.writes != On::root && traits.layout != Layout::scatter;
  return bytes >= kStreamBytes || (all_get_all && bytes * ranks >= kStreamBytesOfHost);
}

/// True if a rank gains when others read its input where it lies. `input`: its bytes, of blocks of
/// several sizes the largest one's. `in_turns`: ranks are more than CPUs. Then it pays for few
/// operations (bench/notes/alloc.md), and never for a root's input.
bool gains_by_lending(Kind kind, std::size_t input, bool in_turns) noexcept {
  if (!in_turns) return true;
  const bool pays = kind == Kind::all_gather || kind == Kind::gather || kind == Kind::all_to_all;
  return pays && input >= kLeastLentInTurns;
}

bool rounds(const Collective& call, DType dtype) noexcept {
  const bool exact_op = call.op == ReduceOp::min || call.op == ReduceOp::max ||
                        call.op == ReduceOp::band || call.op == ReduceOp::bor ||
                        call.op == ReduceOp::bxor;
  return traits_of(call.kind).reduces && !exact_op && dtype >= DType::float16;
}

/// True for floats of 16 or 8 bits: one step must add all inputs, because partial sums would have
/// to travel as float32.
bool sums_narrow(const Collective& call, DType dtype) noexcept {
  return traits_of(call.kind).reduces && kernels::is_narrow(dtype);
}

/// True if frames of several ranks arrive directly in the output: see StreamState::deferred.
bool compares_all_headers(const plan::Schedule& schedule) noexcept {
  const Layout layout = traits_of(schedule.kind).layout;
  if (!schedule.messages || (layout != Layout::gather && layout != Layout::exchange)) return false;
  return std::all_of(schedule.steps.begin(), schedule.steps.end(), [](const plan::Step& step) {
    if (step.kind == plan::StepKind::recv) return step.dst.space == plan::Space::output;
    return step.kind != plan::StepKind::send || step.src.space == plan::Space::input;
  });
}

/// True if ranks send blocks on from their outputs. Then a frame says nothing about the calls of
/// the ranks whose blocks come later by the same way.
bool forwards_output(const plan::Schedule& schedule) noexcept {
  if (!schedule.messages || traits_of(schedule.kind).layout != Layout::gather) return false;
  return std::any_of(schedule.steps.begin(), schedule.steps.end(), [](const plan::Step& step) {
    return step.kind == plan::StepKind::send && step.src.space == plan::Space::output;
  });
}

/// Does the engine move or combine elements in this call?
bool has_elements(const Collective& call) noexcept {
  return has_data(call.kind) && !call::is_gpu_call(call.digest);
}

std::string selected_text(const plan::Query& query, const plan::Topology& topology,
                          const plan::Choice& choice) {
  std::string text = std::string(traits_of(query.kind).name) + " of " +
                     std::to_string(query.bytes) + " bytes on " + std::to_string(topology.size()) +
                     " ranks of " + std::to_string(topology.hosts) +
                     " hosts: " + std::string(choice.algorithm);
  if (choice.chunk_bytes > 0)
    text += ", chunks of " + std::to_string(choice.chunk_bytes) + " bytes";
  return text;
}

plan::BlockTable table_of(const std::vector<std::size_t>& ends, std::size_t each) {
  if (ends.empty()) return plan::BlockTable::even(each);
  plan::BlockTable table;
  table.ends = ends.data();
  std::size_t before = 0;
  for (const std::size_t end : ends) {
    table.largest = std::max(table.largest, end - before);
    before = end;
  }
  return table;
}

/// How many operations of a group may be under way when one with this schedule begins. Frames and
/// counters allow kWindow; what is staged has a limit in bytes.
int window_of(const plan::Schedule& schedule, std::size_t stage_bytes) noexcept {
  const bool counts = std::ranges::any_of(schedule.steps, [](const plan::Step& step) {
    return step.kind == plan::StepKind::signal || step.kind == plan::StepKind::await ||
           step.kind == plan::StepKind::claim;
  });
  if (schedule.messages || counts) return shm::kWindow;
  const std::size_t fit = kAheadBytes / std::max<std::size_t>(stage_bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(fit, shm::kWindow, shm::kLines));
}

}  // namespace

PlanCache::PlanCache(int rank, plan::Topology topology, int cpus, std::string override_text)
    : rank_(rank),
      topology_(std::move(topology)),
      neighbours_(static_cast<std::size_t>(std::ranges::count(
          topology_.host_of, topology_.host_of[static_cast<std::size_t>(rank)]))),
      cpus_(cpus),
      override_(std::move(override_text)) {}

plan::Query selection_query(const Collective& call, const call::Extent& extent, int cpus,
                            std::string_view override_text) {
  const bool token = !has_elements(call);
  const bool splits = extent.agreed == call::kSplits;
  plan::Query query;
  query.kind = token ? Kind::barrier : call.kind;
  query.bytes = token || splits ? 0 : extent.count * size_of(extent.dtype);
  query.rounds = !token && rounds(call, extent.dtype);
  query.narrow = !token && sums_narrow(call, extent.dtype);
  query.uneven = splits;
  query.even_blocks = !extent.uneven();
  query.cpus = cpus;
  query.override_text = override_text;
  return query;
}

const plan::Schedule& PlanCache::schedule_of(const Collective& call, const call::Extent& extent) {
  const plan::Query query = selection_query(call, extent, cpus_, override_);
  const Kind kind = query.kind;
  const plan::Choice choice = plan::select(query, topology_);
  const int root = traits_of(kind).rooted ? call.root : 0;
  auto& slot = schedules_[Key(kind, choice.algorithm, root, choice.chunk_bytes)];
  if (!slot) {
    const plan::Shape shape{rank_, topology_.size(), root, &topology_, choice.chunk_bytes};
    slot = std::make_unique<plan::Schedule>(choice.build(shape));
    if (rank_ == 0 && base::is_logged(base::Level::debug))
      base::log(base::Level::debug, selected_text(query, topology_, choice));
  }
  return *slot;
}

/// The entry that was not used for the longest time: operations in flight still read theirs.
BoundPlan& PlanCache::entry_to_fill() {
  const auto oldest = std::min_element(std::begin(used_), std::end(used_)) - std::begin(used_);
  used_[oldest] = ++clock_;
  return entries_[oldest];
}

const BoundPlan& PlanCache::find_slow(const Collective& call) {
  const call::Extent extent = call::extent_of(call, rank_, topology_.size());
  const call::CallCode code = call::encode(call, extent);
  for (int i = 0; i < kEntries; ++i) {
    const BoundPlan& entry = entries_[i];
    if (entry.schedule == nullptr || entry.code != code || entry.op != call.op) continue;
    if (entry.in_ends != extent.in_ends || entry.out_ends != extent.out_ends) continue;
    if (call.details == nullptr && !entry.matches(call)) continue;
    last_ = &entries_[i];
    used_[i] = ++clock_;
    return *last_;
  }
  const plan::Schedule& schedule = schedule_of(call, extent);
  BoundPlan& bound = entry_to_fill();
  bound = BoundPlan();
  last_ = &bound;
  bound.kind = call.kind;
  bound.op = call.op;
  bound.dtype = extent.dtype;
  bound.root = call.root;
  bound.digest = call.digest;
  bound.agreed = extent.agreed;
  bound.splits = extent.agreed == call::kSplits;
  bound.by_output = traits_of(call.kind).layout == Layout::scatter;
  const bool plain_blocks = !extent.uneven() && extent.digest == 0;
  bound.plain_count =
      plain_blocks ? (bound.by_output ? call.output : call.input).count() : BoundPlan::kNoPlain;
  bound.in_ends = extent.in_ends;
  bound.out_ends = extent.out_ends;
  bound.code = code;
  bound.schedule = &schedule;
  bound.compares_all_headers = compares_all_headers(schedule);
  bound.forwards_output = forwards_output(schedule);
  const bool data = has_elements(call);
  if (data && traits_of(call.kind).reduces) {
    // AVG divides in the step that completes a sum; PREMUL_SUM has multiplied the input before.
    const bool sums = call.op == ReduceOp::avg || call.op == ReduceOp::premul_sum;
    const ReduceOp op = sums ? ReduceOp::sum : call.op;
    bound.reduce = kernels::find_reduce(op, extent.dtype);
    bound.reduce_past = kernels::find_reduce_nt(op, extent.dtype);
    if (call.op == ReduceOp::avg) bound.average = kernels::find_average(extent.dtype);
  }
  const std::size_t element = data ? size_of(extent.dtype) : 1;
  const std::size_t count = data ? extent.count : 1;  // a barrier is one byte to whoever asks
  const std::size_t each = data ? extent.each : 0;
  bound.binding = plan::bind(schedule, count, element, table_of(bound.in_ends, each),
                             table_of(bound.out_ends, each));
  bound.input_first = plan::first_element(call.kind, plan::Space::input, rank_, bound.binding);
  bound.output_first = plan::first_element(call.kind, plan::Space::output, rank_, bound.binding);
  bound.slot_bytes = plan::slot_bytes(schedule, bound.binding);
  bound.cycle = plan::cycle_of(schedule, bound.binding);
  const std::int32_t stage_slots = plan::stage_slots_of(schedule, bound.binding);
  const bool block = schedule.slot_parts == plan::kSlotOfBlock;
  const std::size_t staged =
      block ? std::max(bound.binding.in.largest, bound.binding.out.largest) : count;
  bound.inline_stage = stage_slots == 1 && staged * element <= shm::kInlineBytes;
  if (!bound.inline_stage)
    bound.stage_bytes = static_cast<std::size_t>(stage_slots) * bound.slot_bytes;
  if (topology_.one_host()) {
    const std::size_t input = call.kind == Kind::all_to_all ? count : staged;
    bound.window = window_of(schedule, bound.stage_bytes);
    bound.stages_inputs =
        bound.stage_bytes > kLeastLent && !traits_of(schedule.kind).reduces && !schedule.messages &&
        gains_by_lending(call.kind, input * element, neighbours_ > static_cast<std::size_t>(cpus_));
    bound.only_receives = traits_of(schedule.kind).reads == On::root && rank_ != call.root;
  }
  for (const plan::Step& step : schedule.steps) {
    const bool writes = step.kind == plan::StepKind::copy || step.kind == plan::StepKind::reduce ||
                        step.kind == plan::StepKind::recv;
    if (writes && step.dst.space == plan::Space::stage) bound.own_stage = true;
  }
  bound.scratch_bytes = static_cast<std::size_t>(schedule.scratch_slots) * bound.slot_bytes;
  bound.output_past_cache = goes_around_cache(call.kind, count * element, neighbours_);
  bound.one_shot = one_shot_plan(bound, topology_.size());
  return bound;
}

}  // namespace tutti::engine
