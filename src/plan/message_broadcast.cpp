#include <vector>

#include "base/addition_order.hpp"
#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

// A rank compares the call in the message that it gets before it sends on, so agreement needs no
// message of its own. Messages arrive in the output; a rank sends on from its output.
namespace tutti::plan {

// One hop. The root sends P - 1 times, so this is for what is small.
Schedule direct_broadcast(const Shape& s) {
  Program p = Program::by_messages("direct_broadcast", Kind::broadcast, s);
  p.agree();
  if (s.rank == s.root) {
    p.for_each_other([&](Expr peer) { p.send(peer, input(whole())); });
    return p.take();
  }
  p.recv(s.root, output(whole()));
  p.await_recv(only(s.root));
  return p.take();
}

Schedule binomial_broadcast(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("binomial_broadcast", Kind::broadcast, s);
  p.chunks_of(s.chunk_bytes);
  const int place = s.place_of(s.rank);  // the tree's root is at place 0
  const bool is_root = place == 0;
  const Expr parent = s.rank_at(is_root ? 0 : base::tree_parent(place));
  const std::vector<int> children = base::tree_children(place, s.size);
  const auto mine = [&](Expr c) { return is_root ? input(chunk(c)) : output(chunk(c)); };
  p.agree();
  if (!is_root) {
    p.loop(times(kChunksInFlight));
    p.recv(parent, output(chunk(i)));
    p.end_loop();
  }
  p.loop(chunks());
  if (!is_root) p.await_recv(only(parent), kChunksInFlight - 1);
  for (auto child = children.rbegin(); child != children.rend(); ++child) {  // deepest first
    p.send(s.rank_at(*child), mine(i));
  }
  if (!is_root) p.recv(parent, output(chunk(i + kChunksInFlight)));
  p.end_loop();
  return p.take();
}

// The operation is divided among the ranks that are not the root. The root sends each its part, and
// each sends its part to all others as the chunks come in.
Schedule scatter_all_gather_broadcast(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::by_messages("scatter_all_gather_broadcast", Kind::broadcast, s);
  p.chunks_of(s.chunk_bytes);
  const int parts = s.size - 1;
  const Expr root = s.root;
  // Peers in turn from the next one on, without the root; number of a part = place counted from the
  // root - 1.
  const auto slice = [&](int rank, Expr c) { return part_chunk(s.place_of(rank) - 1, parts, c); };
  p.agree();
  if (s.size == 1) return p.take();
  if (s.rank == s.root) {
    p.loop(part_chunks(parts));
    for (int k = 1; k < s.size; ++k) {
      const int peer = s.rank_after(k);
      p.send(peer, input(slice(peer, i)));
    }
    p.end_loop();
    return p.take();
  }
  p.loop(times(kChunksInFlight));
  p.recv(root, output(slice(s.rank, i)));
  p.end_loop();
  const auto each_peer = [&](auto body) {
    for (int k = 1; k < s.size; ++k) {
      const int peer = s.rank_after(k);
      if (peer != s.root) body(peer);
    }
  };
  p.loop(part_chunks(parts));
  each_peer([&](int peer) { p.recv(peer, output(slice(peer, i))); });
  p.end_loop();
  p.loop(part_chunks(parts));
  p.await_recv(only(root), kChunksInFlight - 1);
  each_peer([&](int peer) { p.send(peer, output(slice(s.rank, i))); });
  p.recv(root, output(slice(s.rank, i + kChunksInFlight)));
  p.end_loop();
  p.await_recv(p.others());
  return p.take();
}

}  // namespace tutti::plan
