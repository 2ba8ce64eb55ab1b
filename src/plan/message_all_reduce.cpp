#include <vector>

#include "base/addition_order.hpp"
#include "base/index.hpp"
#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

// The output may be the same memory as the input, and memory that is sent may be read until its
// receiver has it. So a rank overwrites what it has sent only with a message that could not be sent
// before the old value had arrived.
namespace tutti::plan {

// Each rank sends a copy of its input, because the result may overwrite the input, and no message
// says when the others have read it.
Schedule exchange_all_reduce(const Shape& s) {
  Program p = Program::by_messages("exchange", Kind::all_reduce, s);
  if (s.size == 1) return alone(p);
  p.symmetry(Symmetry::rotation);
  p.scratch_slots(s.size);  // slot r is the contribution of rank r
  const auto slot_of = [](Expr rank) { return scratch(rank, whole()); };
  p.copy(slot_of(s.rank), input(whole()));
  p.for_each_other([&](Expr peer) { p.send(peer, slot_of(s.rank)); });
  p.for_each_other([&](Expr peer) { p.recv(peer, slot_of(peer)); });
  p.await_recv(p.others());
  p.agree();
  p.reduce_slots(output(whole()), p.everybody(), 0, whole(), false);
  p.mark_last();
  return p.take();
}

// In round i the owner of a part adds up chunk i of it and sends the sum to all. Between two ranks
// the order is: the first kChunksInFlight chunks of contributions, then in turn a chunk of sums and
// one more of contributions. The sums before round 0 are receives of nothing, so that the number of
// receives that may be missing is the same in every round.
Schedule direct_all_reduce(const Shape& s) {
  Program p = Program::by_messages("direct", Kind::all_reduce, s);
  if (s.size == 1) return alone(p);
  p.symmetry(Symmetry::rotation);
  p.chunks_of(window_chunk(s), s.size);
  p.scratch_slots(kChunksInFlight * s.size);  // P slots for each chunk of the window
  const int n = s.size;
  const Contributions c{p, s, [n](Expr owner, Expr chunk) { return part_chunk(owner, n, chunk); }};
  const Slice own = c.slice(s.rank, 0);
  p.agree();
  p.loop(times(kChunksInFlight));
  c.post_results(-kChunksInFlight);
  c.exchange(0);
  p.end_loop();
  p.loop(part_chunks(n));
  c.post_results(0);
  p.await_recv(p.others(), 2 * kChunksInFlight - 1);
  p.reduce_slots(output(own), p.everybody(), c.slot(0, 0), own, true);
  p.mark_last();
  p.for_each_other([&](Expr peer) { p.send(peer, output(own)); });
  c.exchange(kChunksInFlight);
  p.end_loop();
  p.await_recv(p.others());
  return p.take();
}

// Up: a rank adds the sums of its children, nearest first, and sends the result to its parent.
// Down: the total comes back along the same tree. Both in chunks; a rank passes a chunk down
// kChunksInFlight rounds after it has sent its contribution up.
Schedule binomial_all_reduce(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("binomial", Kind::all_reduce, s);
  if (s.size == 1) return alone(p);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  const std::vector<int> children = base::tree_children(s.rank, s.size);
  const int m = static_cast<int>(children.size());
  const bool is_root = s.rank == 0;
  const Expr parent = base::tree_parent(s.rank);
  const auto child = [&](int k) { return base::at(children, k); };
  // For each chunk of the window and child k: slot 2k + 1 takes the child's sum, slot 2k the sum so
  // far (for the first child that is this rank's input, so slot 0 is unused); slot 2m is the
  // result.
  const int per_chunk = 2 * m + 1;
  p.scratch_slots(kChunksInFlight * per_chunk);
  const auto slot = [&](int ahead, int which) {
    return window_slot(kChunksInFlight, per_chunk, ahead) + which;
  };
  const auto post_up = [&](int ahead) {
    for (int k = 0; k < m; ++k) {
      p.recv(child(k), scratch(slot(ahead, 2 * k + 1), chunk(i + ahead)));
    }
  };
  p.agree();
  p.loop(times(kChunksInFlight));
  post_up(0);
  p.end_loop();
  p.loop(chunks(is_root ? 0 : kChunksInFlight));
  if (!is_root) {
    // A chunk from the parent also means that it has our sum of that chunk: the slot is free.
    p.recv(parent, output(chunk(i)));
    p.await_recv(only(parent), kChunksInFlight);
    for (int k = m - 1; k >= 0; --k) p.send(child(k), output(chunk(i - kChunksInFlight)));
  }
  for (int k = 0; k < m; ++k) {
    p.await_recv(only(child(k)), kChunksInFlight - 1);
    const Operand sum =
        k == m - 1 && is_root ? output(chunk(i)) : scratch(slot(0, 2 * k + 2), chunk(i));
    p.reduce_slots(sum, ranks_from(s.rank, 2), slot(0, 2 * k), chunk(i), k == 0);
    if (k == m - 1 && is_root) p.mark_last();
  }
  if (is_root) {
    for (int k = m - 1; k >= 0; --k) p.send(child(k), output(chunk(i)));
  } else {
    p.send(parent, m == 0 ? input(chunk(i)) : scratch(slot(0, 2 * m), chunk(i)));
  }
  post_up(kChunksInFlight);
  p.end_loop();
  return p.take();
}

// Part p starts at rank p and goes once around the ring, until rank p - 1 has its sum; then the
// sums go around. All 2 (P - 1) receives are posted at once, so each wait allows the later ones to
// be missing.
Schedule ring_all_reduce(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("ring", Kind::all_reduce, s);
  if (s.size == 1) return alone(p);
  const int n = s.size;
  p.order(OrderClass::other);
  p.symmetry(Symmetry::rotation);
  p.scratch_slots(n - 1);  // slot i takes what comes in step i
  p.slots_hold(n);
  const Expr next = s.rank_after(1);
  const Expr before = s.rank_after(-1);
  const RankSet before_and_me = ranks_from(before, 2);
  const auto slice = [&](Expr which) { return part_chunk(which, n, 0); };
  const auto part_down = [&](int from) { return (s.rank + from - i) % n; };
  const Slice mine = slice(s.rank_after(1));  // the part whose sum is complete here
  p.agree();
  p.send(next, input(slice(s.rank)));
  p.loop(times(n - 1));
  p.recv(before, scratch(i, slice(part_down(-1))));
  p.end_loop();
  p.loop(times(n - 1));
  p.recv(before, output(slice(part_down(0))));
  p.end_loop();
  p.loop(times(n - 2));
  p.await_recv(only(before), 2 * n - 3 - i);
  p.reduce_slots(scratch(i, slice(part_down(-1))), before_and_me, i, slice(part_down(-1)), true);
  p.send(next, scratch(i, slice(part_down(-1))));
  p.end_loop();
  p.await_recv(only(before), n - 1);
  p.reduce_slots(output(mine), before_and_me, n - 2, mine, true);
  p.mark_last();
  p.send(next, output(mine));
  p.loop(times(n - 2));
  p.await_recv(only(before), n - 2 - i);
  p.send(next, output(slice(part_down(0))));
  p.end_loop();
  p.await_recv(only(before));
  return p.take();
}

}  // namespace tutti::plan
