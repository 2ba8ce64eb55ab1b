#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// The root counts kTaken, the others kStaged.
namespace tutti::plan {

Schedule one_shot_gather(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::gather, s);
  p.stage_slots(1);
  p.slots_hold(kSlotOfBlock);
  const auto all_of = [](Expr rank) { return block_chunk(rank, 0); };
  const Expr me = s.rank;
  if (s.rank != s.root) {
    p.copy(p.stage(0, all_of(me)), input(all_of(me)));
    p.publish();
    p.agree();
    return p.take();
  }
  p.meet();
  p.copy(output(all_of(me)), input(all_of(me)));
  p.for_each_other(
      [&](Expr peer) { p.copy(output(all_of(peer)), Program::stage_of(peer, 0, all_of(peer))); });
  return p.take();
}

// A rank's line means that its chunk 0 is staged, its counter c that c more are. A slot is filled
// again when the root has taken the chunk in it, which is kChunkSlots chunks older.
Schedule chunked_gather(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("chunked", Kind::gather, s);
  p.chunks_of(s.chunk_bytes, kSlotOfBlock);
  p.stage_cycle(kChunkSlots);
  const Expr me = s.rank;
  if (s.rank != s.root) {
    const auto stage = [&](Expr c, Expr slot) {
      p.copy(p.stage(slot, block_chunk(me, c)), input(block_chunk(me, c)));
    };
    stage(0, 0);
    p.publish();
    p.agree();
    p.loop(block_chunks(-1));
    p.await(kTaken, only(s.root), i + 2 - kChunkSlots);
    stage(i + 1, (i + 1) % kChunkSlots);
    p.signal(kStaged, i + 1);
    p.end_loop();
    return p.take();
  }
  p.meet();
  p.copy(output(block(me)), input(block(me)));
  p.loop(block_chunks());
  p.for_each_other([&](Expr peer) {
    p.await(kStaged, only(peer), i);
    p.copy(output(block_chunk(peer, i)),
           Program::stage_of(peer, i % kChunkSlots, block_chunk(peer, i)));
  });
  if (s.size > 1) p.signal(kTaken, i + 1);
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
