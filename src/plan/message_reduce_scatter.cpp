#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

namespace tutti::plan {
// Each rank sends every other its block in chunks; a rank that has all of a chunk adds it.
Schedule direct_reduce_scatter(const Shape& s) {
  Program p = Program::by_messages("direct", Kind::reduce_scatter, s);
  const int n = s.size;
  p.symmetry(Symmetry::rotation);
  p.chunks_of(window_chunk(s), kSlotOfBlock);
  p.scratch_slots(kChunksInFlight * n);  // P slots for each chunk of the window
  const Contributions c{p, s, block_chunk};
  const Slice own = c.slice(s.rank, 0);
  p.agree();
  if (n > 1) {
    p.loop(times(kChunksInFlight));
    c.exchange(0);
    p.end_loop();
  }
  p.loop(block_chunks());
  if (n > 1) p.await_recv(p.others(), kChunksInFlight - 1);
  p.reduce_slots(output(own), p.everybody(), c.slot(0, 0), own, true);
  p.mark_last();
  c.exchange(kChunksInFlight);
  p.end_loop();
  return p.take();
}

// The sum of block b starts at rank b + 1 and goes once around the ring, until rank b has it. All
// P - 1 receives are posted at once, so each wait allows the later ones to be missing.
Schedule ring_reduce_scatter(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("ring", Kind::reduce_scatter, s);
  const int n = s.size;
  p.order(OrderClass::other);
  p.symmetry(Symmetry::rotation);
  const Slice own = block_chunk(s.rank, 0);
  p.agree();
  if (n == 1) {
    p.copy(output(own), input(own));
    return p.take();
  }
  p.scratch_slots(n - 1);  // slot i takes what comes in step i
  p.slots_hold(kSlotOfBlock);
  const Expr next = s.rank_after(1);
  const Expr before = s.rank_after(-1);
  const RankSet before_and_me = ranks_from(before, 2);
  const Slice coming = block_chunk((s.rank - 2 - i) % n, 0);
  p.send(next, input(block_chunk(before, 0)));
  p.loop(times(n - 1));
  p.recv(before, scratch(i, coming));
  p.end_loop();
  p.loop(times(n - 2));
  p.await_recv(only(before), n - 2 - i);
  p.reduce_slots(scratch(i, coming), before_and_me, i, coming, true);
  p.send(next, scratch(i, coming));
  p.end_loop();
  p.await_recv(only(before));
  p.reduce_slots(output(own), before_and_me, n - 2, own, true);
  p.mark_last();
  return p.take();
}

}  // namespace tutti::plan
