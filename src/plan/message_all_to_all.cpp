#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

// Each rank begins with another peer: step k sends to the k-th rank after it and receives from the
// k-th rank before it. A rank needs only its own two tables, so each rank may have its own splits.
Schedule direct_all_to_all(const Shape& s) {
  Program p = Program::by_messages("direct_all_to_all", Kind::all_to_all, s);
  p.symmetry(Symmetry::rotation);
  const Slice own = block(s.rank);
  p.agree();
  p.for_each_other([&](Expr peer) { p.recv(peer, output(block(peer))); });
  p.for_each_other([&](Expr peer) { p.send(peer, input(block(peer))); });
  p.copy(output(own), input(own));
  if (s.size > 1) p.await_recv(p.others());
  return p.take();
}

}  // namespace tutti::plan
