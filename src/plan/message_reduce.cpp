#include <vector>

#include "base/addition_order.hpp"
#include "base/index.hpp"
#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

namespace tutti::plan {
namespace {

/// The rank that adds up a subtree of the tree of additions (ranks lo to lo + width - 1, as far as
/// they exist): the root if it is one of them, else the lowest rank.
int place_of_sum(int lo, int width, int root) {
  return root >= lo && root < lo + width ? root : lo;
}

struct Merge {
  int peer;      ///< the rank that sends the other half
  bool on_left;  ///< the other half's ranks are lower
};

/// The additions of a rank, and the rank that it sends the result to (-1: it is the root).
struct Duty {
  std::vector<Merge> merges;
  int parent = -1;
};

Duty duty_of(const Shape& s) {
  Duty duty;
  for (int width = 1; width < s.size; width *= 2) {
    const int lo = base::subtree_begin(s.rank, width);
    const int other = base::sibling_begin(s.rank, width);
    if (other >= s.size) continue;  // an empty half
    const int peer = place_of_sum(other, width, s.root);
    const int home = place_of_sum(base::subtree_begin(s.rank, 2 * width), 2 * width, s.root);
    if (home != s.rank) {
      duty.parent = home;
      return duty;
    }
    duty.merges.push_back({peer, other < lo});
  }
  return duty;
}

}  // namespace

// In chunks. At the root the contributions of all ranks lie next to each other.
Schedule direct_reduce(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("direct", Kind::reduce, s);
  if (s.size == 1) return alone(p);
  const int n = s.size;
  p.chunks_of(window_chunk(s), kSlotOfChunk);
  p.agree();
  if (s.rank != s.root) {
    p.loop(chunks());
    p.send(s.root, input(chunk(i)));
    p.end_loop();
    return p.take();
  }
  p.scratch_slots(kChunksInFlight * n);  // P slots for each chunk of the window
  const auto slot = [&](int ahead, Expr rank) {
    return window_slot(kChunksInFlight, n, ahead, rank);
  };
  const auto post = [&](int ahead) {
    p.for_each_other(
        [&](Expr peer) { p.recv(peer, scratch(slot(ahead, peer), chunk(i + ahead))); });
  };
  p.loop(times(kChunksInFlight));
  post(0);
  p.end_loop();
  p.loop(chunks());
  p.await_recv(p.others(), kChunksInFlight - 1);
  p.reduce_slots(output(chunk(i)), p.everybody(), slot(0, 0), chunk(i), true);
  p.mark_last();
  post(kChunksInFlight);
  p.end_loop();
  return p.take();
}

// Every rank owns a part: all others send it their piece of a chunk, it adds them and sends the sum
// to the root. The root sends its own piece of chunk i + kChunksInFlight only when it has the sums
// of chunk i: so an owner that gets the piece may overwrite that sum. Between an owner and the root
// the order is that of direct_all_reduce.
Schedule owners_reduce(const Shape& s) {
  Program p = Program::by_messages("owners", Kind::reduce, s);
  if (s.size == 1) return alone(p);
  const int n = s.size;
  const bool is_root = s.rank == s.root;
  p.chunks_of(window_chunk(s), n);
  p.scratch_slots(kChunksInFlight * n);  // P slots for each chunk of the window
  const Contributions c{p, s, [n](Expr owner, Expr chunk) { return part_chunk(owner, n, chunk); }};
  const Slice own = c.slice(s.rank, 0);
  p.agree();
  p.loop(times(kChunksInFlight));
  // Receives of nothing, so that every round may miss equally many.
  if (is_root) c.post_results(-kChunksInFlight);
  c.exchange(0);
  p.end_loop();
  p.loop(part_chunks(n));
  if (is_root) c.post_results(0);
  p.await_recv(p.others(), is_root ? 2 * kChunksInFlight - 1 : kChunksInFlight - 1);
  const Operand sum = is_root ? output(own) : scratch(c.slot(0, s.rank), own);
  p.reduce_slots(sum, p.everybody(), c.slot(0, 0), own, true);
  p.mark_last();
  if (is_root) {
    p.await_recv(p.others());
  } else {
    p.send(s.root, sum);
  }
  c.exchange(kChunksInFlight);
  p.end_loop();
  return p.take();
}

// The additions are those of the tree over ranks, whichever rank is the root: the root makes every
// sum that it is part of. There are no chunks, because no message would say that memory which was
// sent may be overwritten.
Schedule binomial_reduce(const Shape& s) {
  Program p = Program::by_messages("binomial", Kind::reduce, s);
  if (s.size == 1) return alone(p);
  const Duty duty = duty_of(s);
  const int m = static_cast<int>(duty.merges.size());
  // Merge k adds slots 2k and 2k + 1, the lower ranks' half first. One of them is the sum so far
  // (for the first merge: the input). Slot 2m is the result.
  const auto merge = [&](int k) { return base::at(duty.merges, k); };
  const auto own_slot = [&](int k) { return 2 * k + (k < m && merge(k).on_left ? 1 : 0); };
  const auto their_slot = [&](int k) { return 2 * k + (merge(k).on_left ? 0 : 1); };
  p.scratch_slots(2 * m + 1);
  p.agree();
  for (int k = 0; k < m; ++k) p.recv(merge(k).peer, scratch(their_slot(k), whole()));
  for (int k = 0; k < m; ++k) {
    p.await_recv(only(merge(k).peer));
    const bool last = k == m - 1 && duty.parent < 0;
    // The set must contain this rank in its place, because its input is a source of the first
    // merge.
    const int first = merge(k).on_left ? s.rank + s.size - 1 : s.rank;
    p.reduce_slots(last ? output(whole()) : scratch(own_slot(k + 1), whole()),
                   ranks_from(first % s.size, 2), 2 * k, whole(), k == 0);
    if (last) p.mark_last();
  }
  if (duty.parent >= 0) {
    p.send(duty.parent, m == 0 ? input(whole()) : scratch(own_slot(m), whole()));
  }
  return p.take();
}

}  // namespace tutti::plan
