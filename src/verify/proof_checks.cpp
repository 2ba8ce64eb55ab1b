#include <algorithm>

#include <tutti/backend/kinds.hpp>
#include "base/format.hpp"
#include "base/index.hpp"
#include "verify/proof_machine.hpp"
#include "verify/text.hpp"

// The checks at the end, and the texts of their findings.
namespace tutti::verify::proof {

using namespace plan;

namespace {

constexpr std::size_t kMaxFindings = 50;

bool on_region(StepKind kind) {
  return kind == StepKind::publish || kind == StepKind::await_line || kind == StepKind::signal ||
         kind == StepKind::await || kind == StepKind::claim;
}

bool on_messages(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv || kind == StepKind::await_recv;
}

/// Does the step use this operand?
bool touches(const Step& step, bool dst) {
  switch (step.kind) {
    case StepKind::copy:
    case StepKind::reduce: return true;
    case StepKind::send: return !dst;
    case StepKind::recv: return dst;
    default: return false;
  }
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
         base::format("{}: rank {} of {}: {}", to_string(kind), rank, s.algorithm, text)});
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
      tell(Fault::malformed, base::format("step {} is excluded by its flags", at));
    }
    if (step.counter >= kCounters)
      tell(Fault::out_of_bounds, base::format("counter at step {}", at));
    for (const Operand* o : {&step.dst, &step.src}) {
      const bool by_block =
          o->slice.shape == Slice::Shape::block || o->slice.shape == Slice::Shape::block_chunk;
      const bool users = o->space == Space::input || o->space == Space::output;
      const bool bound = users || traits_of(s.kind).layout == Layout::exchange;
      if (has_blocks(s.kind) && touches(step, o == &step.dst) && bound && !by_block) {
        tell(Fault::malformed, base::format("step {} does not say which block", at));
      }
    }
    if (step.kind == StepKind::reduce && step.ranks.count < 1) {
      tell(Fault::malformed, base::format("step {} reduces nothing", at));
    }
    if (step.kind == StepKind::claim || step.kind == StepKind::jump) {
      const bool inside = step.jump >= 0 && base::as_size(step.jump) <= s.steps.size();
      if (!inside || depth[at] != 0 || base::at(depth, step.jump) != 0) {
        tell(Fault::malformed, base::format("step {} jumps astray", at));
      }
    }
  }
  if (s.region && published != 1) {
    tell(Fault::missing_publish, base::format("publishes {} times", published));
  }
  if (agreed == 0) tell(Fault::before_agree, "has no step agree");
  return found;
}

std::vector<Finding> check_any_splits(const Schedule& s) {
  std::vector<Finding> found;
  const auto tell = [&](std::size_t at, std::string_view text) {
    found.push_back({Fault::splits_used, s.rank,
                     base::format("{}: rank {} of {}, step {}: {}", to_string(Fault::splits_used),
                                  s.rank, s.algorithm, at, text)});
  };
  const KindTraits& traits = traits_of(s.kind);
  const bool gathers = traits.layout == Layout::gather;
  const bool scatters = traits.layout == Layout::scatter;
  const auto n = base::as_size(s.size);
  std::vector<int> sent(n, 0);
  std::vector<int> received(n, 0);
  const auto me = base::as_size(s.rank);
  int copied = 0;
  bool awaited = false;
  const auto look = [&](std::size_t at, std::int64_t i, std::int64_t j) {
    const Step& step = s.steps[at];
    const auto peer = base::as_size((step.peer.at(i, j) % s.size + s.size) % s.size);
    const auto is_block = [&](const Operand& o, Space space, std::size_t of) {
      return o.space == space && o.slice.shape == Slice::Shape::block &&
             o.slice.part.at(i, j) == static_cast<std::int64_t>(of);
    };
    switch (step.kind) {
      case StepKind::agree:
      case StepKind::loop:
      case StepKind::end_loop: return;
      case StepKind::await_recv: awaited = true; return;
      case StepKind::recv:
        ++received[peer];
        if (awaited) tell(at, "posted after waiting");
        if (!is_block(step.dst, Space::output, scatters ? me : peer))
          tell(at, "not the block of its sender");
        return;
      case StepKind::send:
        ++sent[peer];
        if (!is_block(step.src, Space::input, gathers ? me : peer))
          tell(at, "not the block of its receiver");
        return;
      case StepKind::copy: {
        ++copied;
        if (!is_block(step.dst, Space::output, me) || !is_block(step.src, Space::input, me)) {
          tell(at, "not the own block");
        }
        return;
      }
      default: tell(at, "a step that needs to know more");
    }
  };
  // One loop deep, each a constant number of times: anything else looks at sizes.
  for (std::size_t at = 0; at < s.steps.size(); ++at) {
    if (s.steps[at].kind != StepKind::loop) {
      look(at, 0, 0);
      continue;
    }
    if (s.steps[at].times.of != Times::Of::constant) tell(at, "as often as there are chunks");
    const auto behind = base::as_size(s.steps[at].jump);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(s.steps[at].times.plus, s.size); ++i) {
      for (std::size_t inside = at + 1; inside + 1 < behind; ++inside) look(inside, i, 0);
    }
    at = behind - 1;
  }
  for (std::size_t q = 0; q < n; ++q) {
    const bool other = q != me;
    const bool sends = gathers ? base::as_size(s.root) == q : !scatters || s.rank == s.root;
    const bool receives = scatters ? base::as_size(s.root) == q : !gathers || s.rank == s.root;
    if (sent[q] != (other && sends ? 1 : 0) || received[q] != (other && receives ? 1 : 0))
      tell(s.steps.size(), "not once for each peer");
  }
  if (copied != (!traits.rooted || s.rank == s.root ? 1 : 0))
    tell(s.steps.size(), "the own block is not copied once");
  return found;
}

void Machine::tell(Fault kind, int r, const std::string& text) {
  const Rank& rank = base::at(ranks_, r);
  if (findings_.size() >= kMaxFindings) return;
  if (!told_.emplace(kind, r, rank.pc).second) return;
  const auto& steps = rank.schedule->steps;
  const std::string where = rank.pc < steps.size()
                                ? base::format("step {} ({})", rank.pc, to_text(steps[rank.pc]))
                                : "end";
  findings_.push_back({kind, r,
                       base::format("{}: rank {} of {}, {}, i={} j={}: {}", to_string(kind), r,
                                    size_, where, rank.var[0], rank.var[1], text)});
}

void Machine::tell(const std::vector<Memory::Race>& races, int r) {
  for (const Memory::Race& race : races) {
    tell(race.kind, r, base::format("element {}, against rank {}", race.element, race.other));
  }
}

void Machine::check_end() {
  // A rank that waits for one that could not go on is no finding of its own.
  const bool failed =
      std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.failed; });
  bool ended = !failed;
  for (int r = 0; r < size_ && !failed; ++r) {
    Rank& rank = base::at(ranks_, r);
    if (rank.pc >= rank.schedule->steps.size()) continue;
    ended = false;
    const Step& step = rank.schedule->steps[rank.pc];
    (void)execute(r, step);  // says for which rank it waits
    if (waits_for_ < 0) continue;
    const Rank& other = base::at(ranks_, waits_for_);
    tell(Fault::deadlock, r,
         base::format(
             "waits for rank {}, {}", waits_for_,
             other.pc >= other.schedule->steps.size() ? "which has ended" : "which waits itself"));
  }
  for (const Memory::Doubt& doubt : memory_.doubts()) {
    if (doubt.settled || findings_.size() >= kMaxFindings) continue;
    if (!told_.emplace(doubt.kind, doubt.rank, doubt.step).second) continue;
    const auto& steps = base::at(ranks_, doubt.rank).schedule->steps;
    findings_.push_back(
        {doubt.kind, doubt.rank,
         base::format("{}: rank {} of {}, step {} ({}): element {}", to_string(doubt.kind),
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
  const Rank& rank = base::at(ranks_, r);
  for (int q = 0; q < size_; ++q) {
    const Inbox& inbox = base::at(rank.from, q);
    if (inbox.received < inbox.messages.size()) {
      tell(Fault::unmatched_message, r,
           base::format("{} of {} messages of rank {} are never taken",
                        inbox.messages.size() - inbox.received, inbox.messages.size(), q));
    }
    for (std::size_t p = inbox.completed; p < inbox.posts.size(); ++p) {
      if (inbox.posts[p].place.count == 0) continue;
      tell(Fault::unmatched_message, r, base::format("a receive from rank {} is never awaited", q));
    }
  }
}

void Machine::check_output(int r) {
  Rank& rank = base::at(ranks_, r);
  const Schedule& s = *rank.schedule;
  if (!rank.has_output) return;
  const std::size_t first = first_element(s.kind, Space::output, r, rank.binding);
  const Place place = user_memory(r, Space::output, {first, rank.written.size()});
  const bool by_block = !traits_of(s.kind).reduces && has_blocks(s.kind) && s.kind != Kind::scatter;
  const RankRange from = ranks_in_result(s.kind, r, s.root, size_);
  const int combined = sums_.first_ranks(from.count);
  int block = -1;
  std::size_t block_end = 0;
  int inputs_of = Sums::kUndefined;
  std::vector<int> inputs;
  for (std::size_t e = 0; e < rank.written.size(); ++e) {
    while (by_block && e >= block_end) {
      const Range range = rank.binding.out.range(++block);
      block_end = range.first + range.count;
    }
    const int wanted = traits_of(s.kind).reduces ? combined : by_block ? block : from.first;
    const Cell& cell = (*place.cells)[place.at + e];
    if (!rank.written[e]) {
      tell(Fault::not_written, r, base::format("element {}", first + e));
      continue;
    }
    const int sum = sums_.undivided(cell.sum);               // wrongly or not: told before
    if (sum == wanted || sum == Sums::kUndefined) continue;  // undefined: told before
    if (sum != inputs_of) {
      inputs_of = sum;
      inputs = sums_.inputs_of(sum);
    }
    const std::vector<int> wanted_inputs = sums_.inputs_of(wanted);
    if (inputs == wanted_inputs) {
      if (s.order == OrderClass::binomial) {
        tell(Fault::wrong_order, r, base::format("element {} is added in another order", e));
      }
      continue;
    }
    for (std::size_t q = 0; q < inputs.size(); ++q) {
      if (inputs[q] == wanted_inputs[q]) continue;
      tell(inputs[q] > wanted_inputs[q] ? Fault::added_twice : Fault::not_added, r,
           base::format("element {} holds the input of rank {} {} times", e, q, inputs[q]));
    }
  }
}

void Machine::check_barrier(int r) {
  const Rank& rank = base::at(ranks_, r);
  if (rank.schedule->kind != Kind::barrier) return;
  for (std::size_t q = 0; q < rank.clock.size(); ++q) {
    if (rank.clock[q] == 0) {
      tell(Fault::left_early, r, base::format("rank {} may not have come yet", q));
    } else if (!rank.known[q]) {
      tell(Fault::not_compared, r, base::format("rank {} may do something else", q));
    }
  }
}

}  // namespace tutti::verify::proof
