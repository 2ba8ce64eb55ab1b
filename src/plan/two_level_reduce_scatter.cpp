#include "plan/block_slots.hpp"
#include "plan/region_slots.hpp"
#include "plan/two_level.hpp"

namespace tutti::plan {

// The ranks of a lane own the lane's blocks. For each block of its lane a rank adds what the ranks
// of its host have staged, and sends the sum to the owner, which adds the sums of the hosts. Hosts
// must be aligned: then a host's sum is a subtree of the binomial tree
// (docs/reference/semantics.md). Round i stages chunk i + 1, adds the host's chunk i and finishes
// chunk i - 1. Slots are free:
// - slots of staging for the same reason as in chunked_reduce_scatter;
// - the slot of a sum that was sent for chunk i is used again for chunk i + kBlockSlots. By then a
//   chunk has come that the owner sent in its round i + 2, after it had received that sum. An owner
//   sends as many chunks as we do only if all blocks are equal.
// kStaged also shows how far a rank has reduced.
Schedule two_level_reduce_scatter(const Shape& s) {
  const Expr i = Expr::loop();
  static_assert(kBlockSlots >= 4);
  const Lanes lanes(s);
  if (!lanes.even || lanes.each == 1 || !s.topology->aligned) return direct_reduce_scatter(s);
  const int n = lanes.hosts;
  Program p = Program::two_level("two_level", Kind::reduce_scatter, s);
  set_block_slots(p, s.chunk_bytes, s.size);
  // Slot h of a round takes the sum of host h. The slots after all of those hold the sums that we
  // make for other ranks.
  if (n > 1) p.scratch_slots(2 * kBlockSlots * n);
  const auto theirs = [&](int host, int ahead) { return block_slot(host, ahead, n); };
  const auto ours = [&](int host) { return theirs(host, 0) + kBlockSlots * n; };
  const int first = lanes.rank_at(lanes.host, 0);
  const auto each_neighbour = [&](auto body) {
    for (int k = 1; k < lanes.each; ++k) body(first + (lanes.lane + k) % lanes.each);
  };
  const auto stage = [&](int ahead, bool in_loop) {
    for (int k = 1; k < lanes.each; ++k) {
      for (int host = 0; host < n; ++host) {
        const Expr owner = lanes.rank_at(host, (lanes.lane + k) % lanes.each);
        const Slice slice = block_chunk(owner, in_loop ? i + ahead : ahead);
        p.copy(p.stage(in_loop ? block_slot(owner, ahead, s.size) : owner, slice), input(slice));
      }
    }
  };
  const auto add_host = [&](Operand sum, int owner) {
    p.reduce_stages(sum, ranks_from(first, lanes.each), block_slot(owner, 0, s.size),
                    block_chunk(owner, i), true);
  };
  const auto own = [&](int ahead) { return block_chunk(s.rank, i + ahead); };
  stage(0, false);
  p.publish();
  each_neighbour([&](int rank) { p.await_line(only(rank)); });
  p.agree();
  p.loop(block_chunks(n > 1 ? 1 : 0));
  stage(1, true);
  p.signal(kStaged, i + 1);
  each_neighbour([&](int rank) { p.await(kStaged, only(rank), i); });
  if (n == 1) {
    add_host(output(own(0)), s.rank);
    p.mark_last();
    p.end_loop();
    return p.take();
  }
  for (int k = 1; k < n; ++k) {
    const int host = (lanes.host + k) % n;
    const int owner = lanes.rank_at(host, lanes.lane);
    const Operand sum = scratch(ours(host), block_chunk(owner, i));
    p.recv(owner, scratch(theirs(host, 0), own(0)));
    add_host(sum, owner);
    p.send(owner, sum);
  }
  add_host(scratch(theirs(lanes.host, 0), own(0)), s.rank);
  for (int k = 1; k < n; ++k) {
    const int owner = lanes.rank_at((lanes.host + k) % n, lanes.lane);
    p.await_recv(only(owner), 1);
  }
  p.reduce_slots(output(own(-1)), ranks_from(0, n), theirs(0, -1), own(-1), false);
  p.mark_last();
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
