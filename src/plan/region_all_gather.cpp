#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// kStaged also shows how far a rank has copied out, see below.
namespace tutti::plan {

Schedule one_shot_all_gather(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::all_gather, s);
  p.symmetry(Symmetry::rotation);
  p.stage_slots(1);
  p.slots_hold(kSlotOfBlock);
  const auto all_of = [](Expr rank) { return block_chunk(rank, 0); };
  const Expr me = s.rank;
  if (s.size > 1) p.copy(p.stage(0, all_of(me)), input(all_of(me)));
  p.meet();
  p.copy(output(all_of(me)), input(all_of(me)));
  p.for_each_other(
      [&](Expr peer) { p.copy(output(all_of(peer)), Program::stage_of(peer, 0, all_of(peer))); });
  return p.take();
}

// Round i stages chunk i + 1 and copies out chunk i of all ranks; a line means that chunk 0 is
// staged. The slot of chunk i + 1 held chunk i + 1 - kChunkSlots. It is free: in round i - 1 all
// ranks were seen to have staged chunk i - 1, which they do after they have copied out everything
// up to chunk i - 3.
Schedule chunked_all_gather(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("chunked", Kind::all_gather, s);
  p.symmetry(Symmetry::rotation);
  p.chunks_of(s.chunk_bytes, kSlotOfBlock);
  p.stage_cycle(kChunkSlots);
  const Expr me = s.rank;
  const auto stage = [&](Expr c, Expr slot) {
    if (s.size > 1) p.copy(p.stage(slot, block_chunk(me, c)), input(block_chunk(me, c)));
  };
  stage(0, 0);
  p.meet();
  p.loop(block_chunks());
  stage(i + 1, (i + 1) % kChunkSlots);
  if (s.size > 1) p.signal(kStaged, i + 1);
  p.copy(output(block_chunk(me, i)), input(block_chunk(me, i)));
  p.for_each_other([&](Expr peer) {
    p.await(kStaged, only(peer), i);
    p.copy(output(block_chunk(peer, i)),
           Program::stage_of(peer, i % kChunkSlots, block_chunk(peer, i)));
  });
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
