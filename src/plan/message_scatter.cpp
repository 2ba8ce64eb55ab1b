#include "base/addition_order.hpp"
#include "plan/block_runs.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"

namespace tutti::plan {

Schedule direct_scatter(const Shape& s) {
  Program p = Program::by_messages("direct", Kind::scatter, s);
  const Slice own = block(s.rank);
  p.agree();
  if (s.rank == s.root) {
    p.for_each_other([&](Expr peer) { p.send(peer, input(block(peer))); });
    p.copy(output(own), input(own));
    return p.take();
  }
  p.recv(s.root, output(own));
  p.await_recv(only(s.root));
  return p.take();
}

// The reverse of binomial_gather. The root collects its blocks in scratch first, because its input
// may be a list.
Schedule binomial_scatter(const Shape& s) {
  Program p = Program::by_messages("binomial", Kind::scatter, s);
  const BlockTree tree(s);
  const std::vector<int> children = base::tree_children(tree.place, s.size);
  const bool is_root = tree.place == 0;
  const Slice own = block(s.rank);
  const auto here = [](Slice slice) { return scratch(0, slice); };
  p.agree();
  if (!children.empty()) p.scratch_slots(1);
  if (is_root) {
    p.for_each_other([&](Expr peer) { p.copy(here(block(peer)), input(block(peer))); });
  } else {
    const Expr parent = tree.rank_at(base::tree_parent(tree.place));
    if (children.empty()) p.recv(parent, output(own));
    if (!children.empty()) {
      for (const Slice& run : tree.runs_below(tree.place)) p.recv(parent, here(run));
    }
    p.await_recv(only(parent));
  }
  for (auto child = children.rbegin(); child != children.rend(); ++child) {  // deepest first
    for (const Slice& run : tree.runs_below(*child)) p.send(tree.rank_at(*child), here(run));
  }
  if (is_root) {
    p.copy(output(own), input(own));
  } else if (!children.empty()) {
    p.copy(output(own), here(own));
  }
  return p.take();
}

}  // namespace tutti::plan
