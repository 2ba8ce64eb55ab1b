#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// kStaged also tells what was copied out, below.
namespace tutti::plan {

Schedule one_shot_all_gather(const Shape& s) {
  Program p("one_shot", Kind::all_gather, s);
  p.schedule().region = true;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().stage_slots = 1;
  p.schedule().slot_parts = kSlotOfBlock;
  const auto all_of = [](Expr rank) { return block_chunk(rank, constant(0)); };
  const Expr me = constant(s.rank);
  if (s.size > 1) p.copy(p.stage(constant(0), all_of(me)), input(all_of(me)));
  p.publish();
  p.await_line(p.others());
  p.agree();
  p.copy(output(all_of(me)), input(all_of(me)));
  p.for_each_other([&](Expr peer) {
    p.copy(output(all_of(peer)), Program::stage_of(peer, constant(0), all_of(peer)));
  });
  return p.take();
}

// Round i stages chunk i + 1 and takes everybody's chunk i; the lines say that chunk 0 is staged.
// The slot of chunk i + 1 held chunk i + 1 - kSlots: in round i - 1 everybody was seen to have
// staged chunk i - 1, which he did after he had taken everything up to chunk i - 3.
Schedule chunked_all_gather(const Shape& s) {
  Program p("chunked", Kind::all_gather, s);
  p.schedule().region = true;
  p.schedule().symmetry = Symmetry::rotation;
  p.schedule().chunk_bytes = s.chunk_bytes;
  p.schedule().stage_slots = kSlots;
  p.schedule().slot_cycle = kSlots;
  p.schedule().slot_parts = kSlotOfBlock;
  const Expr me = constant(s.rank);
  const auto stage = [&](Expr c, Expr slot) {
    if (s.size > 1) p.copy(p.stage(slot, block_chunk(me, c)), input(block_chunk(me, c)));
  };
  stage(constant(0), constant(0));
  p.publish();
  p.await_line(p.others());
  p.agree();
  p.loop(block_chunks());
  stage(var_i(1), var_i(1, kSlots));
  if (s.size > 1) p.signal(kStaged, var_i(1));
  p.copy(output(block_chunk(me, var_i())), input(block_chunk(me, var_i())));
  p.for_each_other([&](Expr peer) {
    p.await(kStaged, only(peer), var_i());
    p.copy(output(block_chunk(peer, var_i())),
           Program::stage_of(peer, var_i(0, kSlots), block_chunk(peer, var_i())));
  });
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
