#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "os/background_closer.hpp"
#include "os/fd.hpp"
#include "transport/shm/descriptor_exchange.hpp"
#include "transport/shm/host_address.hpp"

namespace tutti::transport::shm {

/// The part of one rank in the exchange of descriptors between the ranks of a host
/// (docs/design/shared-memory.md): the lowest rank, the leader, has a LeaderExchange, and each
/// other rank a MemberExchange. If a rank dies or fails meanwhile, all get the same error.
class HostExchange {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  struct Options {
    int rank = 0;
    std::vector<int> ranks;  ///< global, ascending, all of this host
    /// One for each global rank.
    const std::vector<HostAddress>* addresses = nullptr;
    std::span<const std::byte> secret;  ///< of the job; empty: the nonces stand in its place
    std::function<std::string(const HostAddress&)> socket_name;
    int listener = -1;
    bool open_to_all = false;  ///< every user of the network namespace can connect to the sockets
    Deadline deadline;
  };
  [[nodiscard]] static std::unique_ptr<HostExchange> make(Options options);
  virtual ~HostExchange() = default;

  /// Sends `ours` and returns what all ranks have. If `ready` is an error, the others get it, and
  /// it is returned.
  [[nodiscard]] Result<HostDescriptors> run(const RankDescriptors& ours, const Outcome& ready);
  /// Waits until all ranks have come here. Returns the first error of any of them.
  [[nodiscard]] virtual Outcome agree(const Outcome& ours) = 0;

 protected:
  using Clock = std::chrono::steady_clock;
  /// The end of the exchange: the rank that died or failed.
  struct Failure {
    DescriptorHeader header;  ///< for the other ranks; its rank is that one
    std::string text;
    Outcome status;
  };

  explicit HostExchange(Options options) : options_(std::move(options)) {}
  /// `run`, which has shortened the deadline if `ready` is an error.
  [[nodiscard]] virtual Result<HostDescriptors> share(const RankDescriptors& ours,
                                                      const Outcome& ready) = 0;
  [[nodiscard]] const HostAddress& address(int rank) const {
    return (*options_.addresses)[static_cast<std::size_t>(rank)];
  }
  /// poll() until that time, but at most for a minute.
  static int wait_for_any(std::vector<pollfd>& watched, Deadline until);
  /// A message of this rank that has no text.
  [[nodiscard]] Outcome send_word(int to, Word word, std::span<const int> fds = {}) const;
  /// Closes a connection on which another process may have left something.
  void drop(os::Fd connection);
  [[nodiscard]] std::string name_of(int rank) const;
  [[nodiscard]] std::optional<std::size_t> local_of(int rank) const;
  /// The first message of rank `from` to rank `to`. Its proof is HMAC-SHA256(secret, label, ranks,
  /// nonces of both worker addresses); the label says which of the two is the leader. Without a
  /// secret it is the nonce of the sender.
  [[nodiscard]] Result<DescriptorHeader> hello(int from, int to) const;
  [[nodiscard]] Failure death(int rank) const;
  [[nodiscard]] Failure failure(int rank, Errc code, std::string_view text) const;
  [[nodiscard]] Failure own_failure(const Outcome& why) const {
    return failure(options_.rank, why.code(), why.message());
  }
  /// As another rank has told it: neither the code nor the text is trusted.
  [[nodiscard]] Failure told_failure(int rank, std::int64_t code, const std::string& text) const;
  [[nodiscard]] Outcome died(int rank) const { return death(rank).status; }
  [[nodiscard]] Outcome nothing_sent(std::string_view names) const;

  /// How long a leader that knows of a failure waits for other ranks to connect, to report it.
  static constexpr auto kTellFor = std::chrono::seconds(1);

  Options options_;
  os::BackgroundCloser closer_;
};

}  // namespace tutti::transport::shm
