#include "transport/shm/host_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/received_errc.hpp"
#include "base/shown.hpp"
#include "os/socket.hpp"
#include "secure/hmac.hpp"

namespace tutti::transport::shm {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a leader that knows of a failure waits for other ranks to connect, to report it.
constexpr auto kTellFor = std::chrono::seconds(1);

/// poll() until that time, but at most for a minute.
int wait_for_any(std::vector<pollfd>& watched, HostExchange::Deadline until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return ::poll(watched.data(), watched.size(),
                static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
}

/// Waits before the next try, if no event can end the wait.
void pause(HostExchange::Deadline deadline) {
  std::vector<pollfd> nobody;
  (void)wait_for_any(nobody, std::min(deadline, Clock::now() + std::chrono::milliseconds(5)));
}

Descriptors descriptors_of(std::vector<os::Fd>& fds) {
  return {std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), std::move(fds[3]),
          std::move(fds[4])};
}

Outcome send_memory(int to, int rank, const Descriptors& of, HostExchange::Deadline deadline) {
  const int fds[kDescriptors] = {of.arena.get(), of.page.get(), of.event.get(), of.process.get(),
                                 of.pipe.get()};
  DescriptorHeader header;
  header.rank = rank;
  header.word = Word::memory;
  return send_message(to, header, fds, {}, deadline);
}

}  // namespace

bool share_a_folder(const std::vector<int>& ranks,
                    const std::vector<HostAddress>& worker_addresses) {
  const auto folder = [&](int rank) -> const std::string& {
    return worker_addresses[static_cast<std::size_t>(rank)].folder;
  };
  return !folder(ranks.front()).empty() && std::ranges::all_of(ranks, [&](int rank) {
    return folder(rank) == folder(ranks.front());
  });
}

HostExchange::HostExchange(Options options) : options_(std::move(options)) {
  connections_.resize(options_.ranks.size());
}

/// Closes a connection on which another process may have left something.
void HostExchange::drop(os::Fd connection) {
  if (options_.open_to_all) closer_.close(std::move(connection));
}

std::string HostExchange::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on " + address(rank).host_name + ", pid " +
         std::to_string(address(rank).pid);
}

std::optional<std::size_t> HostExchange::local_of(int rank) const {
  const auto at = std::ranges::find(options_.ranks, rank);
  if (at == options_.ranks.end()) return std::nullopt;
  return static_cast<std::size_t>(at - options_.ranks.begin());
}

/// The first message of rank `from` to rank `to`. Its proof is HMAC-SHA256(secret, label, ranks,
/// nonces of both worker addresses); the label says which of the two is the leader. Without a
/// secret it is the nonce of the sender.
Result<DescriptorHeader> HostExchange::hello(int from, int to) const {
  DescriptorHeader header;
  header.rank = from;
  if (options_.secret.empty()) {
    std::memcpy(header.proof.data(), &address(from).nonce, sizeof(std::uint64_t));
    return header;
  }
  const std::string signed_text =
      (from < to ? "tutti shared memory leader " : "tutti shared memory rank ") +
      std::to_string(from) + " " + std::to_string(address(from).nonce) + " " + std::to_string(to) +
      " " + std::to_string(address(to).nonce);
  Result<secure::Digest> digest =
      secure::hmac_sha256(options_.secret, std::as_bytes(std::span(signed_text)));
  if (!digest) return digest.status();
  header.proof = *digest;
  return header;
}

HostExchange::Failure HostExchange::death(int rank) const {
  Failure one;
  one.rank = rank;
  one.header.rank = rank;
  one.header.word = Word::died;
  one.status = Outcome(Errc::peer_lost,
                       "lost " + name_of(rank) +
                           ": its process ended while the ranks of its host exchanged their shared "
                           "memory. Look at that rank's output for the cause, and start the job "
                           "again.")
                   .with_culprit(rank);
  return one;
}

HostExchange::Failure HostExchange::failure(int rank, Errc code, std::string text) const {
  Failure one;
  one.rank = rank;
  one.header.rank = rank;
  one.header.word = Word::failed;
  one.header.code = static_cast<std::uint32_t>(code);
  one.status = Outcome(code, name_of(rank) + ", has given up: " + text).with_culprit(rank);
  one.text = std::move(text);
  return one;
}

HostExchange::Failure HostExchange::told_failure(int rank, std::int64_t code,
                                                 const std::string& text) const {
  return failure(rank, base::received_errc(code), base::shown(text));
}

Outcome HostExchange::nothing_sent(std::string_view names) const {
  return Outcome(Errc::timeout,
                 "sharing memory with the other ranks of this host: " + std::string(names) +
                     " not sent theirs within the timeout. Is it stopped, or is "
                     "another of them?");
}

// ---- The leader

/// Takes messages that have come. A failure if one of them is that.
Result<std::optional<HostExchange::Failure>> HostExchange::take(DescriptorExchange& exchange,
                                                                std::vector<Descriptors>& all) {
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
    all[local] = descriptors_of(one.words.fds);
  }
}

/// A connection to a rank's listener ends when its process ends, whatever its pid namespace.
/// Returns a rank that has ended already.
std::optional<int> HostExchange::connect_probes(std::vector<os::Fd>& probes) {
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

std::string HostExchange::missing() const {
  std::string names;
  std::size_t count = 0;
  for (std::size_t local = 0; local < options_.ranks.size(); ++local) {
    if (options_.ranks[local] == options_.rank || connections_[local].valid()) continue;
    names += (names.empty() ? "" : ", ") + name_of(options_.ranks[local]);
    ++count;
  }
  return names + (count == 1 ? " has" : " have");
}

/// Waits until all ranks of the host have sent their descriptors.
Result<std::optional<HostExchange::Failure>> HostExchange::gather(DescriptorExchange& exchange,
                                                                  std::vector<Descriptors>& all) {
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
    const int ready = wait_for_any(watched, exchange.wake_at(options_.deadline));
    // Before the ends are looked at: a rank says why it fails, and may end at once.
    Result<std::optional<Failure>> taken = take(exchange, all);
    if (!taken) return taken.status();
    failed = std::move(*taken);
    for (std::size_t local = 0; !failed && ready > 0 && local < options_.ranks.size(); ++local) {
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
std::size_t HostExchange::tell(const Failure& failure) {
  std::size_t told = 0;
  for (os::Fd& connection : connections_) {
    if (!connection.valid()) continue;
    (void)send_message(connection.get(), failure.header, {}, failure.text, Clock::now());
    connection.reset();
    ++told;
  }
  return told;
}

Outcome HostExchange::hand_out(const Descriptors& ours, const std::vector<Descriptors>& all) {
  for (std::size_t to = 0; to < options_.ranks.size(); ++to) {
    if (!connections_[to].valid()) continue;
    for (std::size_t of = 0; of < options_.ranks.size(); ++of) {
      if (of == to) continue;
      const int rank = options_.ranks[of];
      const Outcome sent = send_memory(connections_[to].get(), rank,
                                       rank == options_.rank ? ours : all[of], options_.deadline);
      if (sent.ok()) continue;
      if (sent.code() == Errc::timeout) return sent;
      break;  // it is dead, which `agree` sees
    }
  }
  return Outcome();
}

Result<std::vector<Descriptors>> HostExchange::collect(const Descriptors& ours,
                                                       const Outcome& ready) {
  std::vector<Descriptors> all(options_.ranks.size());
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
  std::optional<Failure> failed;
  if (!ready.ok()) {
    failed = failure(options_.rank, ready.code(), std::string(ready.message()));
  } else {
    Result<std::optional<Failure>> gathered = gather(exchange, all);
    if (!cannot_sign.ok()) return cannot_sign;
    if (!gathered) return gathered.status();
    failed = std::move(*gathered);
  }
  if (!failed) {
    if (Outcome s = hand_out(ours, all); !s.ok()) return s;
    return all;
  }
  // Waits for ranks that have not connected yet, so that they hear of it too and do not find us
  // gone.
  std::size_t untold = options_.ranks.size() - 1;
  if (const auto local = local_of(failed->rank); failed->rank != options_.rank) {
    connections_[*local].reset();
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

/// Waits until each rank has said that it is ready. A failure if one has not.
Result<std::optional<HostExchange::Failure>> HostExchange::await_ready() {
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

// ---- Another rank

/// Connects to the leader, which must prove itself. After the leader's end another process may
/// listen under its name.
Result<os::Fd> HostExchange::meet_leader() {
  const int leader = options_.ranks.front();
  const Result<DescriptorHeader> ours = hello(options_.rank, leader);
  if (!ours) return ours.status();
  const Result<DescriptorHeader> expected = hello(leader, options_.rank);
  if (!expected) return expected.status();
  while (true) {
    Result<os::Fd> connection = os::connect_unix(options_.socket_name(address(leader)));
    if (!connection && connection.status().code() == Errc::refused) return died(leader);
    // Its backlog may be full of ranks or of other processes.
    if (!connection && connection.status().code() != Errc::timeout) return connection.status();
    if (connection) {
      os::Fd fd = std::move(*connection);
      if (!os::is_of_this_user(fd.get())) {
        drop(std::move(fd));
        return died(leader);
      }
      (void)send_message(fd.get(), ours.value(), {}, {}, options_.deadline);
      const Result<bool> came = os::wait_ready(fd.get(), POLLIN, options_.deadline);
      DescriptorHeader theirs;
      const auto bytes = std::as_writable_bytes(std::span(&theirs, 1));
      const Result<std::optional<std::size_t>> got = os::peek_some(fd.get(), bytes);
      if (came && got && got.value() && *got.value() == sizeof theirs && theirs.magic == kMagic &&
          theirs.word == Word::hello && theirs.rank == leader &&
          secure::equal_constant_time(theirs.proof, expected.value().proof)) {
        (void)os::receive_some(fd.get(), bytes);
        os::take_descriptors(fd.get(), true);
        return fd;
      }
      const bool another = got && got.value() && *got.value() > 0;
      drop(std::move(fd));
      if (another) return died(leader);  // another process has its name
      // Else the leader hung up: it has ended, which the next connect shows, or had no room for us.
    }
    if (Clock::now() >= options_.deadline) return nothing_sent(name_of(leader) + " has");
    pause(options_.deadline);
  }
}

/// The next message, unless it says that the exchange has failed.
Result<DescriptorMessage> HostExchange::hear_leader() {
  const int leader = options_.ranks.front();
  Result<DescriptorMessage> got = receive_message(to_leader_.get(), options_.deadline);
  if (!got && got.status().code() == Errc::timeout) return nothing_sent(name_of(leader) + " has");
  if (!got && got.status().code() == Errc::peer_lost) return died(leader);
  if (!got) return got.status();
  const int rank = got->header.rank;
  const Outcome foreign(Errc::refused, "rank " + std::to_string(leader) +
                                           " sent descriptors of shared memory that are not "
                                           "understood");
  if (!local_of(rank)) return foreign;
  if (got->header.word == Word::died) return died(rank);
  if (got->header.word == Word::failed)
    return told_failure(rank, got->header.code, got->text).status;
  if (got->header.word == Word::memory && got->fds.size() != kDescriptors) return foreign;
  return got;
}

/// Of a leader that has hung up: it may have said why.
Outcome HostExchange::last_words() {
  const Outcome said = hear_leader().status();
  return said.ok() ? died(options_.ranks.front()) : said;
}

Result<std::vector<Descriptors>> HostExchange::hand_in(const Descriptors& ours,
                                                       const Outcome& ready) {
  Result<os::Fd> connection = meet_leader();
  if (!connection) return ready.ok() ? connection.status() : ready;
  to_leader_ = std::move(*connection);
  if (!ready.ok()) {
    const Failure failed = failure(options_.rank, ready.code(), std::string(ready.message()));
    (void)send_message(to_leader_.get(), failed.header, {}, failed.text, options_.deadline);
    return ready;
  }
  const int leader = options_.ranks.front();
  if (Outcome s = send_memory(to_leader_.get(), options_.rank, ours, options_.deadline); !s.ok())
    return s.code() == Errc::timeout ? s : last_words();
  std::vector<Descriptors> all(options_.ranks.size());
  for (std::size_t i = 0; i + 1 < options_.ranks.size(); ++i) {
    Result<DescriptorMessage> got = hear_leader();
    if (!got) return got.status();
    if (got->header.word != Word::memory)
      return Outcome(Errc::refused, "rank " + std::to_string(leader) + " sent no descriptors");
    all[*local_of(got->header.rank)] = descriptors_of(got->fds);
  }
  return all;
}

// ---- Both

Result<std::vector<Descriptors>> HostExchange::run(const Descriptors& ours, const Outcome& ready) {
  // A rank that gives up tells the others if they are there.
  if (!ready.ok()) options_.deadline = std::min(options_.deadline, Clock::now() + kTellFor);
  return leads() ? collect(ours, ready) : hand_in(ours, ready);
}

Outcome HostExchange::agree(const Outcome& ours) {
  DescriptorHeader all_ready;
  all_ready.rank = options_.rank;
  all_ready.word = Word::ready;
  if (!leads()) {
    if (!ours.ok()) {
      const Failure failed = failure(options_.rank, ours.code(), std::string(ours.message()));
      (void)send_message(to_leader_.get(), failed.header, {}, failed.text, options_.deadline);
      return ours;
    }
    if (!send_message(to_leader_.get(), all_ready, {}, {}, options_.deadline).ok())
      return last_words();
    return hear_leader().status();
  }
  std::optional<Failure> failed;
  if (!ours.ok()) {
    failed = failure(options_.rank, ours.code(), std::string(ours.message()));
  } else {
    Result<std::optional<Failure>> waited = await_ready();
    if (!waited) return waited.status();
    failed = std::move(*waited);
  }
  if (failed) {
    (void)tell(*failed);
    return ours.ok() ? failed->status : ours;
  }
  for (const os::Fd& connection : connections_) {
    if (connection.valid())
      (void)send_message(connection.get(), all_ready, {}, {}, options_.deadline);
  }
  return Outcome();
}

}  // namespace tutti::transport::shm
