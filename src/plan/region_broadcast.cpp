#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// The root counts kStaged, the others kTaken.
namespace tutti::plan {

Schedule region_broadcast_one_shot(const Shape& s) {
  Program p("broadcast_one_shot", Kind::broadcast, s);
  p.schedule().region = true;
  p.schedule().stage_slots = 1;
  if (s.rank == s.root) {
    p.copy(p.stage(constant(0), whole()), input(whole()));
    p.publish();
    p.agree();
  } else {
    p.publish();
    p.await_line(only(constant(s.root)));
    p.agree();
    p.copy(output(whole()), Program::stage_of(constant(s.root), constant(0), whole()));
  }
  return p.take();
}

// The root's line says that chunk 0 is staged, its counter that c more are. A slot is filled again
// when everybody has taken what it held kSlots chunks ago.
Schedule region_broadcast_chunked(const Shape& s) {
  Program p("broadcast_chunked", Kind::broadcast, s);
  p.schedule().region = true;
  p.schedule().chunk_bytes = s.chunk_bytes;
  p.schedule().stage_slots = kSlots;
  p.schedule().slot_cycle = kSlots;
  p.schedule().slot_parts = 1;
  if (s.rank == s.root) {
    p.copy(p.stage(constant(0), chunk(constant(0))), input(chunk(constant(0))));
    p.publish();
    p.agree();
    p.loop(chunks(-1));  // chunk i + 1
    p.await(kTaken, p.others(), var_i(2 - kSlots));
    p.copy(p.stage(var_i(1, kSlots), chunk(var_i(1))), input(chunk(var_i(1))));
    p.signal(kStaged, var_i(1));
    p.end_loop();
  } else {
    const Expr root = constant(s.root);
    p.publish();
    p.await_line(only(root));
    p.agree();
    p.loop(chunks());
    p.await(kStaged, only(root), var_i());
    p.copy(output(chunk(var_i())), Program::stage_of(root, var_i(0, kSlots), chunk(var_i())));
    p.signal(kTaken, var_i(1));
    p.end_loop();
  }
  return p.take();
}

}  // namespace tutti::plan
