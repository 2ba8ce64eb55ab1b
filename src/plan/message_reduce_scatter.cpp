#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

namespace tutti::plan {
// Everybody sends each rank its block in chunks; who has all of a chunk adds it.
Schedule direct_reduce_scatter(const Shape& s) {
  Program p("direct", Kind::reduce_scatter, s);
  const int n = s.size;
  p.schedule().messages = n > 1;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().chunk_bytes = window_chunk(s);
  p.schedule().scratch_slots = kWindow * n;  // P slots for each chunk of the window
  p.schedule().slot_parts = kSlotOfBlock;
  const Expr me = constant(s.rank);
  const auto slots = [&](int ahead) {  // the first of those of a chunk
    return Expr{std::int64_t{ahead} * n, n, 0, std::int64_t{kWindow} * n, 0};
  };
  const auto contribute = [&](int ahead) {
    p.for_each_other([&](Expr peer) {
      p.recv(peer, scratch(plus(slots(ahead), peer), block_chunk(me, var_i(ahead))));
      p.send(peer, input(block_chunk(peer, var_i(ahead))));
    });
  };
  p.agree();
  if (n > 1) {
    p.loop(times(kWindow));
    contribute(0);
    p.end_loop();
  }
  p.loop(block_chunks());
  const Slice own = block_chunk(me, var_i());
  if (n > 1) p.await_recv(p.others(), constant(kWindow - 1));
  p.reduce_slots(output(own), p.everybody(), slots(0), own, true);
  p.mark_last();
  contribute(kWindow);
  p.end_loop();
  return p.take();
}

// The sum of block b starts at rank b + 1 and travels once around, growing, until it is at home.
// All receives are posted at once, so of P - 1 the later ones are missing.
Schedule ring_reduce_scatter(const Shape& s) {
  Program p("ring", Kind::reduce_scatter, s);
  const int n = s.size;
  p.schedule().order = OrderClass::other;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().messages = n > 1;
  const Slice own = block_chunk(constant(s.rank), constant(0));
  p.agree();
  if (n == 1) {
    p.copy(output(own), input(own));
    return p.take();
  }
  p.schedule().scratch_slots = n - 1;  // slot i takes what comes in step i
  p.schedule().slot_parts = kSlotOfBlock;
  const Expr next = constant((s.rank + 1) % n);
  const Expr before = constant((s.rank + n - 1) % n);
  const RankSet before_and_me{before, 2, 1};
  const Slice coming = block_chunk(Expr{s.rank - 2, -1, 0, n, 0}, constant(0));
  p.send(next, input(block_chunk(before, constant(0))));
  p.loop(times(n - 1));
  p.recv(before, scratch(var_i(), coming));
  p.end_loop();
  p.loop(times(n - 2));
  p.await_recv(only(before), Expr{n - 2, -1, 0, 0, 0});
  p.reduce_slots(scratch(var_i(), coming), before_and_me, var_i(), coming, true);
  p.send(next, scratch(var_i(), coming));
  p.end_loop();
  p.await_recv(only(before));
  p.reduce_slots(output(own), before_and_me, constant(n - 2), own, true);
  p.mark_last();
  return p.take();
}

}  // namespace tutti::plan
