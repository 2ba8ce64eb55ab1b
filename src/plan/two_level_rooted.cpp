#include <vector>

#include "base/index.hpp"
#include "plan/two_level.hpp"

// reduce, gather and scatter on several hosts, without chunks: inside a host by staging, between
// hosts by one message (or one for each run of neighbours) instead of one for each rank. The root
// is the leader of its host, the first rank the leader of every other host.
namespace tutti::plan {
namespace {

constexpr int kReady = 0;  // counter of a leader: the data for its host are staged

struct Place {
  explicit Place(const Shape& s) : hosts(s) {
    const int root_host = base::at(s.topology->host_of, s.root);
    base::at(hosts.leaders, root_host) = s.root;
    hosts.leader = base::at(hosts.leaders, hosts.mine);
    at_root = hosts.mine == root_host;
    leads = s.rank == hosts.leader;
    for (int host = 0; host < hosts.count; ++host) {
      if (host != root_host) others.push_back(host);
    }
  }
  [[nodiscard]] Expr leader_of(int host) const { return base::at(hosts.leaders, host); }

  Hosts hosts;
  bool at_root = false;     ///< the root is on this rank's host
  bool leads = false;       ///< this rank is its host's leader
  std::vector<int> others;  ///< the hosts that the root is not on
};

/// The blocks of the ranks of a host, as runs of neighbours.
std::vector<Slice> runs_on(const Shape& s, int host) {
  std::vector<Slice> runs;
  for (int rank = 0; rank < s.size;) {
    if (base::at(s.topology->host_of, rank) != host) {
      ++rank;
      continue;
    }
    int end = rank + 1;
    while (end < s.size && base::at(s.topology->host_of, end) == host) ++end;
    runs.push_back(blocks(rank, end - rank));
    rank = end;
  }
  return runs;
}

Operand here(Slice slice) { return scratch(0, slice); }

}  // namespace

Schedule two_level_gather(const Shape& s) {
  const Place place(s);
  Program p = Program::two_level("two_level", Kind::gather, s);
  const Slice own = block(s.rank);
  p.stage_slots(1);
  if (!place.leads) {
    p.copy(p.stage(0, own), input(own));
    p.publish();
    p.agree();
    return p.take();
  }
  const bool is_root = s.rank == s.root;
  const bool through = !is_root || place.hosts.count > 1;
  p.scratch_slots(through ? 1 : 0);
  p.publish();
  if (is_root) {
    for (const int host : place.others) {
      for (const Slice& run : runs_on(s, host)) p.recv(place.leader_of(host), here(run));
    }
  }
  for (const RankSet& set : place.hosts.local_without(s.rank)) p.await_line(set);
  p.agree();
  const auto collect = [&](auto to) {
    p.copy(to(own), input(own));
    for (const int rank : place.hosts.local) {
      if (rank == s.rank) continue;
      const Slice theirs = block(rank);
      p.copy(to(theirs), Program::stage_of(rank, 0, theirs));
    }
  };
  if (!is_root) {
    collect([](Slice slice) { return here(slice); });
    for (const Slice& run : runs_on(s, place.hosts.mine)) p.send(s.root, here(run));
    return p.take();
  }
  // Before the output is written: a leader compares the calls of its host before it sends.
  for (const int host : place.others) p.await_recv(only(place.leader_of(host)));
  collect([](Slice slice) { return output(slice); });
  for (const int host : place.others) {
    for (int rank = 0; rank < s.size; ++rank) {
      if (base::at(s.topology->host_of, rank) != host) continue;
      const Slice theirs = block(rank);
      p.copy(output(theirs), here(theirs));
    }
  }
  return p.take();
}

Schedule two_level_scatter(const Shape& s) {
  const Place place(s);
  Program p = Program::two_level("two_level", Kind::scatter, s);
  const Slice own = block(s.rank);
  const Expr leader = place.hosts.leader;
  p.stage_slots(1);
  if (!place.leads) {
    p.publish();
    p.await_line(only(leader));
    p.agree();
    p.await(kReady, only(leader), 1);
    p.copy(output(own), Program::stage_of(leader, 0, own));
    return p.take();
  }
  const auto staged = [&](Slice slice) { return p.stage(0, slice); };
  p.publish();
  p.agree();
  if (s.rank == s.root) {
    for (int rank = 0; rank < s.size; ++rank) {
      if (rank != s.rank) p.copy(staged(block(rank)), input(block(rank)));
    }
    if (!place.hosts.alone()) p.signal(kReady, 1);
    for (const int host : place.others) {
      for (const Slice& run : runs_on(s, host)) p.send(place.leader_of(host), staged(run));
    }
    p.copy(output(own), input(own));
    return p.take();
  }
  for (const Slice& run : runs_on(s, place.hosts.mine)) p.recv(s.root, staged(run));
  p.await_recv(only(s.root));
  if (!place.hosts.alone()) p.signal(kReady, 1);
  p.copy(output(own), staged(own));
  return p.take();
}

// Hosts must be aligned: then a host's sum is a subtree of the binomial tree
// (docs/reference/semantics.md).
Schedule two_level_reduce(const Shape& s) {
  if (!s.topology->aligned || s.topology->max_per_host == 1)
    return s.size <= 16 ? direct_reduce(s) : binomial_reduce(s);
  const Place place(s);
  Program p = Program::two_level("two_level", Kind::reduce, s);
  p.stage_slots(1);
  if (!place.leads) {
    p.copy(p.stage(0, whole()), input(whole()));
    p.publish();
    p.agree();
    return p.take();
  }
  const int n = place.hosts.count;
  const bool is_root = s.rank == s.root;
  // Slot h takes the sum of host h; a leader that is not the root has only its own.
  if (n > 1) p.scratch_slots(is_root ? n : 1);
  const auto slot_of = [&](int host) { return scratch(is_root ? host : 0, whole()); };
  p.publish();
  if (is_root) {
    for (const int host : place.others) p.recv(place.leader_of(host), slot_of(host));
  }
  for (const RankSet& set : place.hosts.local_without(s.rank)) p.await_line(set);
  p.agree();
  const int first = place.hosts.local.front();
  const RankSet local = ranks_from(first, static_cast<int>(place.hosts.local.size()));
  const bool whole_sum = n == 1;
  p.reduce_stages(whole_sum ? output(whole()) : slot_of(place.hosts.mine), local, 0, whole(), true);
  if (whole_sum) {
    p.mark_last();
    return p.take();
  }
  if (!is_root) {
    p.send(s.root, slot_of(0));
    return p.take();
  }
  for (const int host : place.others) p.await_recv(only(place.leader_of(host)));
  p.reduce_slots(output(whole()), ranks_from(0, n), 0, whole(), false);
  p.mark_last();
  return p.take();
}

}  // namespace tutti::plan
