#include "backend/foreign/call_comparison.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/element_unit.hpp"
#include "base/index.hpp"

namespace tutti::foreign {
namespace {

/// Each pair of ranks has a length of its own, of which only the two know.
bool has_lengths(const ForeignOperation& op) noexcept { return op.extent.agreed == call::kSplits; }

}  // namespace

CallComparison::CallComparison(Primitives& primitives, Group group, const Config& config)
    : primitives_(primitives),
      group_(std::move(group)),
      on_(config.agree != Config::Agree::off),
      chain_(call::chain_start(group_.id, call::hash_text(config.algorithms))) {}

bool CallComparison::compares(const Collective& call) const noexcept {
  return group_.size > 1 && (on_ || call.kind == Kind::new_group);
}

void CallComparison::take(ForeignOperation& op) noexcept {
  op.seq = ++last_;
  chain_ = call::chain(chain_, op.code);
  op.fingerprint = {chain_, ~chain_};
}

void CallComparison::begin(ForeignOperation& op) {
  if (!compares(op.call)) {
    op.agreement = Agreement::agreed;
    return;
  }
  op.agreement = Agreement::comparing;
  primitives_.begin_maximum(op);
  if (group_.lengths_at_once && has_lengths(op)) measure(op);
}

void CallComparison::measure(ForeignOperation& op) {
  const auto ranks = static_cast<std::size_t>(group_.size);
  op.lengths_sent.resize(ranks);
  op.lengths_got.resize(ranks);
  for (int r = 0; r < group_.size; ++r)
    base::at(op.lengths_sent, r) = call::sent_to(op.call, op.extent, group_.rank, r);
  primitives_.begin_lengths(op);
}

Outcome CallComparison::ended(ForeignOperation& op) {
  switch (op.agreement) {
    case Agreement::comparing:
      if (op.greatest != op.fingerprint)
        op.agreement = Agreement::differs;
      else if (has_lengths(op))
        op.agreement = group_.lengths_at_once ? Agreement::measuring : Agreement::unmeasured;
      else
        op.agreement = Agreement::agreed;
      return Outcome();
    case Agreement::measuring: return lengths_differ(op);
    case Agreement::explaining: return calls_differ(op);
    default: return Outcome();
  }
}

bool CallComparison::settle(ForeignOperation& op) {
  if (op.agreement == Agreement::unmeasured) {
    op.agreement = Agreement::measuring;
    measure(op);
  } else if (op.agreement == Agreement::differs && !std::exchange(explained_, true)) {
    op.agreement = Agreement::explaining;
    op.codes.assign(static_cast<std::size_t>(group_.size), op.code);
    primitives_.begin_codes(op);
  }
  return op.agreement == Agreement::agreed;
}

Outcome CallComparison::lengths_differ(ForeignOperation& op) const {
  for (int r = 0; r < group_.size; ++r) {
    const std::uint64_t expected = call::expected_from(op.call, op.extent, group_.rank, r);
    const std::uint64_t sent = base::at(op.lengths_got, r);
    if (sent == expected) continue;
    const base::ElementUnit unit = base::unit_of(op.call.output, expected, sent);
    return Outcome(
        Errc::disagreement,
        "ranks disagree in " + primitives_.text_of(op) + ": " + primitives_.name_of(r) + " sends " +
            std::to_string(sent / unit.size) + " " + std::string(unit.name) + " to " +
            primitives_.name_of(group_.rank) + ", which expects " +
            std::to_string(expected / unit.size) +
            ". Each rank must send another as many elements as that one expects; the group is "
            "broken, make a new one.");
  }
  op.agreement = Agreement::agreed;
  return Outcome();
}

Outcome CallComparison::calls_differ(const ForeignOperation& op) const {
  const auto other =
      std::ranges::find_if(op.codes, [&](const call::CallCode& code) { return code != op.code; });
  if (other == op.codes.end()) {
    return call::ranks_disagree(
        group_.name, "the calls of the ranks before operation " + std::to_string(op.seq) + " " +
                         call::describe(op.code) + " or their settings (TUTTI_ALGO) differ");
  }
  return call::ranks_disagree(
      group_.name, call::difference(op.seq, op.code, primitives_.name_of(group_.rank),
                                    primitives_.call_text(op.code),
                                    primitives_.name_of(static_cast<int>(other - op.codes.begin())),
                                    primitives_.call_text(*other)));
}

}  // namespace tutti::foreign
