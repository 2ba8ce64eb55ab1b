#include <fmt/format.h>

#include <algorithm>

#include "plan/proof_machine.hpp"

// What must hold at the end, and how it is told.
namespace tutti::plan::proof {
namespace {

constexpr std::size_t kMaxFindings = 50;

bool on_region(StepKind kind) {
  return kind == StepKind::publish || kind == StepKind::await_line || kind == StepKind::signal ||
         kind == StepKind::await || kind == StepKind::claim;
}

bool on_messages(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv || kind == StepKind::await_recv;
}

/// The numbers of loops that each step stands in; empty where loops are not well nested.
std::vector<int> depths(const Schedule& s) {
  std::vector<int> depth(s.steps.size() + 1, 0);
  std::vector<std::size_t> open;
  for (std::size_t at = 0; at < s.steps.size(); ++at) {
    depth[at] = static_cast<int>(open.size());
    const Step& step = s.steps[at];
    if (step.kind == StepKind::loop) {
      open.push_back(at);
      if (open.size() > 2) return {};
    } else if (step.kind == StepKind::end_loop) {
      if (open.empty() || s.steps[open.back()].jump != static_cast<std::int32_t>(at) + 1) return {};
      open.pop_back();
    }
  }
  return open.empty() ? depth : std::vector<int>{};
}

}  // namespace

std::vector<Finding> check_form(const Schedule& s, int rank, int size) {
  std::vector<Finding> found;
  const auto tell = [&](Fault kind, std::string text) {
    found.push_back(
        {kind, rank,
         fmt::format("{}: rank {} of {}: {}", to_string(kind), rank, s.algorithm, text)});
  };
  if (s.rank != rank || s.size != size) tell(Fault::malformed, "made for another rank");
  const std::vector<int> depth = depths(s);
  if (depth.empty()) {
    tell(Fault::malformed, "loops astray");
    return found;
  }
  if (s.slot_cycle > 0 && s.stage_slots % s.slot_cycle != 0) {
    tell(Fault::malformed, "slots are no multiple of their cycle");
  }
  int published = 0;
  int agreed = 0;
  for (std::size_t at = 0; at < s.steps.size(); ++at) {
    const Step& step = s.steps[at];
    published += step.kind == StepKind::publish ? 1 : 0;
    agreed += step.kind == StepKind::agree ? 1 : 0;
    if ((on_region(step.kind) && !s.region) || (on_messages(step.kind) && !s.messages)) {
      tell(Fault::malformed, fmt::format("step {} is excluded by its flags", at));
    }
    if (step.counter >= kCounters)
      tell(Fault::out_of_bounds, fmt::format("counter at step {}", at));
    if (step.kind == StepKind::reduce && step.ranks.count < 1) {
      tell(Fault::malformed, fmt::format("step {} reduces nothing", at));
    }
    if (step.kind == StepKind::claim || step.kind == StepKind::jump) {
      const bool inside = step.jump >= 0 && static_cast<std::size_t>(step.jump) <= s.steps.size();
      if (!inside || depth[at] != 0 || depth[static_cast<std::size_t>(step.jump)] != 0) {
        tell(Fault::malformed, fmt::format("step {} jumps astray", at));
      }
    }
  }
  if (s.region && published != 1) {
    tell(Fault::missing_publish, fmt::format("publishes {} times", published));
  }
  if (agreed == 0) tell(Fault::before_agree, "has no step agree");
  return found;
}

void Machine::tell(Fault kind, int r, const std::string& text) {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  if (findings_.size() >= kMaxFindings) return;
  if (!told_.emplace(kind, r, rank.pc).second) return;
  const auto& steps = rank.schedule->steps;
  const std::string where = rank.pc < steps.size()
                                ? fmt::format("step {} ({})", rank.pc, to_text(steps[rank.pc]))
                                : "end";
  findings_.push_back({kind, r,
                       fmt::format("{}: rank {} of {}, {}, i={} j={}: {}", to_string(kind), r,
                                   size_, where, rank.var[0], rank.var[1], text)});
}

void Machine::tell(const std::vector<Memory::Race>& races, int r) {
  for (const Memory::Race& race : races) {
    tell(race.kind, r, fmt::format("element {}, against rank {}", race.element, race.other));
  }
}

void Machine::check_end() {
  // Who waits for a rank that could not go on is no fault of its own.
  const bool failed =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.failed; });
  bool ended = !failed;
  for (int r = 0; r < size_ && !failed; ++r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.pc >= rank.schedule->steps.size()) continue;
    ended = false;
    const Step& step = rank.schedule->steps[rank.pc];
    (void)execute(r, step);  // says for whom it waits
    if (waits_for_ < 0) continue;
    const Rank& other = ranks_[static_cast<std::size_t>(waits_for_)];
    tell(Fault::deadlock, r,
         fmt::format(
             "waits for rank {}, {}", waits_for_,
             other.pc >= other.schedule->steps.size() ? "which has ended" : "which waits itself"));
  }
  for (const Memory::Doubt& doubt : memory_.doubts()) {
    if (doubt.settled || findings_.size() >= kMaxFindings) continue;
    if (!told_.emplace(doubt.kind, doubt.rank, doubt.step).second) continue;
    const auto& steps = ranks_[static_cast<std::size_t>(doubt.rank)].schedule->steps;
    findings_.push_back(
        {doubt.kind, doubt.rank,
         fmt::format("{}: rank {} of {}, step {} ({}): element {}", to_string(doubt.kind),
                     doubt.rank, size_, doubt.step, to_text(steps[doubt.step]), doubt.element)});
  }
  if (!ended) return;
  for (int r = 0; r < size_; ++r) {
    check_messages(r);
    check_output(r);
    check_barrier(r);
  }
}

void Machine::check_messages(int r) {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  for (int q = 0; q < size_; ++q) {
    const Inbox& inbox = rank.from[static_cast<std::size_t>(q)];
    if (inbox.received < inbox.messages.size()) {
      tell(Fault::unmatched_message, r,
           fmt::format("{} of {} messages of rank {} are never taken",
                       inbox.messages.size() - inbox.received, inbox.messages.size(), q));
    }
    for (std::size_t p = inbox.completed; p < inbox.posts.size(); ++p) {
      if (inbox.posts[p].place.count == 0) continue;
      tell(Fault::unmatched_message, r, fmt::format("a receive from rank {} is never awaited", q));
    }
  }
}

void Machine::check_output(int r) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const Schedule& s = *rank.schedule;
  if (s.kind == Kind::barrier || (s.kind == Kind::broadcast && r == s.root)) return;
  const std::vector<Cell>& cells = case_.in_place ? rank.input : rank.output;
  const int wanted = s.kind == Kind::broadcast ? s.root : sums_.all_ranks();
  const std::vector<int> wanted_inputs = sums_.inputs_of(wanted);
  for (std::size_t e = 0; e < cells.size(); ++e) {
    const Cell& cell = cells[e];
    if (!rank.written[e]) {
      tell(Fault::not_written, r, fmt::format("element {}", e));
      continue;
    }
    if (cell.sum == wanted || cell.sum == Sums::kUndefined) continue;  // undefined: told before
    const std::vector<int> inputs = sums_.inputs_of(cell.sum);
    if (inputs == wanted_inputs) {
      if (s.order == OrderClass::binomial) {
        tell(Fault::wrong_order, r, fmt::format("element {} is added in another order", e));
      }
      continue;
    }
    for (std::size_t q = 0; q < inputs.size(); ++q) {
      if (inputs[q] == wanted_inputs[q]) continue;
      tell(inputs[q] > wanted_inputs[q] ? Fault::added_twice : Fault::not_added, r,
           fmt::format("element {} holds the input of rank {} {} times", e, q, inputs[q]));
    }
  }
}

void Machine::check_barrier(int r) {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  if (rank.schedule->kind != Kind::barrier) return;
  for (std::size_t q = 0; q < rank.clock.size(); ++q) {
    if (rank.clock[q] == 0) {
      tell(Fault::left_early, r, fmt::format("rank {} may not have come yet", q));
    } else if (!rank.known[q]) {
      tell(Fault::not_compared, r, fmt::format("rank {} may do something else", q));
    }
  }
}

}  // namespace tutti::plan::proof
