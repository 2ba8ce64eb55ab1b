#include "transport/shm/leader_exchange.hpp"

#include <algorithm>
#include <utility>

#include "os/socket.hpp"
#include "secure/hmac.hpp"
#include "transport/shm/host_memory.hpp"

namespace tutti::transport::shm {

/// Takes messages that have come. A failure if one of them is that.
Result<std::optional<HostExchange::Failure>> LeaderExchange::take(
    DescriptorExchange& exchange, std::vector<RankDescriptors>& all) {
  while (true) {
    Result<std::optional<DescriptorExchange::Message>> next = exchange.next();
    if (!next) return next.status();
    if (!*next) return std::optional<Failure>();
    DescriptorExchange::Message& one = **next;
    const std::size_t local = *local_of(one.rank);
    if (connections_[local].valid()) continue;
    connections_[local] = std::move(one.connection);
    if (one.words.header.word == Word::failed)
      return std::optional(told_failure(one.rank, one.words.header.code, one.words.text));
    std::vector<os::Fd>& fds = one.words.fds;
    all[local] = {std::move(fds[0]), {std::move(fds[1]), std::move(fds[2])}};
  }
}

/// A connection to a rank's listener ends when its process ends, whatever its pid namespace.
/// Returns a rank that has ended already.
std::optional<int> LeaderExchange::connect_probes(std::vector<os::Fd>& probes) {
  for (std::size_t local = 0; local < options_.ranks.size(); ++local) {
    const int rank = options_.ranks[local];
    if (rank == options_.rank) continue;
    Result<os::Fd> probe = os::connect_unix(options_.socket_name(address(rank)));
    if (probe && os::is_of_this_user(probe->get()))
      probes[local] = std::move(*probe);
    else if (probe)
      drop(std::move(*probe));
    else if (probe.status().code() == Errc::refused)
      return rank;
  }
  return std::nullopt;
}

std::string LeaderExchange::missing() const {
  std::string names;
  std::size_t count = 0;
  for (std::size_t local = 0; local < options_.ranks.size(); ++local) {
    if (options_.ranks[local] == options_.rank || connections_[local].valid()) continue;
    names += (names.empty() ? "" : ", ") + name_of(options_.ranks[local]);
    ++count;
  }
  return names + (count == 1 ? " has" : " have");
}

/// Waits until all ranks of the host have sent their descriptors. A failure if one has not, or if
/// we are not `ready`.
Result<std::optional<HostExchange::Failure>> LeaderExchange::gather(
    DescriptorExchange& exchange, std::vector<RankDescriptors>& all, const Outcome& ready) {
  if (!ready.ok()) return std::optional(own_failure(ready));
  // A probe is watched until its rank has connected to us; then that connection is.
  std::vector<os::Fd> probes(options_.ranks.size());
  if (const std::optional<int> ended = connect_probes(probes)) return std::optional(death(*ended));
  const auto connected = [&] {
    return std::ranges::count_if(connections_, [](const os::Fd& fd) { return fd.valid(); });
  };
  std::optional<Failure> failed;
  while (!failed && static_cast<std::size_t>(connected()) + 1 < options_.ranks.size()) {
    std::vector<pollfd> watched;
    for (std::size_t local = 0; local < options_.ranks.size(); ++local) {
      const os::Fd& fd = connections_[local].valid() ? connections_[local] : probes[local];
      watched.push_back({fd.valid() ? fd.get() : -1, 0, 0});
    }
    exchange.add_to(watched);
    const int events = wait_for_any(watched, exchange.wake_at(options_.deadline));
    // Before the ends are looked at: a rank says why it fails, and may end at once.
    Result<std::optional<Failure>> taken = take(exchange, all);
    if (!taken) return taken.status();
    failed = std::move(*taken);
    for (std::size_t local = 0; !failed && events > 0 && local < options_.ranks.size(); ++local) {
      if ((watched[local].revents & (POLLHUP | POLLERR)) != 0)
        failed = death(options_.ranks[local]);
    }
    for (std::size_t local = 0; local < options_.ranks.size(); ++local) {
      if (connections_[local].valid()) drop(std::move(probes[local]));
    }
    if (!failed && static_cast<std::size_t>(connected()) + 1 < options_.ranks.size() &&
        Clock::now() >= options_.deadline)
      return exchange.trouble().ok() ? nothing_sent(missing()) : exchange.trouble();
  }
  for (os::Fd& probe : probes) drop(std::move(probe));
  return failed;
}

/// Sends it to each rank that is connected, once. Returns their number.
std::size_t LeaderExchange::tell(const Failure& failure) {
  std::size_t told = 0;
  for (os::Fd& connection : connections_) {
    if (!connection.valid()) continue;
    (void)send_message(connection.get(), failure.header, {}, failure.text, Clock::now());
    connection.reset();
    ++told;
  }
  return told;
}

/// Tells the ranks that are connected why we end. Without a word they would take us for dead.
Outcome LeaderExchange::give_up(const Outcome& why) {
  (void)tell(own_failure(why));
  return why;
}

Result<HostDescriptors> LeaderExchange::make_host(const RankDescriptors& ours,
                                                  std::vector<RankDescriptors>& all) {
  HostDescriptors host;
  Result<os::Fd> memory = HostMemory::make(all.size());
  if (!memory) return memory.status();
  host.memory = std::move(*memory);
  std::vector<const os::DeathPipe*> pipes;
  for (const RankDescriptors& one : all)
    pipes.push_back(one.event.valid() ? &one.death : &ours.death);
  Result<os::DeathSet> deaths = os::DeathSet::of(pipes, options_.deadline);
  if (!deaths) return deaths.status();
  host.deaths = std::move(*deaths);
  for (RankDescriptors& one : all) host.events.push_back(std::move(one.event));
  return host;
}

Outcome LeaderExchange::hand_out(const RankDescriptors& ours, const HostDescriptors& host) {
  const int fds[kDescriptors] = {host.memory.get(), host.deaths.ends.get(), host.deaths.kept.get()};
  std::vector<int> events;
  for (const os::Fd& one : host.events)
    events.push_back(one.valid() ? one.get() : ours.event.get());
  for (const os::Fd& to : connections_) {
    if (!to.valid()) continue;
    Outcome sent = send_word(to.get(), Word::memory, fds);
    for (std::span<const int> rest = events; sent.ok() && !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), os::kMaxFdsPerMessage));
      sent = send_word(to.get(), Word::events, some);
      rest = rest.subspan(some.size());
    }
    if (sent.code() == Errc::timeout) return sent;  // else it is dead, which `agree` sees
  }
  return Outcome();
}

Result<HostDescriptors> LeaderExchange::share(const RankDescriptors& ours, const Outcome& ready) {
  std::vector<RankDescriptors> all(options_.ranks.size());
  Outcome cannot_sign;
  const auto answer = [&](const DescriptorHeader& header) -> std::optional<DescriptorHeader> {
    if (header.rank == options_.rank || !local_of(header.rank)) return std::nullopt;
    const Result<DescriptorHeader> theirs = hello(header.rank, options_.rank);
    const Result<DescriptorHeader> mine = hello(options_.rank, header.rank);
    if (!theirs || !mine) {
      cannot_sign = theirs ? mine.status() : theirs.status();
      return std::nullopt;
    }
    if (!secure::equal_constant_time(theirs.value().proof, header.proof)) return std::nullopt;
    return mine.value();
  };
  DescriptorExchange exchange(options_.listener, options_.ranks.size(), answer, closer_);
  const Result<std::optional<Failure>> gathered = gather(exchange, all, ready);
  if (!cannot_sign.ok()) return cannot_sign;
  if (!gathered) {
    const Failure ours_failed = own_failure(gathered.status());
    exchange.tell(ours_failed.header, ours_failed.text);
    return give_up(gathered.status());
  }
  const std::optional<Failure>& failed = gathered.value();
  if (!failed) {
    Result<HostDescriptors> host = make_host(ours, all);
    if (!host) return give_up(host.status());
    if (Outcome handed = hand_out(ours, *host); !handed.ok()) return give_up(handed);
    return host;
  }
  // Waits for ranks that have not connected yet, so that they hear of it too and do not find us
  // gone.
  std::size_t untold = options_.ranks.size() - 1;
  if (const int rank = failed->header.rank; rank != options_.rank) {
    connections_[*local_of(rank)].reset();
    --untold;
  }
  untold -= std::min(untold, tell(*failed));
  const Deadline until = std::min(options_.deadline, Clock::now() + kTellFor);
  while (untold > 0 && Clock::now() < until) {
    std::vector<pollfd> watched;
    exchange.add_to(watched);
    (void)wait_for_any(watched, exchange.wake_at(until));
    if (!take(exchange, all)) break;
    untold -= std::min(untold, tell(*failed));
  }
  return ready.ok() ? failed->status : ready;
}

/// Waits until each rank has said that it is ready. A failure if one has not, or if we are not.
Result<std::optional<HostExchange::Failure>> LeaderExchange::await_ready(const Outcome& ours) {
  if (!ours.ok()) return std::optional(own_failure(ours));
  std::vector<bool> waits(options_.ranks.size(), true);
  waits[*local_of(options_.rank)] = false;
  while (std::ranges::count(waits, true) > 0) {
    std::vector<pollfd> watched;
    for (std::size_t local = 0; local < waits.size(); ++local)
      watched.push_back({waits[local] ? connections_[local].get() : -1, POLLIN, 0});
    (void)wait_for_any(watched, options_.deadline);
    for (std::size_t local = 0; local < waits.size(); ++local) {
      if (!waits[local] || watched[local].revents == 0) continue;
      Result<DescriptorMessage> got = receive_message(connections_[local].get(), Clock::now());
      if (!got && got.status().code() == Errc::timeout) continue;
      const int rank = options_.ranks[local];
      if (got && got->header.word == Word::failed)
        return std::optional(told_failure(rank, got->header.code, got->text));
      if (!got || got->header.word != Word::ready) return std::optional(death(rank));
      waits[local] = false;
    }
    if (std::ranges::count(waits, true) > 0 && Clock::now() >= options_.deadline) {
      const auto first = std::ranges::find(waits, true) - waits.begin();
      return nothing_sent(name_of(options_.ranks[static_cast<std::size_t>(first)]) + " has");
    }
  }
  return std::optional<Failure>();
}

Outcome LeaderExchange::agree(const Outcome& ours) {
  const Result<std::optional<Failure>> failed = await_ready(ours);
  if (!failed) return give_up(failed.status());
  if (failed.value()) {
    (void)tell(*failed.value());
    return ours.ok() ? failed.value()->status : ours;
  }
  for (const os::Fd& connection : connections_) {
    if (connection.valid()) (void)send_word(connection.get(), Word::ready);
  }
  return Outcome();
}

}  // namespace tutti::transport::shm
