#include <tutti/backend/kinds.hpp>
#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/region_slots.hpp"

// scan and exclusive_scan: each rank adds up what the ranks up to it have staged, in the order of
// the tree over them. So it gets the same bits as an all_reduce among these ranks.
namespace tutti::plan {
namespace {

/// A rank reads from lower ranks only, so it compares only their calls with its own.
Schedule one_shot(Kind kind, const Shape& s) {
  Program p = Program::on_region("one_shot", kind, s);
  p.stage_slots(1);
  if (s.rank < s.size - 1) p.copy(p.stage(0, whole()), input(whole()));
  p.publish();
  if (s.rank > 0) p.await_line(ranks_from(0, s.rank));
  p.agree();
  const int combined = ranks_in_result(kind, s.rank, 0, s.size).count;
  if (combined == 0) return p.take();
  p.reduce_stages(output(whole()), ranks_from(0, combined), 0, whole(), true);
  if (combined > 1) p.mark_last();
  return p.take();
}

/// Round i stages chunk i + 1 and adds chunk i; a line means that chunk 0 is staged. A rank that
/// has staged chunk i has taken everything up to chunk i - 2. So the same counter and wait show
/// when a slot may be filled again.
Schedule chunked(Kind kind, const Shape& s) {
  const Expr i = Expr::loop();
  Program p = Program::on_region("chunked", kind, s);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  p.stage_cycle(kChunkSlots);
  const bool is_read = s.rank < s.size - 1;
  const int combined = ranks_in_result(kind, s.rank, 0, s.size).count;
  if (is_read) p.copy(p.stage(0, chunk(0)), input(chunk(0)));
  p.publish();
  if (s.rank > 0) p.await_line(ranks_from(0, s.rank));
  p.agree();
  p.loop(chunks());
  if (is_read) p.copy(p.stage((i + 1) % kChunkSlots, chunk(i + 1)), input(chunk(i + 1)));
  if (s.size > 1) {
    p.signal(kStaged, i + 1);
    p.await(kStaged, p.others(), i);
  }
  if (combined > 0) {
    p.reduce_stages(output(chunk(i)), ranks_from(0, combined), i % kChunkSlots, chunk(i), true);
    if (combined > 1) p.mark_last();
  }
  p.end_loop();
  return p.take();
}

}  // namespace

Schedule one_shot_scan(const Shape& s) { return one_shot(Kind::scan, s); }
Schedule one_shot_exclusive_scan(const Shape& s) { return one_shot(Kind::exclusive_scan, s); }
Schedule chunked_scan(const Shape& s) { return chunked(Kind::scan, s); }
Schedule chunked_exclusive_scan(const Shape& s) { return chunked(Kind::exclusive_scan, s); }

}  // namespace tutti::plan
