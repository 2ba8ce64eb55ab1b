#include "base/addition_order.hpp"
#include "plan/block_runs.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

Schedule direct_gather(const Shape& s) {
  Program p = Program::by_messages("direct", Kind::gather, s);
  const Slice own = block(s.rank);
  p.agree();
  if (s.rank != s.root) {
    p.send(s.root, input(own));
    return p.take();
  }
  p.for_each_other([&](Expr peer) { p.recv(peer, output(block(peer))); });
  p.copy(output(own), input(own));
  if (s.size > 1) p.await_recv(p.others());
  return p.take();
}

// A rank collects the blocks of its subtree in scratch, which has room for the whole operation, and
// sends them on in one piece (or in two, past the last rank).
Schedule binomial_gather(const Shape& s) {
  Program p = Program::by_messages("binomial", Kind::gather, s);
  const BlockTree tree(s);
  const std::vector<int> children = base::tree_children(tree.place, s.size);
  const bool is_root = tree.place == 0;
  const Slice own = block(s.rank);
  const auto here = [](Slice slice) { return scratch(0, slice); };
  p.agree();
  if (!children.empty()) p.scratch_slots(1);
  for (const int child : children) {
    for (const Slice& run : tree.runs_below(child)) p.recv(tree.rank_at(child), here(run));
  }
  if (!is_root && !children.empty()) p.copy(here(own), input(own));
  for (const int child : children) p.await_recv(only(tree.rank_at(child)));
  if (is_root) {  // the calls in all messages were compared by now
    p.copy(output(own), input(own));
    p.for_each_other([&](Expr peer) { p.copy(output(block(peer)), here(block(peer))); });
  } else if (children.empty()) {
    p.send(tree.rank_at(base::tree_parent(tree.place)), input(own));
  } else {
    for (const Slice& run : tree.runs_below(tree.place)) {
      p.send(tree.rank_at(base::tree_parent(tree.place)), here(run));
    }
  }
  return p.take();
}

}  // namespace tutti::plan
