#include <algorithm>
#include <utility>
#include <vector>

#include "base/addition_order.hpp"
#include "base/index.hpp"
#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

// Rounds in which pairs of ranks exchange, at distances 1, 2, 4, ..., or from the largest one down.
namespace tutti::plan {
namespace {

/// One round of doubling for one rank.
struct Round {
  int from = 0;          ///< the rank that sends us the sum of the other half
  bool on_left = false;  ///< the other half's ranks are lower
  std::vector<int> to;   ///< the ranks that we send our sum to
};

/// The rank of the other half that sends its sum to `rank`. The two halves are neighbouring
/// subtrees of `width` ranks in the tree of additions. If the other half has fewer ranks (it ends
/// with the last rank), each of them sends to several ranks.
int counterpart(int rank, int width, int size) {
  const int other = base::sibling_begin(rank, width);
  return other + (rank % width) % std::min(width, size - other);
}

std::vector<Round> rounds_of(int rank, int size) {
  std::vector<Round> rounds;
  for (int width = 1; width < size; width *= 2) {
    const int other = base::sibling_begin(rank, width);
    if (other >= size) continue;  // an empty half: nothing to add
    Round round;
    round.from = counterpart(rank, width, size);
    round.on_left = other < rank;
    for (int peer = other; peer < std::min(other + width, size); ++peer) {
      if (counterpart(peer, width, size) == rank) round.to.push_back(peer);
    }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace

// After the round of width w every rank has the sum of the 2 w ranks of its subtree. All ranks add
// the same two halves in the same order, so they get the same bits. Each rank sends a copy of its
// input, because the result may overwrite the input.
Schedule doubling_all_reduce(const Shape& s) {
  Program p = Program::by_messages("recursive_doubling", Kind::all_reduce, s);
  const std::vector<Round> rounds = rounds_of(s.rank, s.size);
  const int m = static_cast<int>(rounds.size());
  if (m == 0) return alone(p);
  // Round k adds slots 2k and 2k + 1, the lower ranks' half first.
  p.scratch_slots(2 * m);
  const auto round = [&](int k) -> const Round& { return base::at(rounds, k); };
  const auto ours = [&](int k) { return scratch(2 * k + (round(k).on_left ? 1 : 0), whole()); };
  const auto theirs = [&](int k) { return scratch(2 * k + (round(k).on_left ? 0 : 1), whole()); };
  p.copy(ours(0), input(whole()));
  for (int k = 0; k < m; ++k) p.recv(round(k).from, theirs(k));
  for (int k = 0; k < m; ++k) {
    for (const int peer : round(k).to) p.send(peer, ours(k));
    p.await_recv(only(round(k).from));
    const bool last = k == m - 1;
    if (last) p.agree();
    p.reduce_slots(last ? output(whole()) : ours(k + 1), ranks_from(0, 2), 2 * k, whole(), false);
    if (last) p.mark_last();
  }
  return p.take();
}

// In round k a rank sends its partner the half of its blocks that contains the partner's block, and
// adds the blocks that it gets to the other half. Distant partners come first, so that halves are
// runs of blocks; this is not the order of the tree. If the size is no power of two: direct.
Schedule halving_reduce_scatter(const Shape& s) {
  if (s.size == 1 || (s.size & (s.size - 1)) != 0) return direct_reduce_scatter(s);
  Program p = Program::by_messages("recursive_halving", Kind::reduce_scatter, s);
  p.order(OrderClass::other);
  std::vector<int> widths;
  for (int width = s.size / 2; width > 0; width /= 2) widths.push_back(width);
  const int m = static_cast<int>(widths.size());
  p.scratch_slots(2 * m);
  const auto width = [&](int k) { return base::at(widths, k); };
  const auto partner = [&](int k) { return s.rank ^ width(k); };
  const auto run_of = [&](int rank, int k) { return blocks(rank / width(k) * width(k), width(k)); };
  // Slots 2k and 2k + 1 of round k: the lower rank's blocks first.
  const auto slot = [&](int k, bool own) {
    const bool lower = (s.rank < partner(k)) == own;
    return 2 * k + (lower ? 0 : 1);
  };
  p.agree();
  for (int k = 0; k < m; ++k) p.recv(partner(k), scratch(slot(k, false), run_of(s.rank, k)));
  // The input may be a list of tensors. A run of blocks must be contiguous to be sent: copy it.
  for (int rank = 0; rank < s.size; ++rank)
    p.copy(scratch(slot(0, true), block(rank)), input(block(rank)));
  for (int k = 0; k < m; ++k) {
    p.send(partner(k), scratch(slot(k, true), run_of(partner(k), k)));
    p.await_recv(only(partner(k)));
    const int lower = std::min(s.rank, partner(k));
    if (k < m - 1) {
      const Slice kept = run_of(s.rank, k);
      p.reduce_slots(scratch(slot(k + 1, true), kept), ranks_from(lower, 2), 2 * k, kept, false);
    } else {
      const Slice own = block(s.rank);
      p.reduce_slots(output(own), ranks_from(lower, 2), 2 * k, own, false);
      p.mark_last();
    }
  }
  return p.take();
}

}  // namespace tutti::plan
