#include <poll.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "os/descriptors.hpp"
#include "os/socket.hpp"
#include "transport/shm/host.hpp"

// The ranks of a host exchange the descriptors of their memory (docs/shared-memory.md).
namespace tutti::transport::shm {
namespace {

std::span<const std::byte> bytes_of(const DescriptorHeader& header) {
  return {reinterpret_cast<const std::byte*>(&header), sizeof(header)};
}

/// How long a leader that knows of a death waits for other ranks to connect, to report it to them.
constexpr auto kTellFor = std::chrono::seconds(1);

std::string name_of(int rank, const std::vector<HostAddress>& worker_addresses) {
  const HostAddress& worker_address = worker_addresses[static_cast<std::size_t>(rank)];
  return "rank " + std::to_string(rank) + " on " + worker_address.host_name + ", pid " +
         std::to_string(worker_address.pid);
}

Status died_while_sharing(int rank, const std::vector<HostAddress>& worker_addresses) {
  return Status(Errc::peer_lost,
                "lost " + name_of(rank, worker_addresses) +
                    ": its process ended while the ranks of its host exchanged their shared "
                    "memory. Look at that rank's output for the cause, and start the job again.")
      .with_culprit(rank);
}

Status nothing_sent(int leader, const std::vector<HostAddress>& worker_addresses) {
  return Status(
      Errc::timeout,
      "sharing memory with the other ranks of this host: " + name_of(leader, worker_addresses) +
          " has not sent theirs within the timeout. Is it stopped, or is another of them?");
}

/// Checks the limit of descriptors: a rank gets five from each other one, and the leader also has a
/// connection to each.
Status enough_descriptors(std::size_t ranks, bool collects) {
  return os::ensure_descriptors(
      (ranks - 1) * (kDescriptors + (collects ? 1 : 0)),
      "sharing memory with the " + std::to_string(ranks - 1) + " other ranks of this host");
}

/// poll() until that time, but at most for a minute.
int wait_for_any(std::vector<pollfd>& watched, Host::Deadline until) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return ::poll(watched.data(), watched.size(),
                static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
}

/// Waits before the next try, if no event can end the wait.
void pause(Host::Deadline deadline) {
  std::vector<pollfd> nobody;
  (void)wait_for_any(
      nobody, std::min(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(5)));
}

/// Connects to the leader. Its backlog may be full of ranks or of other processes: then this waits
/// for room.
Result<os::Fd> connect_to(const HostAddress& leader, Host::Deadline deadline) {
  while (true) {
    Result<os::Fd> connection = os::connect_unix(leader.listener);
    if (connection || connection.status().code() != Errc::timeout ||
        std::chrono::steady_clock::now() >= deadline)
      return connection;
    pause(deadline);
  }
}

/// Sends each peer, once, a header without descriptors: it means that `rank` is dead. Returns the
/// number of peers.
std::size_t tell_dead(std::vector<os::Fd>& connections, int rank) {
  const DescriptorHeader header{kMagic, rank, 0};
  std::size_t told = 0;
  for (os::Fd& connection : connections) {
    if (!connection.valid()) continue;
    (void)os::send_fds(connection.get(), {}, bytes_of(header), std::chrono::steady_clock::now());
    connection.reset();
    ++told;
  }
  return told;
}

}  // namespace

Status Host::join(const std::vector<int>& ranks, const std::vector<HostAddress>& worker_addresses,
                  Deadline deadline) {
  if (ranks.size() > static_cast<std::size_t>(kMaxLocalRanks)) {
    return Status(Errc::unsupported, std::to_string(ranks.size()) + " ranks on one host; at most " +
                                         std::to_string(kMaxLocalRanks) + " can share memory");
  }
  if (Status s = enough_descriptors(ranks.size(), ranks.front() == rank_); !s.ok()) return s;
  std::vector<Shared> all(ranks.size());
  const HostAddress& leader = worker_addresses[static_cast<std::size_t>(ranks.front())];
  Status exchanged = ranks.front() == rank_
                         ? collect(ranks, worker_addresses, all, deadline)
                         : hand_in(leader, ranks, worker_addresses, all, deadline);
  if (!exchanged.ok()) return exchanged;
  regions_.arena = arena_->data();
  regions_.peers.resize(ranks.size());
  events_.resize(ranks.size());
  death_pipes_.resize(ranks.size());
  watched_.reserve(2 * ranks.size());
  ended_.reserve(ranks.size());
  for (std::size_t local = 0; local < ranks.size(); ++local) {
    const int rank = ranks[local];
    regions_.peers[local].rank = rank;
    if (rank == rank_) {
      regions_.self = static_cast<int>(local);
      regions_.peers[local] = RegionPeer{rank, arena_->data(), kArenaBytes,
                                         reinterpret_cast<Page*>(page_->data()), event_.get()};
      continue;
    }
    if (Status s =
            map_peer(static_cast<int>(local), worker_addresses[static_cast<std::size_t>(rank)],
                     std::move(all[local]));
        !s.ok()) {
      return s;
    }
  }
  listener_.reset();
  own_ = Shared{};
  return Status();
}

/// Moves descriptors that have come into `all` and `connections`. Returns the number of ranks.
Result<std::size_t> Host::take(DescriptorExchange& descriptor_exchange,
                               const std::vector<int>& ranks, std::vector<Shared>& all,
                               std::vector<os::Fd>& connections) {
  std::size_t taken = 0;
  while (true) {
    Result<std::optional<DescriptorExchange::HandIn>> next = descriptor_exchange.next();
    if (!next) return next.status();
    if (!*next) return taken;
    DescriptorExchange::HandIn& one = **next;
    const auto at = std::find(ranks.begin(), ranks.end(), static_cast<int>(one.header.rank));
    if (at == ranks.end()) continue;
    const auto local = static_cast<std::size_t>(at - ranks.begin());
    if (connections[local].valid()) continue;
    connections[local] = std::move(one.connection);
    all[local] = Shared{std::move(one.fds[0]), std::move(one.fds[1]), std::move(one.fds[2]),
                        std::move(one.fds[3]), std::move(one.fds[4])};
    ++taken;
  }
}

/// Waits until all ranks of the host have sent their descriptors. Returns the local index of a rank
/// that has died, or nothing.
Result<std::optional<std::size_t>> Host::gather(DescriptorExchange& descriptor_exchange,
                                                const std::vector<int>& ranks,
                                                const std::vector<HostAddress>& worker_addresses,
                                                std::vector<Shared>& all,
                                                std::vector<os::Fd>& connections,
                                                Deadline deadline) {
  // A connection to a rank's listener ends when its process ends, whatever its pid namespace. It is
  // watched until the rank has connected to us; then that connection is.
  std::vector<os::Fd> probes(ranks.size());
  for (std::size_t local = 0; local < ranks.size(); ++local) {
    if (ranks[local] == rank_) continue;
    Result<os::Fd> probe =
        os::connect_unix(worker_addresses[static_cast<std::size_t>(ranks[local])].listener);
    if (probe)
      probes[local] = std::move(*probe);
    else if (probe.status().code() == Errc::refused)
      return std::optional(local);
  }
  std::size_t missing = ranks.size() - 1;
  while (missing > 0) {
    std::vector<pollfd> watched;
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      const os::Fd& fd = connections[local].valid() ? connections[local] : probes[local];
      watched.push_back({fd.valid() ? fd.get() : -1, 0, 0});
    }
    descriptor_exchange.add_to(watched);
    const int ready = wait_for_any(watched, descriptor_exchange.wake_at(deadline));
    for (std::size_t local = 0; ready > 0 && local < ranks.size(); ++local) {
      if ((watched[local].revents & (POLLHUP | POLLERR)) != 0) return std::optional(local);
    }
    Result<std::size_t> taken = take(descriptor_exchange, ranks, all, connections);
    if (!taken) return taken.status();
    missing -= *taken;
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      if (connections[local].valid()) probes[local].reset();
    }
    if (missing > 0 && std::chrono::steady_clock::now() >= deadline) {
      if (!descriptor_exchange.trouble().ok()) return descriptor_exchange.trouble();
      std::string names;
      for (std::size_t local = 0; local < ranks.size(); ++local) {
        if (ranks[local] == rank_ || connections[local].valid()) continue;
        names += (names.empty() ? "" : ", ") + name_of(ranks[local], worker_addresses);
      }
      return Status(Errc::timeout,
                    "sharing memory with the other ranks of this host: " + std::to_string(missing) +
                        " of " + std::to_string(ranks.size()) +
                        " have not handed in theirs within the timeout: " + names +
                        ". Are they stopped?");
    }
  }
  return std::optional<std::size_t>();
}

Status Host::collect(const std::vector<int>& ranks,
                     const std::vector<HostAddress>& worker_addresses, std::vector<Shared>& all,
                     Deadline deadline) {
  std::vector<os::Fd> connections(ranks.size());
  const auto knows = [&](const DescriptorHeader& header) {
    const auto at = std::ranges::find(ranks, header.rank);
    return at != ranks.end() && *at != rank_ &&
           worker_addresses[static_cast<std::size_t>(*at)].nonce == header.nonce;
  };
  DescriptorExchange descriptor_exchange(
      listener_.get(), ranks.size(), DescriptorHeader{kMagic, rank_, own_address_.nonce}, knows);
  Result<std::optional<std::size_t>> dead =
      gather(descriptor_exchange, ranks, worker_addresses, all, connections, deadline);
  if (!dead) return dead.status();
  if (*dead) {
    // Waits for ranks that have not connected yet, so that they hear of it too and do not find us
    // gone.
    const int rank = ranks[**dead];
    std::size_t untold = ranks.size() - 2;
    const Deadline until = std::min(deadline, std::chrono::steady_clock::now() + kTellFor);
    connections[**dead].reset();
    untold -= tell_dead(connections, rank);
    while (untold > 0 && std::chrono::steady_clock::now() < until) {
      std::vector<pollfd> watched;
      descriptor_exchange.add_to(watched);
      (void)wait_for_any(watched, descriptor_exchange.wake_at(until));
      if (!take(descriptor_exchange, ranks, all, connections)) break;
      untold -= std::min(untold, tell_dead(connections, rank));
    }
    return died_while_sharing(rank, worker_addresses);
  }
  for (std::size_t to = 0; to < ranks.size(); ++to) {
    if (!connections[to].valid()) continue;
    for (std::size_t of = 0; of < ranks.size(); ++of) {
      if (of == to) continue;
      const Shared& shared = ranks[of] == rank_ ? own_ : all[of];
      const int event = ranks[of] == rank_ ? event_.get() : shared.event.get();
      const int fds[kDescriptors] = {shared.arena.get(), shared.page.get(), event,
                                     shared.process.get(), shared.pipe.get()};
      const DescriptorHeader header{kMagic, ranks[of]};
      const Status sent = os::send_fds(connections[to].get(), fds, bytes_of(header), deadline);
      if (sent.ok()) continue;
      if (sent.code() == Errc::timeout) return sent;
      break;  // it is dead, which its death pipe reports to all ranks in a moment
    }
  }
  return Status();
}

/// Connects to the leader, which must send the nonce of its worker address. After the leader's end
/// another process may listen under its name. It learns our nonce, which is of no use any more.
Result<os::Fd> Host::meet_leader(const HostAddress& leader, const std::vector<int>& ranks,
                                 const std::vector<HostAddress>& worker_addresses,
                                 Deadline deadline) {
  const DescriptorHeader ours{kMagic, rank_, own_address_.nonce};
  while (true) {
    Result<os::Fd> connection = connect_to(leader, deadline);
    if (!connection) {
      return connection.status().code() == Errc::refused
                 ? died_while_sharing(ranks.front(), worker_addresses)
                 : connection.status();
    }
    DescriptorHeader theirs;
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&theirs), sizeof(theirs));
    (void)os::send_fds(connection->get(), {}, bytes_of(ours), deadline);
    Result<os::ReceivedFds> got = os::receive_fds(connection->get(), bytes, deadline);
    if (got && got->bytes == sizeof(theirs) && theirs.magic == kMagic &&
        theirs.rank == ranks.front() && theirs.nonce == leader.nonce)
      return connection;
    if (got)
      return died_while_sharing(ranks.front(), worker_addresses);  // another process has its name
    if (got.status().code() == Errc::resource) return got.status();
    if (std::chrono::steady_clock::now() >= deadline)
      return nothing_sent(ranks.front(), worker_addresses);
    // The leader hung up: it has ended, which the next connect shows, or it had no room for us.
    pause(deadline);
  }
}

Status Host::hand_in(const HostAddress& leader, const std::vector<int>& ranks,
                     const std::vector<HostAddress>& worker_addresses, std::vector<Shared>& all,
                     Deadline deadline) {
  Result<os::Fd> connection = meet_leader(leader, ranks, worker_addresses, deadline);
  if (!connection) return connection.status();
  const int fds[kDescriptors] = {own_.arena.get(), own_.page.get(), event_.get(),
                                 own_.process.get(), own_.pipe.get()};
  const DescriptorHeader mine{kMagic, rank_, own_address_.nonce};
  if (Status s = os::send_fds(connection->get(), fds, bytes_of(mine), deadline); !s.ok()) {
    return s.code() == Errc::timeout ? s : died_while_sharing(ranks.front(), worker_addresses);
  }
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    DescriptorHeader header;
    Result<os::ReceivedFds> got = os::receive_fds(
        connection->get(), {reinterpret_cast<std::byte*>(&header), sizeof(header)}, deadline);
    if (!got && got.status().code() == Errc::timeout)
      return nothing_sent(ranks.front(), worker_addresses);
    if (!got && got.status().code() == Errc::resource) return got.status();
    if (!got) return died_while_sharing(ranks.front(), worker_addresses);
    const auto at = std::find(ranks.begin(), ranks.end(), static_cast<int>(header.rank));
    if (got->bytes == sizeof(header) && header.magic == kMagic && got->fds.empty() &&
        at != ranks.end()) {
      return died_while_sharing(*at, worker_addresses);
    }
    if (got->bytes != sizeof(header) || header.magic != kMagic || got->fds.size() != kDescriptors ||
        at == ranks.end()) {
      return Status(Errc::refused,
                    "rank " + std::to_string(ranks.front()) +
                        " sent descriptors of shared memory that are not understood");
    }
    Shared& shared = all[static_cast<std::size_t>(at - ranks.begin())];
    shared = Shared{std::move(got->fds[0]), std::move(got->fds[1]), std::move(got->fds[2]),
                    std::move(got->fds[3]), std::move(got->fds[4])};
  }
  return Status();
}

}  // namespace tutti::transport::shm
