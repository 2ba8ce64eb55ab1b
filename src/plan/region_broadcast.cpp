#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// The root counts kStaged, the others kTaken.
namespace tutti::plan {

Schedule region_broadcast_one_shot(const Shape& s) {
  Program p = Program::on_region("broadcast_one_shot", Kind::broadcast, s);
  p.stage_slots(1);
  if (s.rank == s.root) {
    p.copy(p.stage(0, whole()), input(whole()));
    p.publish();
    p.agree();
  } else {
    p.publish();
    p.await_line(only(s.root));
    p.agree();
    p.copy(output(whole()), Program::stage_of(s.root, 0, whole()));
  }
  return p.take();
}

// The root's line means that chunk 0 is staged, its counter c that c more are. A slot is filled
// again when all have taken the chunk in it, which is kChunkSlots chunks older.
Schedule region_broadcast_chunked(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("broadcast_chunked", Kind::broadcast, s);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  p.stage_cycle(kChunkSlots);
  if (s.rank == s.root) {
    p.copy(p.stage(0, chunk(0)), input(chunk(0)));
    p.publish();
    p.agree();
    p.loop(chunks(-1));  // chunk i + 1
    p.await(kTaken, p.others(), i + 2 - kChunkSlots);
    p.copy(p.stage((i + 1) % kChunkSlots, chunk(i + 1)), input(chunk(i + 1)));
    p.signal(kStaged, i + 1);
    p.end_loop();
  } else {
    const Expr root = s.root;
    p.publish();
    p.await_line(only(root));
    p.agree();
    p.loop(chunks());
    p.await(kStaged, only(root), i);
    p.copy(output(chunk(i)), Program::stage_of(root, i % kChunkSlots, chunk(i)));
    p.signal(kTaken, i + 1);
    p.end_loop();
  }
  return p.take();
}

}  // namespace tutti::plan
