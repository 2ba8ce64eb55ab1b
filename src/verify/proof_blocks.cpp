#include <algorithm>
#include <numeric>

#include <tutti/backend/kinds.hpp>
#include "base/format.hpp"
#include "base/index.hpp"
#include "verify/proof_machine.hpp"

// Which elements a rank's input and output hold, and where. Elements of all_to_all have a number of
// their own at each end; here they are told apart by the input that they come from.
namespace tutti::verify::proof {

using namespace plan;

namespace {

/// Elements of the block that `from` has for `to`, or of the block of rank `to` where there is one
/// table for all (from = 0).
std::size_t block_size(const ProofCase& c, int from, int to) {
  if (c.uneven == 0) return c.count;
  // splitmix64
  std::uint64_t x = c.uneven * std::uint64_t{0x9E3779B97F4A7C15} +
                    static_cast<std::uint64_t>(from) * 1000003 + static_cast<std::uint64_t>(to);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  x ^= x >> 31;
  return x % 4 == 0 ? 0 : (x >> 8) % (2 * c.count + 1);
}

BlockTable table_of(const std::vector<std::size_t>& sizes, std::vector<std::size_t>& ends) {
  ends.resize(sizes.size());
  std::partial_sum(sizes.begin(), sizes.end(), ends.begin());
  return {0, ends.data(), *std::max_element(sizes.begin(), sizes.end())};
}

}  // namespace

void Machine::set_up_blocks(int r) {
  Rank& rank = base::at(ranks_, r);
  const bool exchange = traits_of(rank.schedule->kind).layout == Layout::exchange;
  std::vector<std::size_t> in;
  std::vector<std::size_t> out;
  for (int q = 0; q < size_; ++q) {
    in.push_back(block_size(case_, exchange ? r : 0, q));
    out.push_back(exchange ? block_size(case_, q, r) : in.back());
  }
  if (case_.uneven == 0) {
    rank.binding.in = rank.binding.out = BlockTable::even(case_.count);
  } else {
    rank.binding.in = table_of(in, rank.in_ends);
    rank.binding.out = table_of(out, rank.out_ends);
  }
  rank.binding.count = std::accumulate(in.begin(), in.end(), std::size_t{0});
  if (!exchange) return;
  for (int s = 0; s < r; ++s) {
    for (int d = 0; d < size_; ++d) rank.origin += block_size(case_, s, d);
  }
}

void Machine::set_up_memory(int r) {
  Rank& rank = base::at(ranks_, r);
  const Kind kind = rank.schedule->kind;
  const Layout layout = traits_of(kind).layout;
  const Binding& b = rank.binding;
  rank.has_input = uses_input(kind, r, rank.schedule->root);
  rank.has_output = uses_output(kind, r, rank.schedule->root);
  rank.shared = case_.in_place && rank.has_input && rank.has_output && layout != Layout::exchange;
  if (rank.has_input) rank.given = layout == Layout::gather ? b.in.range(r).count : b.count;
  rank.input.resize(rank.given);
  std::size_t asked = 0;
  if (rank.has_output) {
    asked = b.count;
    if (layout == Layout::scatter) asked = b.out.range(r).count;
    if (layout == Layout::exchange) {
      const Range last = b.out.range(size_ - 1);
      asked = last.first + last.count;
    }
  }
  rank.output.resize(asked);
  rank.written.assign(asked, false);
  const std::size_t first = first_element(kind, Space::input, r, b);
  const Place where = user_memory(r, Space::input, {first, rank.given});
  for (std::size_t e = 0; e < rank.given; ++e) {
    (*where.cells)[where.at + e] = {r, rank.origin + first + e, r, 1, -1};
  }
}

Place Machine::user_memory(int r, Space space, const Range& elements) {
  Rank& rank = base::at(ranks_, r);
  const Kind kind = rank.schedule->kind;
  // In place the longer one holds both.
  const bool in_input =
      rank.shared ? traits_of(kind).layout != Layout::gather : space == Space::input;
  std::size_t first = first_element(kind, space, r, rank.binding);
  if (rank.shared) first = 0;
  return {in_input ? &rank.input : &rank.output, elements.first - first, elements.count,
          elements.first};
}

std::size_t Machine::identity(int r, const Operand& operand, const Range& elements) const {
  const Rank& rank = base::at(ranks_, r);
  if (traits_of(rank.schedule->kind).layout != Layout::exchange) return elements.first;
  if (operand.space == Space::input) return rank.origin + elements.first;
  if (operand.space == Space::stage) {
    return base::at(ranks_, rank_at(r, operand.rank)).origin + elements.first;
  }
  const auto from = operand.slice.part.at(rank.var[0], rank.var[1]);
  const Rank& source = base::at(ranks_, from);
  return source.origin + source.binding.in.range(r).first + elements.first -
         rank.binding.out.range(from).first;
}

bool Machine::blocks_exist(int r, const Operand& operand) {
  const Rank& rank = base::at(ranks_, r);
  const Slice& slice = operand.slice;
  const bool run = slice.shape == Slice::Shape::blocks;
  if (!run && slice.shape != Slice::Shape::block && slice.shape != Slice::Shape::block_chunk) {
    return true;
  }
  const std::int64_t first = slice.part.at(rank.var[0], rank.var[1]);
  const std::int64_t count = run ? slice.parts : 1;
  if (has_blocks(rank.schedule->kind) && first >= 0 && count >= 1 && first + count <= size_) {
    return true;
  }
  tell(Fault::out_of_bounds, r, base::format("{} blocks from {} on", count, first));
  return false;
}

}  // namespace tutti::verify::proof
