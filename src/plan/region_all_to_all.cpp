#include "plan/block_slots.hpp"
#include "plan/builders.hpp"
#include "plan/region_slots.hpp"

// kStaged also shows how far a rank has copied out, see below.
namespace tutti::plan {

Schedule one_shot_all_to_all(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::all_to_all, s);
  p.symmetry(Symmetry::rotation);
  p.stage_slots(1);
  const Slice own = block(s.rank);
  p.for_each_other([&](Expr peer) { p.copy(p.stage(0, block(peer)), input(block(peer))); });
  p.meet();
  p.copy(output(own), input(own));
  p.for_each_other(
      [&](Expr peer) { p.copy(output(block(peer)), Program::stage_of(peer, 0, own)); });
  return p.take();
}

// Round i stages chunk i + 1 of the block for each rank and copies out chunk i of the blocks for
// this rank; a line means that chunk 0 is staged. Slots are free again for the same reason as in
// chunked_all_gather.
Schedule chunked_all_to_all(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("chunked", Kind::all_to_all, s);
  p.symmetry(Symmetry::rotation);
  set_block_slots(p, s.chunk_bytes, s.size);
  const Expr me = s.rank;
  stage_first_chunks(p);
  p.meet();
  p.loop(block_chunks());
  stage_next_chunks(p, s.size);
  if (s.size > 1) p.signal(kStaged, i + 1);
  p.copy(output(block_chunk(me, i)), input(block_chunk(me, i)));
  p.for_each_other([&](Expr peer) {
    p.await(kStaged, only(peer), i);
    p.copy(output(block_chunk(peer, i)),
           Program::stage_of(peer, block_slot(me, 0, s.size), block_chunk(me, i)));
  });
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
