#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

namespace tutti::plan {
namespace {

/// Takes this rank's part of chunk i, then the others' parts, from the next rank on.
void copy_out(Program& p, int rank, int size) {
  const Expr result_slot = var_i(0, kSlots, kSlots);
  const auto parts_of = [&](Expr owner) { return chunk_part(var_i(), owner, size); };
  p.copy(output(parts_of(constant(rank))), p.stage(result_slot, parts_of(constant(rank))));
  p.for_each_other([&](Expr owner) {
    p.await(kSummed, only(owner), var_i(1));
    p.copy(output(parts_of(owner)), Program::stage_of(owner, result_slot, parts_of(owner)));
  });
}

}  // namespace

Schedule one_shot_all_reduce(const Shape& s) {
  Program p("one_shot", Kind::all_reduce, s);
  p.schedule().region = true;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().stage_slots = 1;
  p.copy(p.stage(constant(0), whole()), input(whole()));
  p.publish();
  p.await_line(p.others());
  p.agree();
  p.reduce_stages(output(whole()), p.everybody(), constant(0), whole(), false);
  p.mark_last();
  return p.take();
}

Schedule shared_one_shot_all_reduce(const Shape& s) {
  Program p("shared_one_shot", Kind::all_reduce, s);
  p.schedule().region = true;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().stage_slots = 2;
  p.copy(p.stage(constant(0), whole()), input(whole()));
  p.publish();
  p.await_line(p.others());
  p.agree();
  const std::size_t claim = p.claim(kSummed, p.others(), constant(1));
  p.reduce_stages(p.stage(constant(1), whole()), p.everybody(), constant(0), whole(), false);
  p.mark_last();
  p.signal(kSummed, constant(1));
  p.copy(output(whole()), p.stage(constant(1), whole()));
  const std::size_t end = p.jump();
  p.land(claim);
  p.copy(output(whole()), Program::stage_of_winner(constant(1), whole()));
  p.land(end);
  return p.take();
}

// Two counters, so that nobody waits for a sum until its owner has staged the next chunk, too. In
// round i a rank
// - adds up its part of chunk i as soon as all have staged that (kStaged i; the lines stand for
//   chunk 0) and says so (kSummed i + 1);
// - stages chunk i + 1 in the slot of chunk i + 1 - kSlots: who has staged chunk i has added up
//   chunk i - 1, and kSlots >= 2;
// - takes the others' parts, each as soon as it is there.
// The result of chunk i takes the slot of that of chunk i - kSlots: who has staged chunk i has
// taken everything up to chunk i - 2.
Schedule slice_owner_all_reduce(const Shape& s) {
  Program p("slice_owner", Kind::all_reduce, s);
  p.schedule().region = true;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().chunk_bytes = s.chunk_bytes;
  p.schedule().stage_slots = 2 * kSlots;
  p.schedule().slot_cycle = kSlots;
  p.schedule().slot_parts = 1;
  stage_others(p, constant(0), constant(0), s);
  p.publish();
  p.await_line(p.others());
  p.agree();
  p.loop(chunks());
  p.await(kStaged, p.others(), var_i());
  const Slice own = chunk_part(var_i(), constant(s.rank), s.size);
  p.reduce_stages(p.stage(var_i(0, kSlots, kSlots), own), p.everybody(), var_i(0, kSlots), own,
                  true);
  p.mark_last();
  p.signal(kSummed, var_i(1));
  stage_others(p, var_i(1, kSlots), var_i(1), s);
  p.signal(kStaged, var_i(1));
  copy_out(p, s.rank, s.size);
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
