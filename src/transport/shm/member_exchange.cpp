#include "transport/shm/member_exchange.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "os/socket.hpp"
#include "secure/hmac.hpp"

namespace tutti::transport::shm {

/// Connects to the leader, which must prove itself. After the leader's end another process may
/// listen under its name.
Result<os::Fd> MemberExchange::meet_leader() {
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
    // No event ends this wait before the next try.
    std::vector<pollfd> nobody;
    (void)wait_for_any(nobody,
                       std::min(options_.deadline, Clock::now() + std::chrono::milliseconds(5)));
  }
}

/// The next message, unless it says that the exchange has failed.
Result<DescriptorMessage> MemberExchange::hear_leader() {
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
  return got;
}

/// Of a leader that has hung up: it may have said why.
Outcome MemberExchange::last_words() {
  const Outcome said = hear_leader().status();
  return said.ok() ? died(options_.ranks.front()) : said;
}

Outcome MemberExchange::give_up(const Outcome& why) {
  const Failure failed = own_failure(why);
  (void)send_message(to_leader_.get(), failed.header, {}, failed.text, options_.deadline);
  return why;
}

/// The descriptors of the next message, which must be that one.
Result<std::vector<os::Fd>> MemberExchange::take_descriptors(Word word, std::size_t count) {
  Result<DescriptorMessage> got = hear_leader();
  if (!got) return got.status();
  if (got->header.word == word && got->fds.size() == count) return std::move(got->fds);
  return Outcome(Errc::refused, "rank " + std::to_string(options_.ranks.front()) +
                                    " sent other descriptors of shared memory than expected");
}

Result<HostDescriptors> MemberExchange::share(const RankDescriptors& ours, const Outcome& ready) {
  Result<os::Fd> connection = meet_leader();
  if (!connection) return ready.ok() ? connection.status() : ready;
  to_leader_ = std::move(*connection);
  if (!ready.ok()) return give_up(ready);
  const int fds[kDescriptors] = {ours.event.get(), ours.death.process.get(), ours.death.pipe.get()};
  if (Outcome s = send_word(to_leader_.get(), Word::descriptors, fds); !s.ok())
    return s.code() == Errc::timeout ? s : last_words();
  Result<std::vector<os::Fd>> got = take_descriptors(Word::memory, kDescriptors);
  if (!got) return give_up(got.status());
  HostDescriptors host{std::move((*got)[0]), {std::move((*got)[1]), std::move((*got)[2])}, {}};
  while (host.events.size() < options_.ranks.size()) {
    const std::size_t some =
        std::min(options_.ranks.size() - host.events.size(), os::kMaxFdsPerMessage);
    got = take_descriptors(Word::events, some);
    if (!got) return give_up(got.status());
    std::ranges::move(*got, std::back_inserter(host.events));
  }
  return host;
}

Outcome MemberExchange::agree(const Outcome& ours) {
  if (!ours.ok()) return give_up(ours);
  if (!send_word(to_leader_.get(), Word::ready).ok()) return last_words();
  return hear_leader().status();
}

}  // namespace tutti::transport::shm
