#include "verify/prover.hpp"

#include <algorithm>

#include <tutti/backend/kinds.hpp>
#include "base/index.hpp"
#include "verify/proof_machine.hpp"

namespace tutti::verify {

using namespace plan;

namespace {

bool has_claim(const Schedule& s) {
  return std::any_of(s.steps.begin(), s.steps.end(),
                     [](const Step& step) { return step.kind == StepKind::claim; });
}

/// The winner that each rank's claim finds, in each execution (-1: none). All compute for
/// themselves; or one rank computes for all; or two compute, and the others take the result from
/// one or the other (in large groups not for every pair).
std::vector<std::vector<int>> outcomes(int size) {
  const auto n = base::as_size(size);
  std::vector<std::vector<int>> all{std::vector<int>(n, -1)};
  for (int w = 0; w < size; ++w) {
    std::vector<int> one(n, w);
    base::at(one, w) = -1;
    all.push_back(one);
    if (size < 3 || (size > 8 && w % 4 != 0)) continue;
    const int second = (w + 1) % size;
    for (int r = 0; r < size; r += 2) base::at(one, r) = second;
    base::at(one, w) = -1;
    base::at(one, second) = -1;
    all.push_back(one);
  }
  return all;
}

void append(std::vector<Finding>& found, const std::vector<Finding>& more) {
  found.insert(found.end(), more.begin(), more.end());
}

}  // namespace

std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::malformed: return "malformed";
    case Fault::missing_publish: return "missing publish";
    case Fault::deadlock: return "deadlock";
    case Fault::early_read: return "early read";
    case Fault::early_reuse: return "early reuse";
    case Fault::unordered_writes: return "unordered writes";
    case Fault::undefined_read: return "undefined read";
    case Fault::wrong_element: return "wrong element";
    case Fault::added_twice: return "added twice";
    case Fault::not_added: return "not added";
    case Fault::wrong_order: return "wrong order";
    case Fault::not_written: return "not written";
    case Fault::not_divided: return "not divided";
    case Fault::divided_wrongly: return "divided wrongly";
    case Fault::several_passes: return "several passes";
    case Fault::splits_used: return "splits used";
    case Fault::input_touched: return "input touched";
    case Fault::output_touched: return "output touched";
    case Fault::before_agree: return "before agree";
    case Fault::not_compared: return "not compared";
    case Fault::left_early: return "left early";
    case Fault::out_of_bounds: return "out of bounds";
    case Fault::foreign_write: return "foreign write";
    case Fault::stage_unknown: return "stage unknown";
    case Fault::counter_falls: return "counter falls";
    case Fault::unmatched_message: return "unmatched message";
    case Fault::size_mismatch: return "size mismatch";
    case Fault::wrong_symmetry: return "wrong symmetry";
  }
  return "?";
}

bool has_blocks(Kind kind) noexcept {
  const Layout layout = traits_of(kind).layout;
  return layout == Layout::gather || layout == Layout::scatter || layout == Layout::exchange;
}

std::vector<Finding> prove(std::span<const Schedule> all, const ProofCase& c,
                           const Claims& claims) {
  std::vector<Finding> found;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::vector<Finding> more =
        proof::check_form(all[r], static_cast<int>(r), static_cast<int>(all.size()));
    append(found, more);
    if (more.empty() && claims.any_splits) append(found, proof::check_any_splits(all[r]));
  }
  if (!found.empty()) return found;
  if (std::none_of(all.begin(), all.end(), has_claim)) {
    found = proof::Machine(all, c, claims, {}).run();
  } else {
    for (const std::vector<int>& winner : outcomes(static_cast<int>(all.size()))) {
      found = proof::Machine(all, c, claims, winner).run();
      if (!found.empty()) break;
    }
  }
  return found;
}

std::vector<Schedule> build_all(Schedule (*build)(const Shape&), const Topology& topology, int root,
                                std::size_t chunk_bytes) {
  std::vector<Schedule> all;
  for (int rank = 0; rank < topology.size(); ++rank) {
    all.push_back(build({rank, topology.size(), root, &topology, chunk_bytes}));
  }
  return all;
}

}  // namespace tutti::verify
