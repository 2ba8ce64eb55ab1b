#include "plan/two_level.hpp"

// The leader of a host adds what its ranks have staged; the leaders exchange these sums; each
// leader stages the result for its host. Hosts must be aligned: then a host's sum is a subtree of
// the binomial tree (docs/reference/semantics.md). If they are not, the direct algorithm is used.
namespace tutti::plan {
namespace {

// kLocal counts the rounds in which a chunk was staged, kLeader the chunks whose result is staged.
constexpr int kLag = 1;  // rounds between a leader's message and its use

/// Adds the contributions of this host's ranks into the scratch slot.
void add_host(Program& p, const Hosts& hosts, int rank, Expr scratch_slot, Expr stage_slot,
              Slice slice) {
  if (hosts.alone()) {
    p.copy(scratch(scratch_slot, slice), input(slice));
    return;
  }
  p.reduce_stages(scratch(scratch_slot, slice),
                  ranks_from(rank, static_cast<int>(hosts.local.size())), stage_slot, slice, false);
  if (hosts.count == 1) p.mark_last();  // the sum of one host is the result
}

/// Small operations: without chunks; every leader sends its host's sum to every other leader.
void whole_by_leader(Program& p, const Hosts& hosts, int rank) {
  const int n = hosts.count;
  const Expr mine = hosts.mine;
  p.scratch_slots(n);  // slot h is the sum of host h
  hosts.each_other_leader([&](int peer, int host) { p.recv(peer, scratch(host, whole())); });
  add_host(p, hosts, rank, mine, 0, whole());
  hosts.each_other_leader([&](int peer, int) { p.send(peer, scratch(mine, whole())); });
  hosts.each_other_leader([&](int peer, int) { p.await_recv(only(peer)); });
  p.reduce_slots(p.stage(1, whole()), ranks_from(0, n), 0, whole(), false);
  if (n > 1) p.mark_last();
  if (!hosts.alone()) p.signal(kLeader, 1);
  p.agree();
  p.copy(output(whole()), p.stage(1, whole()));
}

Schedule in_one_piece(Program& p, const Hosts& hosts, const Shape& s) {
  p.stage_slots(2);  // the contribution, the result
  if (!hosts.alone()) p.copy(p.stage(0, whole()), input(whole()));
  p.publish();
  if (s.rank == hosts.leader) {
    for (const RankSet& set : hosts.local_without(s.rank)) p.await_line(set);
    whole_by_leader(p, hosts, s.rank);
  } else {
    const Expr leader = hosts.leader;
    p.await_line(only(leader));
    p.await(kLeader, only(leader), 1);
    p.agree();
    p.copy(output(whole()), Program::stage_of(leader, 1, whole()));
  }
  return p.take();
}

/// Round i of a rank that is not a leader: stage chunk i, copy out the result of chunk i - 2 kLag.
void local_rounds(Program& p, const Hosts& hosts) {
  const Expr i = Expr::loop();
  const Expr leader = hosts.leader;
  const Slice taken = chunk(i - 2 * kLag);
  p.loop(chunks(2 * kLag));
  p.copy(p.stage(i % kChunkSlots, chunk(i)), input(chunk(i)));
  p.signal(kLocal, i + 1);
  p.await(kLeader, only(leader), i + 1 - 2 * kLag);
  p.copy(output(taken),
         Program::stage_of(leader, (i - 2 * kLag) % kChunkSlots + kChunkSlots, taken));
  p.end_loop();
}

/// Round i of a leader: add the host's chunk i and send the other leaders their parts of it; add
/// the own part of chunk i - kLag and send it to all; signal that the result of chunk i - 2 kLag is
/// staged. Between two leaders, sums of hosts (chunk i) and results (chunk i - kLag) take turns.
void leader_rounds(Program& p, const Hosts& hosts, int rank) {
  const Expr i = Expr::loop();
  const int n = hosts.count;
  const Expr mine = hosts.mine;
  // For each chunk of the window, slot h takes host h's sum of this host's part; the own slot holds
  // the sum of this host, all parts.
  p.scratch_slots(kChunkSlots * n);
  const auto slot = [&](int ahead, int host) { return window_slot(kChunkSlots, n, ahead) + host; };
  const auto piece = [&](Expr host, int ahead) { return chunk_part(i + ahead, host, n); };
  const Expr result_slot = (i - kLag) % kChunkSlots + kChunkSlots;
  p.loop(chunks(2 * kLag));
  if (!hosts.alone()) {
    p.copy(p.stage(i % kChunkSlots, chunk(i)), input(chunk(i)));
  }
  for (const RankSet& set : hosts.local_without(rank)) p.await(kLocal, set, i + 1);
  add_host(p, hosts, rank, slot(0, hosts.mine), i % kChunkSlots, chunk(i));
  hosts.each_other_leader([&](int peer, int host) {
    p.recv(peer, scratch(slot(0, host), piece(mine, 0)));
    p.send(peer, scratch(slot(0, hosts.mine), piece(host, 0)));
  });
  hosts.each_other_leader(
      [&](int peer, int host) { p.recv(peer, p.stage(result_slot, piece(host, -kLag))); });
  hosts.each_other_leader([&](int peer, int) { p.await_recv(only(peer), 2 * kLag + 1); });
  p.reduce_slots(p.stage(result_slot, piece(mine, -kLag)), ranks_from(0, n), slot(-kLag, 0),
                 piece(mine, -kLag), false);
  if (n > 1) p.mark_last();
  hosts.each_other_leader(
      [&](int peer, int) { p.send(peer, p.stage(result_slot, piece(mine, -kLag))); });
  hosts.each_other_leader([&](int peer, int) { p.await_recv(only(peer), 2 * kLag); });
  const Slice done = chunk(i - 2 * kLag);
  if (!hosts.alone()) p.signal(kLeader, i + 1 - 2 * kLag);
  p.copy(output(done), p.stage((i - 2 * kLag) % kChunkSlots + kChunkSlots, done));
  p.end_loop();
}

}  // namespace

Schedule two_level_all_reduce(const Shape& s) {
  if (!s.topology->aligned) return direct_all_reduce(s);
  const Hosts hosts(s);
  Program p = Program::two_level("two_level", Kind::all_reduce, s);
  p.symmetry(Symmetry::per_host);
  if (s.chunk_bytes == 0) return in_one_piece(p, hosts, s);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  p.stage_cycle(kChunkSlots, 2);
  p.publish();
  if (s.rank == hosts.leader) {
    for (const RankSet& set : hosts.local_without(s.rank)) p.await_line(set);
    p.agree();
    leader_rounds(p, hosts, s.rank);
  } else {
    p.await_line(only(hosts.leader));
    p.agree();
    local_rounds(p, hosts);
  }
  return p.take();
}

}  // namespace tutti::plan
