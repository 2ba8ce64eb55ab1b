#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

namespace tutti::plan {
namespace {

/// Copies this rank's part of chunk i to the output, then the others' parts, from the next rank on.
void copy_out(Program& p, int rank, int size) {
  const Expr i = Expr::loop();
  const Expr result_slot = i % kChunkSlots + kChunkSlots;
  const auto parts_of = [&](Expr owner) { return chunk_part(i, owner, size); };
  p.copy(output(parts_of(rank)), p.stage(result_slot, parts_of(rank)));
  p.for_each_other([&](Expr owner) {
    p.await(kSummed, only(owner), i + 1);
    p.copy(output(parts_of(owner)), Program::stage_of(owner, result_slot, parts_of(owner)));
  });
}

}  // namespace

Schedule one_shot_all_reduce(const Shape& s) {
  Program p = Program::on_region("one_shot", Kind::all_reduce, s);
  p.symmetry(Symmetry::rotation);
  p.stage_slots(1);
  p.copy(p.stage(0, whole()), input(whole()));
  p.meet();
  p.reduce_stages(output(whole()), p.everybody(), 0, whole(), false);
  p.mark_last();
  return p.take();
}

Schedule shared_one_shot_all_reduce(const Shape& s) {
  Program p = Program::on_region("shared_one_shot", Kind::all_reduce, s);
  p.symmetry(Symmetry::rotation);
  p.stage_slots(2);
  p.copy(p.stage(0, whole()), input(whole()));
  p.meet();
  const std::size_t claim = p.claim(kSummed, p.others(), 1);
  p.reduce_stages(p.stage(1, whole()), p.everybody(), 0, whole(), false);
  p.mark_last();
  p.signal(kSummed, 1);
  p.copy(output(whole()), p.stage(1, whole()));
  const std::size_t end = p.jump();
  p.land(claim);
  p.copy(output(whole()), Program::stage_of_winner(1, whole()));
  p.land(end);
  return p.take();
}

// There are two counters. With one a rank would wait for a sum until its owner has also staged the
// next chunk. In round i a rank
// - adds up its part of chunk i as soon as all have staged that chunk (kStaged i; the lines stand
//   for chunk 0), and signals kSummed i + 1;
// - stages chunk i + 1 in the slot of chunk i + 1 - kChunkSlots. That slot is free, because a rank
//   that has staged chunk i has added up chunk i - 1, and kChunkSlots >= 2;
// - copies the others' parts out, each as soon as it is there.
// The result of chunk i takes the slot of the result of chunk i - kChunkSlots. That slot is free,
// because a rank that has staged chunk i has copied out everything up to chunk i - 2.
Schedule slice_owner_all_reduce(const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("slice_owner", Kind::all_reduce, s);
  p.symmetry(Symmetry::rotation);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  p.stage_cycle(kChunkSlots, 2);
  stage_others(p, 0, 0, s);
  p.meet();
  p.loop(chunks());
  p.await(kStaged, p.others(), i);
  const Slice own = chunk_part(i, s.rank, s.size);
  p.reduce_stages(p.stage(i % kChunkSlots + kChunkSlots, own), p.everybody(), i % kChunkSlots, own,
                  true);
  p.mark_last();
  p.signal(kSummed, i + 1);
  stage_others(p, (i + 1) % kChunkSlots, i + 1, s);
  p.signal(kStaged, i + 1);
  copy_out(p, s.rank, s.size);
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
