#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

namespace tutti::plan {

Schedule one_shot_reduce(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::reduce, s);
  p.stage_slots(1);
  if (s.rank != s.root) {
    p.copy(p.stage(0, whole()), input(whole()));
    p.publish();
    p.agree();
    return p.take();
  }
  p.meet();
  p.reduce_stages(output(whole()), p.everybody(), 0, whole(), true);
  p.mark_last();
  return p.take();
}

// As slice_owner_all_reduce, but only the root takes the sums. Its kStaged i means that it has
// taken all up to chunk i - 2, and the sum of chunk i goes to the slot of chunk i - kChunkSlots.
Schedule slice_owner_reduce(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("slice_owner", Kind::reduce, s);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  p.stage_cycle(kChunkSlots, 2);
  const bool is_root = s.rank == s.root;
  const Expr sum_slot = i % kChunkSlots + kChunkSlots;
  stage_others(p, 0, 0, s);
  p.meet();
  p.loop(chunks());
  const Slice own = chunk_part(i, s.rank, s.size);
  p.await(kStaged, p.others(), i);
  p.reduce_stages(is_root ? output(own) : p.stage(sum_slot, own), p.everybody(), i % kChunkSlots,
                  own, true);
  p.mark_last();
  if (!is_root) p.signal(kSummed, i + 1);
  stage_others(p, (i + 1) % kChunkSlots, i + 1, s);
  if (s.size > 1) p.signal(kStaged, i + 1);
  if (is_root) {
    p.for_each_other([&](Expr owner) {
      const Slice theirs = chunk_part(i, owner, s.size);
      p.await(kSummed, only(owner), i + 1);
      p.copy(output(theirs), Program::stage_of(owner, sum_slot, theirs));
    });
  }
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
