#include <map>
#include <string>

#include <tutti/backend/kinds.hpp>
#include "base/format.hpp"
#include "base/index.hpp"
#include "verify/proof_machine.hpp"
#include "verify/prover.hpp"
#include "verify/text.hpp"

namespace tutti::verify {

using namespace plan;

namespace {

/// The steps that one rank takes, a text for each, with ranks renamed.
class Trace {
 public:
  /// rename(rank) gives the number to be compared.
  template <class Rename>
  Trace(const Schedule& s, const ProofCase& c, Rename rename) : schedule_(s) {
    const bool blocks = has_blocks(s.kind);
    binding_ = {blocks ? c.count * base::as_size(s.size) : c.count,
                64,
                s.chunk_bytes > 0 ? c.chunk : 0,
                c.align,
                {},
                {}};
    if (blocks) binding_.in = binding_.out = BlockTable::even(c.count);
    for (int r = 0; r < s.size; ++r) names_.push_back(rename(r));
    run(0, s.steps.size(), 0);
  }
  [[nodiscard]] const std::vector<std::string>& lines() const noexcept { return lines_; }

 private:
  void run(std::size_t begin, std::size_t end, int depth) {
    for (std::size_t at = begin; at < end; ++at) {
      const Step& step = schedule_.steps[at];
      if (step.kind != StepKind::loop) {
        lines_.push_back(line(step));
        continue;
      }
      if (depth > 1) return;  // loops are at most two deep
      const auto behind = base::as_size(step.jump);
      const std::int64_t times = times_of(step.times, binding_);
      for (std::int64_t v = 0; v < times; ++v) {
        var_[depth] = v;
        run(at + 1, behind - 1, depth + 1);
      }
      var_[depth] = 0;
      at = behind - 1;
    }
  }

  [[nodiscard]] int name(std::int64_t rank) const {
    const std::int64_t in = (rank % schedule_.size + schedule_.size) % schedule_.size;
    return base::at(names_, in);
  }

  [[nodiscard]] std::string set(const RankSet& set) const {
    if (set.count == schedule_.size) return "all";
    std::string text;
    const std::int64_t first = set.first.at(var_[0], var_[1]);
    for (int k = 0; k < set.count; ++k) {
      text += base::format("{} ", name(first + std::int64_t{k} * set.stride));
    }
    return text;
  }

  [[nodiscard]] std::string slice(const Slice& s) const {
    const std::int64_t chunk = s.chunk.at(var_[0], var_[1]);
    const std::int64_t part = s.part.at(var_[0], var_[1]);
    // Parts of all ranks are numbered as ranks.
    const std::int64_t number = s.parts == schedule_.size ? name(part) : part;
    switch (s.shape) {
      case Slice::Shape::whole: return "whole";
      case Slice::Shape::chunk: return base::format("chunk {}", chunk);
      case Slice::Shape::part: return base::format("part {}", number);
      case Slice::Shape::chunk_part: return base::format("chunk {} part {}", chunk, number);
      case Slice::Shape::part_chunk: return base::format("part {} chunk {}", number, chunk);
      case Slice::Shape::block: return base::format("block {}", name(part));
      case Slice::Shape::block_chunk: return base::format("block {} chunk {}", name(part), chunk);
      case Slice::Shape::blocks: return base::format("{} blocks from {}", s.parts, name(part));
    }
    return "";
  }

  [[nodiscard]] std::string operand(const Operand& o) const {
    const std::string whose = o.space == Space::stage && !o.of_winner
                                  ? base::format("{}", name(o.rank.at(var_[0], var_[1])))
                                  : std::string(o.of_winner ? "winner" : "");
    return base::format("{}:{}[{}]", static_cast<int>(o.space), whose, slice(o.slice));
  }

  [[nodiscard]] std::string line(const Step& s) const {
    const std::int64_t value = s.value.at(var_[0], var_[1]);
    const std::string kind(to_string(s.kind));
    switch (s.kind) {
      case StepKind::publish:
      case StepKind::agree:
      case StepKind::jump:
      case StepKind::loop:
      case StepKind::end_loop: return kind;
      case StepKind::await_line: return base::format("{} {}", kind, set(s.ranks));
      case StepKind::copy: return base::format("{} {} {}", kind, operand(s.dst), operand(s.src));
      case StepKind::reduce: {
        Operand source = s.src;
        source.rank = schedule_.rank;  // whose: see ranks
        return base::format("{}{} {} {} {}", kind, s.last ? " last" : "", operand(s.dst),
                            set(s.ranks), operand(source));
      }
      case StepKind::signal: return base::format("{} {} {}", kind, s.counter, value);
      case StepKind::await:
      case StepKind::claim:
      case StepKind::await_recv:
        return base::format("{} {} {} {}", kind, s.counter, set(s.ranks), value);
      case StepKind::send:
        return base::format("{} {} {}", kind, name(s.peer.at(var_[0], var_[1])), operand(s.src));
      case StepKind::recv:
        return base::format("{} {} {}", kind, name(s.peer.at(var_[0], var_[1])), operand(s.dst));
    }
    return kind;
  }

  const Schedule& schedule_;
  Binding binding_;
  std::int64_t var_[2] = {0, 0};
  std::vector<int> names_;
  std::vector<std::string> lines_;
};

void compare(const Trace& a, const Trace& b, int rank, int as, std::vector<Finding>& found) {
  if (a.lines() == b.lines()) return;
  std::size_t at = 0;
  while (at < a.lines().size() && at < b.lines().size() && a.lines()[at] == b.lines()[at]) ++at;
  const auto what = [&](const Trace& t) {
    return at < t.lines().size() ? t.lines()[at] : std::string("ends");
  };
  found.push_back({Fault::wrong_symmetry, rank,
                   base::format("{}: rank {} is not as rank {}: \"{}\" instead of \"{}\"",
                                to_string(Fault::wrong_symmetry), rank, as, what(b), what(a))});
}

}  // namespace

std::vector<Finding> check_symmetry(std::span<const Schedule> all, const Topology& topology,
                                    const ProofCase& c) {
  std::vector<Finding> found;
  const int size = static_cast<int>(all.size());
  const auto trace = [&](int r, Symmetry symmetry) {
    return Trace(base::at(all, r), c, [&](int q) {
      switch (symmetry) {
        case Symmetry::rotation: return (q - r + size) % size;
        case Symmetry::per_host: return q == r ? -1 : q;
        case Symmetry::none: break;
      }
      return q;
    });
  };
  std::map<int, std::vector<int>> followers;  // by host
  std::vector<bool> led(base::as_size(topology.hosts), false);
  for (int r = 0; r < size; ++r) {
    const Schedule& s = base::at(all, r);
    if (s.symmetry != all.front().symmetry) {
      found.push_back({Fault::wrong_symmetry, r, "ranks declare different symmetries"});
    }
    const int host = base::at(topology.host_of, r);
    const bool leads = !base::at(led, host);
    base::at(led, host) = true;
    if (!leads && r != s.root) followers[host].push_back(r);
  }
  if (!found.empty() || size == 0) return found;
  const Symmetry symmetry = all.front().symmetry;
  if (symmetry == Symmetry::rotation) {
    const Trace first = trace(0, symmetry);
    for (int r = 1; r < size; ++r) compare(first, trace(r, symmetry), r, 0, found);
  } else if (symmetry == Symmetry::per_host) {
    for (const auto& [host, ranks] : followers) {
      const Trace first = trace(ranks.front(), symmetry);
      for (const int r : ranks) compare(first, trace(r, symmetry), r, ranks.front(), found);
    }
  }
  return found;
}

}  // namespace tutti::verify
