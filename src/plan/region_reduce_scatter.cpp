#include "plan/block_slots.hpp"
#include "plan/builders.hpp"
#include "plan/region_slots.hpp"

// kStaged also shows how far a rank has reduced, see below.
namespace tutti::plan {

// A rank's own contribution to its own block never leaves its input.
Schedule one_shot_reduce_scatter(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::reduce_scatter, s);
  p.symmetry(Symmetry::rotation);
  p.stage_slots(1);
  p.for_each_other([&](Expr peer) { p.copy(p.stage(0, block(peer)), input(block(peer))); });
  p.meet();
  const Slice own = block(s.rank);
  p.reduce_stages(output(own), p.everybody(), 0, own, true);
  p.mark_last();
  return p.take();
}

// Round i stages chunk i + 1 of each rank's block and adds chunk i of the own block; a line means
// that chunk 0 is staged. Slots are free again for the same reason as in chunked_all_gather.
Schedule chunked_reduce_scatter(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("chunked", Kind::reduce_scatter, s);
  p.symmetry(Symmetry::rotation);
  set_block_slots(p, s.chunk_bytes, s.size);
  stage_first_chunks(p);
  p.meet();
  p.loop(block_chunks());
  stage_next_chunks(p, s.size);
  if (s.size > 1) {
    p.signal(kStaged, i + 1);
    p.await(kStaged, p.others(), i);
  }
  const Slice own = block_chunk(s.rank, i);
  p.reduce_stages(output(own), p.everybody(), block_slot(s.rank, 0, s.size), own, true);
  p.mark_last();
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
