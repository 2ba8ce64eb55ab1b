#include "transport/shm/host_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "base/received_errc.hpp"
#include "base/shown.hpp"
#include "secure/hmac.hpp"
#include "transport/shm/leader_exchange.hpp"
#include "transport/shm/member_exchange.hpp"

namespace tutti::transport::shm {

bool share_a_folder(const std::vector<int>& ranks,
                    const std::vector<HostAddress>& worker_addresses) {
  const auto folder = [&](int rank) -> const std::string& {
    return worker_addresses[static_cast<std::size_t>(rank)].folder;
  };
  return !folder(ranks.front()).empty() && std::ranges::all_of(ranks, [&](int rank) {
    return folder(rank) == folder(ranks.front());
  });
}

std::unique_ptr<HostExchange> HostExchange::make(Options options) {
  if (options.ranks.front() == options.rank)
    return std::make_unique<LeaderExchange>(std::move(options));
  return std::make_unique<MemberExchange>(std::move(options));
}

Result<HostDescriptors> HostExchange::run(const RankDescriptors& ours, const Outcome& ready) {
  // A rank that gives up tells the others if they are there.
  if (!ready.ok()) options_.deadline = std::min(options_.deadline, Clock::now() + kTellFor);
  return share(ours, ready);
}

int HostExchange::wait_for_any(std::vector<pollfd>& watched, Deadline until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return ::poll(watched.data(), watched.size(),
                static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
}

Outcome HostExchange::send_word(int to, Word word, std::span<const int> fds) const {
  return send_message(to, {.rank = options_.rank, .word = word}, fds, {}, options_.deadline);
}

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

Result<DescriptorHeader> HostExchange::hello(int from, int to) const {
  DescriptorHeader header{.rank = from};
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
  const std::string text =
      "lost " + name_of(rank) +
      ": its process ended while the ranks of its host exchanged their shared memory. Look at that "
      "rank's output for the cause, and start the job again.";
  return {
      {.rank = rank, .word = Word::died}, {}, Outcome(Errc::peer_lost, text).with_culprit(rank)};
}

HostExchange::Failure HostExchange::failure(int rank, Errc code, std::string_view text) const {
  std::string told(text);
  Outcome status(code, name_of(rank) + ", has given up: " + told);
  return {{.rank = rank, .word = Word::failed, .code = static_cast<std::uint32_t>(code)},
          std::move(told),
          status.with_culprit(rank)};
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

}  // namespace tutti::transport::shm
