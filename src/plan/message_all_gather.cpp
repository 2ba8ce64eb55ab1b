#include <algorithm>

#include "plan/block_runs.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

Schedule direct_all_gather(const Shape& s) {
  Program p = Program::by_messages("direct", Kind::all_gather, s);
  p.symmetry(Symmetry::rotation);
  const Slice own = block(s.rank);
  p.agree();
  p.for_each_other([&](Expr peer) { p.recv(peer, output(block(peer))); });
  p.for_each_other([&](Expr peer) { p.send(peer, input(own)); });
  p.copy(output(own), input(own));
  if (s.size > 1) p.await_recv(p.others());
  return p.take();
}

// In round k every rank has the blocks of 2^k ranks from itself on, and gets as many from the rank
// 2^k further on. They are collected in scratch, which has room for the whole operation, so what is
// sent is one piece (or two, past the last rank).
Schedule bruck_all_gather(const Shape& s) {
  Program p = Program::by_messages("bruck", Kind::all_gather, s);
  const int n = s.size;
  const Slice own = block(s.rank);
  const auto here = [](Slice slice) { return scratch(0, slice); };
  const auto count_of = [&](int distance) { return std::min(distance, n - distance); };
  const auto from = [&](int distance) { return s.rank_after(distance); };
  p.scratch_slots(n > 1 ? 1 : 0);
  for (int distance = 1; distance < n; distance *= 2) {
    for (const Slice& run : block_runs(s.rank + distance, count_of(distance), n)) {
      p.recv(from(distance), here(run));
    }
  }
  if (n > 1) p.copy(here(own), input(own));
  for (int distance = 1; distance < n; distance *= 2) {
    for (const Slice& run : block_runs(s.rank, count_of(distance), n)) {
      p.send(s.rank_after(-distance), here(run));
    }
    p.await_recv(only(from(distance)));
  }
  p.agree();
  p.copy(output(own), input(own));
  p.for_each_other([&](Expr peer) { p.copy(output(block(peer)), here(block(peer))); });
  return p.take();
}

// Each block goes once around the ring. All P - 1 receives are posted at once, so each wait allows
// the later ones to be missing.
Schedule ring_all_gather(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("ring", Kind::all_gather, s);
  p.symmetry(Symmetry::rotation);
  const int n = s.size;
  const Slice own = block(s.rank);
  const Expr next = s.rank_after(1);
  const Expr before = s.rank_after(-1);
  const Slice coming = block((s.rank - 1 - i) % n);  // in step i
  p.agree();
  if (n == 1) {
    p.copy(output(own), input(own));
    return p.take();
  }
  p.loop(times(n - 1));
  p.recv(before, output(coming));
  p.end_loop();
  p.send(next, input(own));
  p.copy(output(own), input(own));
  p.loop(times(n - 2));
  p.await_recv(only(before), n - 2 - i);
  p.send(next, output(coming));
  p.end_loop();
  p.await_recv(only(before));
  return p.take();
}

}  // namespace tutti::plan
