#include "plan/two_level.hpp"

#include "base/addition_order.hpp"

namespace tutti::plan {

Hosts::Hosts(const Shape& s) : count(s.topology->hosts), leaders(base::as_size(count), -1) {
  const std::vector<int>& host_of = s.topology->host_of;
  mine = base::at(host_of, s.rank);
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = base::at(host_of, rank);
    int& first = base::at(leaders, host);
    if (first < 0) first = rank;
    if (host == mine) local.push_back(rank);
  }
  leader = base::at(leaders, mine);
}

std::vector<RankSet> Hosts::local_without(int rank) const {
  std::vector<RankSet> sets;
  int last = 0;
  for (const int other : local) {
    if (other == rank) continue;
    if (!sets.empty() && other == last + 1) {
      ++sets.back().count;
    } else {
      sets.push_back(only(other));
    }
    last = other;
  }
  return sets;
}

Lanes::Lanes(const Shape& s) : hosts(s.topology->hosts), ranks_(base::as_size(s.topology->hosts)) {
  for (int rank = 0; rank < s.size; ++rank) {
    const int on = base::at(s.topology->host_of, rank);
    std::vector<int>& there = base::at(ranks_, on);
    if (rank == s.rank) {
      host = on;
      lane = static_cast<int>(there.size());
    }
    there.push_back(rank);
  }
  each = static_cast<int>(ranks_.front().size());
  for (const std::vector<int>& there : ranks_) even = even && there.size() == ranks_[0].size();
}

Schedule two_level_barrier(const Shape& s) {
  const Hosts hosts(s);
  Program p = Program::two_level("two_level_barrier", Kind::barrier, s);
  p.symmetry(Symmetry::per_host);
  p.publish();
  if (s.rank != hosts.leader) {
    // In a barrier the leader compares our line before it signals. But it may be in another
    // operation, where it also signals: so we compare its line.
    p.await_line(only(hosts.leader));
    p.await(kLeader, only(hosts.leader), 1);
    p.agree();
    return p.take();
  }
  for (const RankSet& set : hosts.local_without(s.rank)) p.await_line(set);
  // Dissemination among the leaders: slot 0 is sent, each round receives into one of its own.
  int slots = 1;
  const auto at = [&](int host) {
    return base::at(hosts.leaders, (host + hosts.count) % hosts.count);
  };
  for (int distance = 1; distance < hosts.count; distance *= 2) {
    p.recv(at(hosts.mine - distance), scratch(slots++, whole()));
    p.send(at(hosts.mine + distance), scratch(0, whole()));
    p.await_recv(only(at(hosts.mine - distance)));
  }
  p.scratch_slots(slots);
  p.agree();
  if (!hosts.alone()) p.signal(kLeader, 1);
  return p.take();
}

// The root is the leader of its host, the first rank the leader of every other host. Leaders are a
// binomial tree. A leader sends each chunk on to the next leaders and stages it for its host.
Schedule two_level_broadcast(const Shape& s) {
  const Expr i = Expr::loop();
  Hosts hosts(s);
  const int root_host = base::at(s.topology->host_of, s.root);
  base::at(hosts.leaders, root_host) = s.root;
  hosts.leader = base::at(hosts.leaders, hosts.mine);
  Program p = Program::two_level("two_level_broadcast", Kind::broadcast, s);
  p.symmetry(Symmetry::per_host);
  p.chunks_of(s.chunk_bytes, kSlotOfChunk);
  p.stage_cycle(kChunkSlots);
  p.publish();
  if (s.rank != hosts.leader) {
    const Expr leader = hosts.leader;
    p.await_line(only(leader));
    p.agree();
    p.loop(chunks());
    p.await(kLeader, only(leader), i + 1);
    p.copy(output(chunk(i)), Program::stage_of(leader, i % kChunkSlots, chunk(i)));
    p.signal(kLocal, i + 1);
    p.end_loop();
    return p.take();
  }
  const bool is_root = s.rank == s.root;
  const int place = (hosts.mine - root_host + hosts.count) % hosts.count;
  const auto leader_at = [&](int at) {
    return base::at(hosts.leaders, (at + root_host) % hosts.count);
  };
  const Expr parent = leader_at(is_root ? 0 : base::tree_parent(place));
  const std::vector<int> children = base::tree_children(place, hosts.count);
  const std::vector<RankSet> locals = hosts.local_without(s.rank);
  const Operand here = is_root ? input(chunk(i)) : output(chunk(i));
  p.agree();
  if (!is_root) {
    p.loop(times(kChunkSlots));
    p.recv(parent, output(chunk(i)));
    p.end_loop();
  }
  p.loop(chunks());
  if (!is_root) p.await_recv(only(parent), kChunkSlots - 1);
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    p.send(leader_at(*child), here);
  }
  if (!is_root) p.recv(parent, output(chunk(i + kChunkSlots)));
  if (!locals.empty()) {
    for (const RankSet& set : locals) p.await(kLocal, set, i + 1 - kChunkSlots);
    p.copy(p.stage(i % kChunkSlots, chunk(i)), here);
    p.signal(kLeader, i + 1);
  }
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
