#include "plan/two_level.hpp"

#include "plan/tree.hpp"

namespace tutti::plan {

Hosts::Hosts(const Shape& s)
    : count(s.topology->hosts), leaders(static_cast<std::size_t>(count), -1) {
  const std::vector<int>& host_of = s.topology->host_of;
  mine = host_of[static_cast<std::size_t>(s.rank)];
  for (int rank = 0; rank < s.size; ++rank) {
    const int host = host_of[static_cast<std::size_t>(rank)];
    int& first = leaders[static_cast<std::size_t>(host)];
    if (first < 0) first = rank;
    if (host == mine) local.push_back(rank);
  }
  leader = leaders[static_cast<std::size_t>(mine)];
}

std::vector<RankSet> Hosts::local_without(int rank) const {
  std::vector<RankSet> sets;
  int last = 0;
  for (const int other : local) {
    if (other == rank) continue;
    if (!sets.empty() && other == last + 1) {
      ++sets.back().count;
    } else {
      sets.push_back(only(constant(other)));
    }
    last = other;
  }
  return sets;
}

Lanes::Lanes(const Shape& s)
    : hosts(s.topology->hosts), ranks_(static_cast<std::size_t>(s.topology->hosts)) {
  for (int rank = 0; rank < s.size; ++rank) {
    const int on = s.topology->host_of[static_cast<std::size_t>(rank)];
    std::vector<int>& there = ranks_[static_cast<std::size_t>(on)];
    if (rank == s.rank) {
      host = on;
      lane = static_cast<int>(there.size());
    }
    there.push_back(rank);
  }
  each = static_cast<int>(ranks_.front().size());
  for (const std::vector<int>& there : ranks_) even = even && there.size() == ranks_[0].size();
}

namespace {

Program program(std::string_view name, Kind kind, const Shape& s, const Hosts& hosts) {
  Program p(name, kind, s);
  p.schedule().symmetry = Symmetry::per_host;
  p.schedule().region = true;  // a rank alone on its host publishes too: nothing looks at it
  p.schedule().messages = hosts.count > 1;
  return p;
}

}  // namespace

Schedule two_level_barrier(const Shape& s) {
  const Hosts hosts(s);
  Program p = program("two_level_barrier", Kind::barrier, s, hosts);
  p.publish();
  if (s.rank != hosts.leader) {
    // The leader has compared our line before it signals, if it is in a barrier: in another
    // operation it signals as well.
    p.await_line(only(constant(hosts.leader)));
    p.await(kLeader, only(constant(hosts.leader)), constant(1));
    p.agree();
    return p.take();
  }
  for (const RankSet& set : hosts.local_without(s.rank)) p.await_line(set);
  // Dissemination among the leaders: slot 0 is sent, each round receives into one of its own.
  int slots = 1;
  const auto at = [&](int host) {
    return constant(hosts.leaders[static_cast<std::size_t>((host + hosts.count) % hosts.count)]);
  };
  for (int distance = 1; distance < hosts.count; distance *= 2) {
    p.recv(at(hosts.mine - distance), scratch(constant(slots++), whole()));
    p.send(at(hosts.mine + distance), scratch(constant(0), whole()));
    p.await_recv(only(at(hosts.mine - distance)));
  }
  p.schedule().scratch_slots = slots;
  p.agree();
  if (!hosts.alone()) p.signal(kLeader, constant(1));
  return p.take();
}

// The root leads its host, the first rank every other host. Leaders are a binomial tree; what comes
// to a leader goes on to the next leaders and is staged for its host, chunk by chunk.
Schedule two_level_broadcast(const Shape& s) {
  Hosts hosts(s);
  const int root_host = s.topology->host_of[static_cast<std::size_t>(s.root)];
  hosts.leaders[static_cast<std::size_t>(root_host)] = s.root;
  hosts.leader = hosts.leaders[static_cast<std::size_t>(hosts.mine)];
  Program p = program("two_level_broadcast", Kind::broadcast, s, hosts);
  p.schedule().chunk_bytes = s.chunk_bytes;
  p.schedule().stage_slots = kSlots;
  p.schedule().slot_cycle = kSlots;
  p.schedule().slot_parts = 1;
  p.publish();
  if (s.rank != hosts.leader) {
    const Expr leader = constant(hosts.leader);
    p.await_line(only(leader));
    p.agree();
    p.loop(chunks());
    p.await(kLeader, only(leader), var_i(1));
    p.copy(output(chunk(var_i())), Program::stage_of(leader, var_i(0, kSlots), chunk(var_i())));
    p.signal(kLocal, var_i(1));
    p.end_loop();
    return p.take();
  }
  const bool is_root = s.rank == s.root;
  const int place = (hosts.mine - root_host + hosts.count) % hosts.count;
  const auto leader_at = [&](int at) {
    return constant(hosts.leaders[static_cast<std::size_t>((at + root_host) % hosts.count)]);
  };
  const Expr parent = leader_at(is_root ? 0 : tree_parent(place));
  const std::vector<int> children = tree_children(place, hosts.count);
  const std::vector<RankSet> locals = hosts.local_without(s.rank);
  const Operand here = is_root ? input(chunk(var_i())) : output(chunk(var_i()));
  p.agree();
  if (!is_root) {
    p.loop(times(kSlots));
    p.recv(parent, output(chunk(var_i())));
    p.end_loop();
  }
  p.loop(chunks());
  if (!is_root) p.await_recv(only(parent), constant(kSlots - 1));
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    p.send(leader_at(*child), here);
  }
  if (!is_root) p.recv(parent, output(chunk(var_i(kSlots))));
  if (!locals.empty()) {
    for (const RankSet& set : locals) p.await(kLocal, set, var_i(1 - kSlots));
    p.copy(p.stage(var_i(0, kSlots), chunk(var_i())), here);
    p.signal(kLeader, var_i(1));
  }
  p.end_loop();
  return p.take();
}

}  // namespace tutti::plan
