#include "plan/block_slots.hpp"
#include "plan/builders.hpp"
#include "plan/region_slots.hpp"

// The root counts kStaged, the others kTaken.
namespace tutti::plan {

Schedule one_shot_scatter(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::scatter, s);
  p.stage_slots(1);
  const Slice own = block(s.rank);
  if (s.rank == s.root) {
    p.for_each_other([&](Expr peer) { p.copy(p.stage(0, block(peer)), input(block(peer))); });
    p.publish();
    p.agree();
    p.copy(output(own), input(own));
  } else {
    p.publish();
    p.await_line(only(s.root));
    p.agree();
    p.copy(output(own), Program::stage_of(s.root, 0, own));
  }
  return p.take();
}

// The root's line means that chunk 0 of all blocks is staged, its counter c that c more are. Slots
// are filled again when all have taken the chunks in them, which are kBlockSlots rounds older.
Schedule chunked_scatter(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("chunked", Kind::scatter, s);
  set_block_slots(p, s.chunk_bytes, s.size);
  const Expr me = s.rank;
  if (s.rank == s.root) {
    stage_first_chunks(p);
    p.publish();
    p.agree();
    p.copy(output(block(me)), input(block(me)));
    if (s.size == 1) return p.take();
    p.loop(block_chunks(-1));
    p.await(kTaken, p.others(), i + 2 - kBlockSlots);
    stage_next_chunks(p, s.size);
    p.signal(kStaged, i + 1);
    p.end_loop();
    return p.take();
  }
  const Expr root = s.root;
  p.publish();
  p.await_line(only(root));
  p.agree();
  p.loop(block_chunks());
  p.await(kStaged, only(root), i);
  p.copy(output(block_chunk(me, i)),
         Program::stage_of(root, block_slot(me, 0, s.size), block_chunk(me, i)));
  p.signal(kTaken, i + 1);
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
