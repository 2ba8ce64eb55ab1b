#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// The root counts kTaken, the others kStaged.
namespace tutti::plan {

Schedule one_shot_gather(const Shape& s) {
  Program p("one_shot", Kind::gather, s);
  p.schedule().region = true;
  p.schedule().stage_slots = 1;
  p.schedule().slot_parts = kSlotOfBlock;
  const auto all_of = [](Expr rank) { return block_chunk(rank, constant(0)); };
  const Expr me = constant(s.rank);
  if (s.rank != s.root) {
    p.copy(p.stage(constant(0), all_of(me)), input(all_of(me)));
    p.publish();
    p.agree();
    return p.take();
  }
  p.publish();
  p.await_line(p.others());
  p.agree();
  p.copy(output(all_of(me)), input(all_of(me)));
  p.for_each_other([&](Expr peer) {
    p.copy(output(all_of(peer)), Program::stage_of(peer, constant(0), all_of(peer)));
  });
  return p.take();
}

// A rank's line says that its chunk 0 is staged, its counter that c more are. A slot is filled
// again when the root has taken what it held kSlots chunks ago.
Schedule chunked_gather(const Shape& s) {
  Program p("chunked", Kind::gather, s);
  p.schedule().region = true;
  p.schedule().chunk_bytes = s.chunk_bytes;
  p.schedule().stage_slots = kSlots;
  p.schedule().slot_cycle = kSlots;
  p.schedule().slot_parts = kSlotOfBlock;
  const Expr me = constant(s.rank);
  if (s.rank != s.root) {
    const auto stage = [&](Expr c, Expr slot) {
      p.copy(p.stage(slot, block_chunk(me, c)), input(block_chunk(me, c)));
    };
    stage(constant(0), constant(0));
    p.publish();
    p.agree();
    p.loop(block_chunks(-1));
    p.await(kTaken, only(constant(s.root)), var_i(2 - kSlots));
    stage(var_i(1), var_i(1, kSlots));
    p.signal(kStaged, var_i(1));
    p.end_loop();
    return p.take();
  }
  p.publish();
  p.await_line(p.others());
  p.agree();
  p.copy(output(block(me)), input(block(me)));
  p.loop(block_chunks());
  p.for_each_other([&](Expr peer) {
    p.await(kStaged, only(peer), var_i());
    p.copy(output(block_chunk(peer, var_i())),
           Program::stage_of(peer, var_i(0, kSlots), block_chunk(peer, var_i())));
  });
  if (s.size > 1) p.signal(kTaken, var_i(1));
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
