#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <set>
#include <string_view>
#include <vector>

#include "plan/program.hpp"
#include "proof_cases.hpp"

// Right schedules with one thing made wrong. The prover must say of each what it is.
namespace tutti::verify::planted {

using plan::Expr;
using plan::Schedule;
using plan::Shape;
using plan::Step;
using plan::StepKind;

using All = std::vector<Schedule>;

inline constexpr int kRanks = 4;
// Seven chunks of eight elements: every slot is used again, every rank has a part of each chunk.
inline constexpr ProofCase kCase{56, 8, 1, false};
inline constexpr ProofCase kInPlace{56, 8, 1, true};
inline constexpr ProofCase kOfABarrier{1, 0, 1, false};
inline constexpr ProofCase kUneven{9, 0, 1, false, 3};
inline constexpr Claims kSinglePass{true, false};
inline constexpr Claims kAnySplits{false, true};

/// Index of the n-th step of a kind.
inline std::size_t index_of(const Schedule& s, StepKind kind, int n = 0) {
  for (std::size_t at = 0; at < s.steps.size(); ++at) {
    if (s.steps[at].kind == kind && n-- == 0) return at;
  }
  ADD_FAILURE() << "no such step";
  return 0;
}

inline Step& nth(Schedule& s, StepKind kind, int n = 0) { return s.steps[index_of(s, kind, n)]; }

inline void move_targets(Schedule& s, std::size_t from, std::int32_t by) {
  for (Step& step : s.steps) {
    if (step.jump > static_cast<std::int32_t>(from)) step.jump += by;
  }
}

inline Step take_out(Schedule& s, StepKind kind, int n = 0) {
  const std::size_t at = index_of(s, kind, n);
  Step step = s.steps[at];
  s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(at));
  move_targets(s, at, -1);
  return step;
}

inline void put_in(Schedule& s, std::size_t at, const Step& step) {
  move_targets(s, at, 1);
  s.steps.insert(s.steps.begin() + static_cast<std::ptrdiff_t>(at), step);
}

inline Step made(StepKind kind) {
  Step step;
  step.kind = kind;
  return step;
}

/// Makes the schedules wrong.
using Plant = std::function<void(All& all)>;

/// Takes a step out of the schedule of a rank.
inline Plant without(std::size_t rank, StepKind kind, int n = 0) {
  return [=](All& all) { take_out(all[rank], kind, n); };
}
/// Moves the first step of a kind before the n-th one of another kind.
inline Plant moved(std::size_t rank, StepKind kind, StepKind before, int n = 0) {
  return [=](All& all) {
    const Step step = take_out(all[rank], kind);
    put_in(all[rank], index_of(all[rank], before, n), step);
  };
}
inline Plant moved_to_end(std::size_t rank, StepKind kind) {
  return [=](All& all) { all[rank].steps.push_back(take_out(all[rank], kind)); };
}
/// Changes the n-th step of a kind.
inline Plant changed(std::size_t rank, StepKind kind, int n,
                     const std::function<void(Step&)>& how) {
  return [=](All& all) { how(nth(all[rank], kind, n)); };
}
inline Plant changed(std::size_t rank, StepKind kind, const std::function<void(Step&)>& how) {
  return changed(rank, kind, 0, how);
}
/// A rank copies a block of its input into its output at the end.
inline Plant block_copied(std::size_t rank) {
  return [=](All& all) {
    Step& copy = all[rank].steps.emplace_back(made(StepKind::copy));
    copy.src = input(plan::block(1));
    copy.dst = output(plan::block(1));
  };
}
/// Changes all schedules.
inline Plant each(const std::function<void(Schedule&)>& how) {
  return [=](All& all) {
    for (Schedule& s : all) how(s);
  };
}
/// Other slots are used in turn than were.
inline Plant with_slots(int from, int to) {
  return each([=](Schedule& s) {
    for (Step& step : s.steps) {
      for (Expr* slot : {&step.dst.slot, &step.src.slot}) {
        if (slot->mod == from) slot->mod = to;
      }
    }
  });
}
inline void claim_the_tree(All& all) {
  for (Schedule& s : all) s.order = plan::OrderClass::binomial;
}

/// The fault that the prover must tell, and those that follow from it and may be told too.
struct Told {
  template <class... Follows>
  Told(Fault what, Follows... what_follows) : fault(what), follows{what_follows...} {}
  Fault fault;
  std::set<Fault> follows;
};

struct Planted {
  std::string_view name;
  Schedule (*build)(const Shape&);
  Plant plant;
  Told told;
  ProofCase c = kCase;
  Claims claims = {};
};

inline std::ostream& operator<<(std::ostream& out, const Planted& p) { return out << p.name; }

}  // namespace tutti::verify::planted
