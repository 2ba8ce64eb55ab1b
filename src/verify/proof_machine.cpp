#include "verify/proof_machine.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/index.hpp"

namespace tutti::verify::proof {

using namespace plan;

namespace {

constexpr std::uint64_t kMaxSteps = 1'000'000;  // more is no end
constexpr std::size_t kElementBytes = 64;

}  // namespace

Machine::Machine(std::span<const Schedule> all, const ProofCase& c, const Claims& claims,
                 std::vector<int> winner)
    : size_(static_cast<int>(all.size())),
      case_(c),
      claims_(claims),
      winner_(std::move(winner)),
      ranks_(all.size()),
      sums_(size_) {
  for (int r = 0; r < size_; ++r) set_up(r, all);
}

void Machine::set_up(int r, std::span<const Schedule> all) {
  const auto n = base::as_size(size_);
  Rank& rank = base::at(ranks_, r);
  const Schedule& s = base::at(all, r);
  rank.schedule = &s;
  rank.binding = {case_.count, kElementBytes, s.chunk_bytes > 0 ? case_.chunk : 0, case_.align, {},
                  {}};
  if (has_blocks(s.kind)) set_up_blocks(r);
  rank.slot = slot_bytes(s, rank.binding) / kElementBytes;
  rank.clock.assign(n, 0);
  base::at(rank.clock, r) = 1;
  rank.known.assign(n, false);
  base::at(rank.known, r) = true;
  rank.line_seen.assign(n, false);
  rank.from.resize(n);
  rank.cycle = cycle_of(s, rank.binding);
  rank.stage.resize(base::as_size(std::max(stage_slots_of(s, rank.binding), 0)) * rank.slot);
  rank.scratch.resize(base::as_size(std::max(s.scratch_slots, 0)) * rank.slot);
  if (s.kind == Kind::barrier) {  // tokens: nobody looks at them
    for (Cell& cell : rank.scratch) cell = {r, 0, r, 1, -1};
  }
  set_up_memory(r);
}

std::vector<Finding> Machine::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < size_; ++r) moved |= advance(r);
  }
  check_end();
  return std::move(findings_);
}

bool Machine::advance(int r) {
  Rank& rank = base::at(ranks_, r);
  bool moved = false;
  while (!rank.failed && rank.pc < rank.schedule->steps.size()) {
    const Step& step = rank.schedule->steps[rank.pc];
    memory_.set_step(rank.pc);
    if (++rank.done > kMaxSteps) {
      tell(Fault::malformed, r, "does not end");
      rank.failed = true;
      break;
    }
    if (!execute(r, step)) return moved;
    moved = true;
  }
  return moved;
}

bool Machine::execute(int r, const Step& step) {
  Rank& rank = base::at(ranks_, r);
  waits_for_ = -1;
  switch (step.kind) {
    case StepKind::publish: rank.line.push_back(release(r)); break;
    case StepKind::await_line:
      if (!await_lines(r, step)) return false;
      break;
    case StepKind::agree: rank.agreed = true; break;
    case StepKind::copy: copy(r, step); break;
    case StepKind::reduce: reduce(r, step); break;
    case StepKind::signal: signal(r, step); break;
    case StepKind::await:
      if (!await_counters(r, step)) return false;
      break;
    case StepKind::claim: return claim(r, step);
    case StepKind::send: send(r, step); break;
    case StepKind::recv: receive(r, step); break;
    case StepKind::await_recv:
      if (!await_receives(r, step)) return false;
      break;
    case StepKind::jump:
    case StepKind::loop:
    case StepKind::end_loop:
      base::at(ranks_, r).pass(step, base::at(ranks_, r).binding);
      return true;
  }
  ++rank.pc;
  return true;
}

std::int64_t Machine::at(int r, const Expr& e) const {
  const Rank& rank = base::at(ranks_, r);
  return e.at(rank.var[0], rank.var[1]);
}

int Machine::rank_at(int r, const Expr& e) const { return member(r, {e, 1, 1}, 0); }

int Machine::member(int r, const RankSet& set, int index) const {
  const std::int64_t value = (at(r, set.first) + std::int64_t{index} * set.stride) % size_;
  return static_cast<int>(value < 0 ? value + size_ : value);
}

Range Machine::range(int r, const Operand& operand) const {
  const Rank& rank = base::at(ranks_, r);
  return range_of(operand, rank.binding, rank.var[0], rank.var[1]);
}

Machine::Release Machine::release(int r) {
  Rank& rank = base::at(ranks_, r);
  Release out{0, rank.clock, rank.known};
  ++base::at(rank.clock, r);  // what is done from now on is not in it
  return out;
}

void Machine::acquire(int r, int from, const Release& release, bool compared) {
  Rank& rank = base::at(ranks_, r);
  join(rank.clock, release.clock);
  // A counter carries no fingerprint. But where we agree with one of those that its writer agrees
  // with, we agree with them all: a rank that finds a difference signals no more.
  if (!compared) {
    for (std::size_t q = 0; q < rank.known.size() && !compared; ++q) {
      compared = rank.known[q] && release.known[q];
    }
  }
  if (!compared) return;
  base::at(rank.known, from) = true;
  join(rank.known, release.known);
}

bool Machine::await_lines(int r, const Step& step) {
  Rank& rank = base::at(ranks_, r);
  for (int k = 0; k < step.ranks.count; ++k) {
    const int q = member(r, step.ranks, k);
    if (q != r && base::at(ranks_, q).line.empty()) {
      waits_for_ = q;
      return false;
    }
  }
  for (int k = 0; k < step.ranks.count; ++k) {
    const int q = member(r, step.ranks, k);
    if (q == r) continue;
    acquire(r, q, base::at(ranks_, q).line.front(), true);
    base::at(rank.line_seen, q) = true;
  }
  return true;
}

bool Machine::await_counter(int r, const Step& step, int of, std::int64_t value) {
  if (of == r || value <= 0) return true;
  const auto& history = base::at(ranks_, of).counters[step.counter];
  // Not the latest value but the first that is enough: more is not certain to be seen.
  const auto found = std::find_if(history.begin(), history.end(),
                                  [&](const Release& a) { return a.value >= value; });
  if (found == history.end()) {
    waits_for_ = of;
    return false;
  }
  acquire(r, of, *found, false);
  return true;
}

bool Machine::await_counters(int r, const Step& step) {
  const std::int64_t value = at(r, step.value);
  for (int k = 0; k < step.ranks.count; ++k) {
    if (!await_counter(r, step, member(r, step.ranks, k), value)) return false;
  }
  return true;
}

bool Machine::claim(int r, const Step& step) {
  Rank& rank = base::at(ranks_, r);
  const int winner = winner_.empty() ? -1 : base::at(winner_, r);
  bool asked = false;
  for (int k = 0; k < step.ranks.count; ++k) asked |= member(r, step.ranks, k) == winner;
  if (winner < 0 || winner == r || !asked) {
    ++rank.pc;
    return true;
  }
  // This outcome exists only where the winner has signalled before.
  if (!await_counter(r, step, winner, at(r, step.value))) return false;
  rank.found = winner;
  rank.pc = base::as_size(step.jump);
  return true;
}

void Machine::signal(int r, const Step& step) {
  Rank& rank = base::at(ranks_, r);
  const std::int64_t value = at(r, step.value);
  if (value <= 0) return;
  auto& history = rank.counters[step.counter];
  if (!history.empty() && history.back().value >= value) {
    tell(Fault::counter_falls, r,
         base::format("counter {} from {} to {}", step.counter, history.back().value, value));
    return;
  }
  history.push_back(release(r));
  history.back().value = value;
}

}  // namespace tutti::verify::proof
