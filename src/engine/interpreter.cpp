#include "engine/interpreter.hpp"

#include <utility>

#include <tutti/backend/kinds.hpp>

#include "call/memory.hpp"

// Runs the steps of a schedule as far as they go. The state between two calls is ProgramState.
namespace tutti::engine {

using plan::Space;
using plan::Step;
using plan::StepKind;
using transport::DataFrame;

namespace {

std::int64_t value_of(const Step& step, const Op& op) noexcept {
  return step.value.at(op.program.var[0], op.program.var[1]);
}

int peer_of(const Step& step, const Op& op) noexcept { return row_of({step.peer, 1, 1}, op)[0]; }

/// The step at which the operation stands; nullptr: after the last one.
const Step* step_of(const Op& op) noexcept {
  const std::vector<Step>& steps = op.plan->schedule->steps;
  return op.program.pc < steps.size() ? &steps[op.program.pc] : nullptr;
}

/// For an output of blocks from many ranks (StreamState::deferred): true if this rank sends us a
/// block, and no frame of it was compared with our call yet.
bool must_hear(const Op& op, int rank) noexcept {
  const Stream& stream = op.streams[rank];
  if (stream.compared || stream.receives.empty()) return false;
  return op.plan->splits || stream.receive_end() > 0;  // for an empty block no frame is sent
}

/// True if this rank has sent all that an await_recv step waits for.
bool has_received(const Op& op, const Step& step, int rank) noexcept {
  const Stream& stream = op.streams[rank];
  if (op.plan->splits && !stream.heard) return false;
  return stream.has_received(static_cast<std::size_t>(value_of(step, op)));
}

/// True if others may read this input where it lies until all have: it is in one piece, and this
/// operation does not write it. (Other operations in place write at most this rank's own block,
/// with what is there.)
bool may_lend(const Op& op) noexcept {
  const Collective& call = op.call;
  if (!op.plan->stages_inputs || !op.inputs.empty() || !op.input_pieces.empty() ||
      !call.input.contiguous())
    return false;
  if (op.plan->kind != Kind::all_to_all) return true;
  return op.outputs.empty() && op.output_pieces.empty() && call.output.contiguous() &&
         !call::range_of_contiguous(call.input).overlaps(call::range_of_contiguous(call.output));
}

/// True if an agree step waits until the calls of all ranks are compared. Otherwise earlier steps
/// have compared the calls that this rank depends on.
bool compares_all(const Op& op) noexcept { return op.agreement.uses_tokens || op.group->strict; }

}  // namespace

bool Interpreter::begin(Op& op) noexcept {
  const BoundPlan& bound = *op.plan;
  const Collective& call = op.call;
  ProgramState& program = op.program;
  program.pc = 0;
  program.at = 0;
  program.winner = -1;
  program.depth = 0;
  program.agreed = false;
  program.home = {};
  program.one_shot = bound.one_shot.exists() && !bound.stages_inputs && !op.detailed &&
                     call.input.contiguous() && call.output.contiguous() &&
                     (!op.group->strict || bound.one_shot.awaited.count == op.group->size - 1);
  // In place, each line of the output is in the cache when it is written: it has just been read.
  program.out_past_cache =
      bound.output_past_cache &&
      !(traits_of(call.kind).layout == Layout::same && traits_of(call.kind).reduces &&
        call.input.data() == call.output.data());
  op.streams.deferred = bound.compares_all_headers;
  op.region.seq = op.seq;
  op.region.fingerprint = op.fingerprint;
  op.region.stage_bytes = bound.stage_bytes;
  op.region.in_line = bound.inline_stage;
  op.region.awaited = !bound.only_receives || op.group->strict;
  op.region.mode = regions_.policy().choose(bound.stage_bytes, op.seq);
  if (bound.schedule->messages || bound.scratch_bytes != 0) return false;
  if (bound.inline_stage) {
    regions_.use_line_as_stage(*op.group, op.region);
    return true;
  }
  if (bound.own_stage && bound.stage_bytes != 0)
    return may_lend(op) && regions_.use_input_as_stage(*op.group, op.region, bound, call.input);
  regions_.use_no_stage(*op.group, op.region);
  return true;
}

Outcome Interpreter::take_memory(Op& op) {
  const BoundPlan& bound = *op.plan;
  Group& group = *op.group;
  if (bound.inline_stage) {
    regions_.use_line_as_stage(group, op.region);
  } else {
    const std::size_t bytes = bound.own_stage ? bound.stage_bytes : 0;
    if (Outcome taken = regions_.take_stage(group, op.region, bytes); !taken.ok()) return taken;
  }
  Scratch& scratch = op.program.scratch;
  if (scratch.size() < bound.scratch_bytes) scratch_.fit(scratch, bound.scratch_bytes);
  if (bound.schedule->messages) {
    op.streams.open(
        {group.id, op.seq, op.fingerprint, bound.code, bound.binding.element, bound.splits},
        group.size, [&](int rank) { return group.member(rank).global; });
  }
  return {};
}

void Interpreter::release_memory(Op& op) noexcept {
  Scratch& scratch = op.program.scratch;
  if (scratch.size() > ScratchPool::kSmall) scratch_.release(std::move(scratch));
}

Interpreter::Progress Interpreter::run_steps(Op& op) {
  bool moved = false;
  if (op.plan->schedule->messages) moved = channel_.pump(op.streams);
  const std::vector<Step>& steps = op.plan->schedule->steps;
  const auto size = static_cast<std::uint32_t>(steps.size());
  while (op.program.pc < size) {
    const Step& step = steps[op.program.pc];
    switch (step.kind) {
      case StepKind::copy:
        if (op.streams.deferred && step.dst.space == Space::output && !release_deferred(op))
          return blocked(moved);
        copy(op, step);
        break;
      case StepKind::publish: regions_.publish(*op.group, op.region); break;
      case StepKind::await_line:
        if (!await_lines(op, row_of(step.ranks, op))) return blocked(moved);
        break;
      case StepKind::agree:
        if (compares_all(op) && !strictly_agreed(op)) return blocked(moved);
        op.program.agreed = true;
        break;
      case StepKind::reduce: reduce(op, step); break;
      case StepKind::signal:
        regions_.signal(*op.group, op.region, step.counter, value_of(step, op));
        break;
      case StepKind::await:
        if (!regions_.counters(*op.group, op.region, step.counter, value_of(step, op),
                               row_of(step.ranks, op), op.program.at))
          return blocked(moved);
        break;
      case StepKind::claim:
        if (const int winner = RegionChannel::find_signalled(
                *op.group, op.region, step.counter, value_of(step, op), row_of(step.ranks, op));
            winner >= 0) {
          op.program.winner = winner;
          op.program.pc = static_cast<std::uint32_t>(step.jump);
          moved = true;
          continue;
        }
        break;
      case StepKind::jump:
        op.program.pc = static_cast<std::uint32_t>(step.jump);
        moved = true;
        continue;
      case StepKind::send: post_send(op, step); break;
      case StepKind::recv:
        if (!post_receive(op, step)) return Progress::found;
        break;
      case StepKind::await_recv:
        if ((op.streams.deferred && !release_deferred(op)) || !await_receives(op, step)) {
          if (!finding_) channel_.grant(op.streams);
          return blocked(moved);
        }
        break;
      case StepKind::loop: {
        const std::int64_t times = plan::times_of(step.times, op.plan->binding);
        if (times <= 0) {
          op.program.pc = static_cast<std::uint32_t>(step.jump);
          continue;
        }
        op.program.var[op.program.depth] = 0;
        op.program.limit[op.program.depth] = times;
        op.program.begin[op.program.depth] = op.program.pc + 1;
        ++op.program.depth;
        break;
      }
      case StepKind::end_loop: {
        const int level = op.program.depth - 1;
        if (++op.program.var[level] < op.program.limit[level]) {
          op.program.pc = op.program.begin[level];
          continue;
        }
        op.program.var[level] = 0;
        --op.program.depth;
        break;
      }
    }
    ++op.program.pc;
    moved = true;
  }
  if (op.plan->schedule->messages) {
    moved |= channel_.pump(op.streams);
    if (!op.streams.all_sent()) return blocked(moved);
  }
  return Progress::done;
}

bool Interpreter::await_lines(Op& op, const RankRow& ranks) {
  const RegionChannel::Lines lines =
      regions_.lines(*op.group, op.region, *op.plan, ranks, op.program.at);
  if (lines == RegionChannel::Lines::here) return true;
  if (lines != RegionChannel::Lines::missing) [[unlikely]] {
    finding_ = Finding();
    finding_->what = lines == RegionChannel::Lines::outside    ? Finding::What::outside
                     : lines == RegionChannel::Lines::unmapped ? Finding::What::unmapped
                                                               : Finding::What::line;
    finding_->rank = ranks[op.program.at];
  }
  return false;
}

/// True once the calls of all ranks are known to be equal: by tokens, or, on one host, by lines.
bool Interpreter::strictly_agreed(Op& op) {
  if (op.agreement.uses_tokens) return op.agreement.has_all_tokens(op.group->size);
  return await_lines(op, RankRow(op.group->size));
}

/// An output of blocks from many ranks depends on all of them. So no block is used, and our own is
/// not copied, before a frame of each rank was compared. Until then frames are held, and no credit
/// is given, so they are few. Once all are compared, this delivers the held frames. False: not yet,
/// or there is a finding.
bool Interpreter::release_deferred(Op& op) {
  for (int rank = 0; rank < op.group->size; ++rank) {
    if (must_hear(op, rank)) return false;
  }
  op.streams.deferred = false;
  for (int rank = 0; rank < op.group->size; ++rank) {
    if (rank != op.group->rank && !deliver_held(op, rank)) return false;
  }
  return true;
}

void Interpreter::post_send(Op& op, const Step& step) {
  const plan::Range range =
      plan::range_of(step.src, op.plan->binding, op.program.var[0], op.program.var[1]);
  if (range.count == 0 && !op.plan->splits) return;
  channel_.post_send(op.streams, peer_of(step, op), post_of(op, step.src, range),
                     range.count * op.plan->binding.element);
}

bool Interpreter::post_receive(Op& op, const Step& step) {
  const plan::Range range =
      plan::range_of(step.dst, op.plan->binding, op.program.var[0], op.program.var[1]);
  const int rank = peer_of(step, op);
  // Also posts an empty receive, because await_receives counts posts.
  channel_.post_receive(op.streams, rank, post_of(op, step.dst, range),
                        range.count * op.plan->binding.element);
  return (range.count == 0 && !op.plan->splits) || deliver_held(op, rank);
}

bool Interpreter::await_receives(Op& op, const Step& step) noexcept {
  const RankRow ranks = row_of(step.ranks, op);
  for (; op.program.at < ranks.count; ++op.program.at) {
    const int rank = ranks[op.program.at];
    if (rank != op.group->rank && !has_received(op, step, rank)) return false;
  }
  op.program.at = 0;
  return true;
}

bool Interpreter::deliver_held(Op& op, int rank) {
  const std::optional<DataFrame> other = channel_.deliver_held(op.streams, rank);
  if (!other) return true;
  const bool call_differs = other->fingerprint != op.fingerprint;
  finding_ = Finding{call_differs ? Finding::What::frame : Finding::What::splits, rank, *other};
  return false;
}

Interpreter::Finding Interpreter::take_finding() noexcept {
  const Finding finding = *finding_;
  finding_.reset();
  return finding;
}

void Interpreter::blocked_on(const Op& op, std::vector<int>& ranks) {
  Group& group = *op.group;
  ranks.clear();
  if (op.agreement.disagreeing_rank >= 0) {
    ranks.push_back(op.agreement.disagreeing_rank);  // it was asked how its calls differ
    return;
  }
  const auto add_if = [&](auto missing) {
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank != group.rank && missing(rank)) ranks.push_back(rank);
    }
  };
  const Step* const step = step_of(op);
  if (op.streams.deferred) {
    add_if([&](int rank) { return must_hear(op, rank); });
    if (!ranks.empty()) return;
  }
  if (step == nullptr) {
    if (op.streams.is_open()) add_if([&](int rank) { return !op.streams[rank].all_sent(); });
    if (op.region.lends) {
      add_if([&](int rank) {
        const Member& member = group.member(rank);
        return member.block == nullptr || passed_by(*member.block) < op.seq;
      });
    }
    return;
  }
  const RankRow row = row_of(step->ranks, op);
  const auto add_behind = [&](auto is_there) {  // only ranks for which the step still waits
    for (int i = op.program.at; i < row.count; ++i) {
      if (row[i] != group.rank && !is_there(row[i])) ranks.push_back(row[i]);
    }
  };
  switch (step->kind) {
    case StepKind::agree:
      if (op.agreement.uses_tokens) {
        if (!op.agreement.has_all_tokens(op.group->size))
          ranks.push_back(op.agreement.token_from(group.rank, group.size));
      } else if (group.strict) {
        add_if([&](int rank) {
          return !RegionChannel::has_arrived(group, group.member(rank), op.region);
        });
      }
      break;
    case StepKind::await_line:
      add_behind([&](int rank) {
        return RegionChannel::has_arrived(group, group.member(rank), op.region);
      });
      break;
    case StepKind::await:
      add_behind([&](int rank) {
        return RegionChannel::has_signalled(group, group.member(rank), op.region, step->counter,
                                            value_of(*step, op));
      });
      break;
    case StepKind::await_recv:
      add_behind([&](int rank) { return has_received(op, *step, rank); });
      break;
    default: break;
  }
}

bool Interpreter::waits_for_frames(const Op& op) noexcept {
  const Step* const step = step_of(op);
  return op.streams.deferred || op.agreement.uses_tokens ||
         (step != nullptr && step->kind == StepKind::await_recv);
}

}  // namespace tutti::engine
