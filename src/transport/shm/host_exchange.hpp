#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/background_closer.hpp"
#include "os/fd.hpp"
#include "transport/shm/descriptor_exchange.hpp"
#include "transport/shm/host_address.hpp"

namespace tutti::transport::shm {

/// The part of one rank in the exchange of descriptors between the ranks of a host
/// (docs/design/shared-memory.md). The lowest rank, the leader, collects the descriptors and hands
/// them out. If a rank dies or fails meanwhile, all get the same error.
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
  explicit HostExchange(Options options);

  /// Sends `ours` and returns those of all ranks, by local index; ours is empty there. If `ready`
  /// is an error, the others get it, and it is returned.
  [[nodiscard]] Result<std::vector<Descriptors>> run(const Descriptors& ours, const Outcome& ready);
  /// Waits until all ranks have come here. Returns the first error of any of them.
  [[nodiscard]] Outcome agree(const Outcome& ours);

 private:
  /// The end of the exchange: the rank that died or failed.
  struct Failure {
    int rank = 0;
    DescriptorHeader header;
    std::string text;
    Outcome status;
  };
  [[nodiscard]] bool leads() const noexcept { return options_.ranks.front() == options_.rank; }
  [[nodiscard]] const HostAddress& address(int rank) const {
    return (*options_.addresses)[static_cast<std::size_t>(rank)];
  }
  void drop(os::Fd connection);
  [[nodiscard]] std::string name_of(int rank) const;
  [[nodiscard]] std::optional<std::size_t> local_of(int rank) const;
  [[nodiscard]] Result<DescriptorHeader> hello(int from, int to) const;
  [[nodiscard]] Failure death(int rank) const;
  [[nodiscard]] Failure failure(int rank, Errc code, std::string text) const;
  /// As another rank has told it: neither the code nor the text is trusted.
  [[nodiscard]] Failure told_failure(int rank, std::int64_t code, const std::string& text) const;
  [[nodiscard]] Outcome died(int rank) const { return death(rank).status; }
  [[nodiscard]] Outcome nothing_sent(std::string_view names) const;

  // The leader.
  [[nodiscard]] Result<std::optional<Failure>> gather(DescriptorExchange& exchange,
                                                      std::vector<Descriptors>& all);
  [[nodiscard]] Result<std::optional<Failure>> take(DescriptorExchange& exchange,
                                                    std::vector<Descriptors>& all);
  [[nodiscard]] std::optional<int> connect_probes(std::vector<os::Fd>& probes);
  [[nodiscard]] std::string missing() const;
  [[nodiscard]] Result<std::vector<Descriptors>> collect(const Descriptors& ours,
                                                         const Outcome& ready);
  [[nodiscard]] Outcome hand_out(const Descriptors& ours, const std::vector<Descriptors>& all);
  [[nodiscard]] Result<std::optional<Failure>> await_ready();
  [[nodiscard]] std::size_t tell(const Failure& failure);

  // Another rank.
  [[nodiscard]] Result<os::Fd> meet_leader();
  [[nodiscard]] Result<std::vector<Descriptors>> hand_in(const Descriptors& ours,
                                                         const Outcome& ready);
  [[nodiscard]] Result<DescriptorMessage> hear_leader();
  [[nodiscard]] Outcome last_words();

  Options options_;
  os::BackgroundCloser closer_;
  /// The leader's, by local index.
  std::vector<os::Fd> connections_;
  os::Fd to_leader_;
};

}  // namespace tutti::transport::shm
