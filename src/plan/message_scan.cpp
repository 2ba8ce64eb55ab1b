#include <tutti/backend/kinds.hpp>
#include "plan/builders.hpp"
#include "plan/message_window.hpp"
#include "plan/program.hpp"

// scan and exclusive_scan by messages. Each result is added in one step, in the order of the tree
// over the ranks that are in it.
namespace tutti::plan {
namespace {

/// Each rank sends a copy of its whole input to the higher ranks, because the result may overwrite
/// the input.
Schedule exchange(Kind kind, const Shape& s) {
  Program p = Program::by_messages("exchange", kind, s);
  p.scratch_slots(s.size);  // slot r is the contribution of rank r
  const Operand own = scratch(s.rank, whole());
  if (s.rank < s.size - 1) p.copy(own, input(whole()));
  p.for_ranks(s.rank + 1, s.size - 1 - s.rank, [&](Expr peer) { p.send(peer, own); });
  p.for_ranks(0, s.rank, [&](Expr peer) { p.recv(peer, scratch(peer, whole())); });
  if (s.rank > 0) p.await_recv(ranks_from(0, s.rank));
  p.agree();
  const int combined = ranks_in_result(kind, s.rank, 0, s.size).count;
  if (combined == 0) return p.take();
  p.reduce_slots(output(whole()), ranks_from(0, combined), 0, whole(), true);
  if (combined > 1) p.mark_last();
  return p.take();
}

/// As direct_all_reduce, but the owner of a part makes a result for each rank and keeps it in a
/// slot. A rank sends its contribution of chunk i + kChunksInFlight only when it has the results of
/// chunk i: so an owner that gets it may overwrite that result.
Schedule direct(Kind kind, const Shape& s) {
  Program p = Program::by_messages("direct", kind, s);
  const int n = s.size;
  const auto combined = [&](int rank) { return ranks_in_result(kind, rank, 0, n).count; };
  const bool gets = combined(s.rank) > 0;
  if (n == 1) {
    p.agree();
    if (gets) p.reduce_slots(output(whole()), p.everybody(), 0, whole(), true);
    return p.take();
  }
  p.chunks_of(window_chunk(s), n);
  p.scratch_slots(2 * kChunksInFlight * n);  // contributions, then results, of each rank
  const Contributions c{p, s, [n](Expr owner, Expr chunk) { return part_chunk(owner, n, chunk); }};
  const Slice own = c.slice(s.rank, 0);
  const auto add = [&](int rank, const Operand& result) {
    p.reduce_slots(result, ranks_from(0, combined(rank)), c.slot(0, 0), own, true);
    if (combined(rank) > 1) p.mark_last();
  };
  p.agree();
  p.loop(times(kChunksInFlight));
  // Receives of nothing, so that every round may miss equally many.
  if (gets) c.post_results(-kChunksInFlight);
  c.exchange(0);
  p.end_loop();
  p.loop(part_chunks(n));
  if (gets) c.post_results(0);
  p.await_recv(p.others(), gets ? 2 * kChunksInFlight - 1 : kChunksInFlight - 1);
  for (int k = 1; k < n; ++k) {
    const int rank = (s.rank + k) % n;
    if (combined(rank) == 0) continue;
    const Operand result = scratch(c.slot(0, rank) + kChunksInFlight * n, own);
    add(rank, result);
    p.send(rank, result);
  }
  if (gets) {
    add(s.rank, output(own));  // comes last, because it may overwrite the input
    p.await_recv(p.others());
  }
  c.exchange(kChunksInFlight);
  p.end_loop();
  return p.take();
}

}  // namespace

Schedule exchange_scan(const Shape& s) { return exchange(Kind::scan, s); }
Schedule exchange_exclusive_scan(const Shape& s) { return exchange(Kind::exclusive_scan, s); }
Schedule direct_scan(const Shape& s) { return direct(Kind::scan, s); }
Schedule direct_exclusive_scan(const Shape& s) { return direct(Kind::exclusive_scan, s); }

}  // namespace tutti::plan
