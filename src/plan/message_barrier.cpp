#include "plan/builders.hpp"
#include "plan/program.hpp"

// A barrier is bound to one element of one byte. Its tokens are sent from and received into
// scratch; their content is not used.
namespace tutti::plan {
Schedule direct_barrier(const Shape& s) {
  Program p = Program::by_messages("direct_barrier", Kind::barrier, s);
  p.symmetry(Symmetry::rotation);
  p.scratch_slots(s.size);  // slot r is the token of rank r
  const auto slot_of = [](Expr rank) { return scratch(rank, whole()); };
  p.for_each_other([&](Expr peer) { p.recv(peer, slot_of(peer)); });
  p.for_each_other([&](Expr peer) { p.send(peer, slot_of(s.rank)); });
  if (s.size > 1) p.await_recv(p.others());
  p.agree();
  return p.take();
}

// In round k every rank sends a token to the rank 2^k further on. So after ceil(log2 P) rounds
// every rank has heard from every other, directly or not.
Schedule dissemination_barrier(const Shape& s) {
  Program p = Program::by_messages("dissemination_barrier", Kind::barrier, s);
  p.symmetry(Symmetry::rotation);
  int slots = 1;  // slot 0 is sent, each round receives into one of its own
  for (int distance = 1; distance < s.size; distance *= 2) {
    const Expr from = s.rank_after(-distance);
    p.recv(from, scratch(slots++, whole()));
    p.send(s.rank_after(distance), scratch(0, whole()));
    p.await_recv(only(from));
  }
  p.scratch_slots(slots);
  p.agree();
  return p.take();
}

}  // namespace tutti::plan
