#pragma once

#include <utility>
#include <vector>

#include "transport/shm/host_exchange.hpp"

namespace tutti::transport::shm {

/// The part of the leader: collects the descriptors of all ranks of the host, makes its memory, and
/// hands both out.
class LeaderExchange final : public HostExchange {
 public:
  explicit LeaderExchange(Options options)
      : HostExchange(std::move(options)), connections_(options_.ranks.size()) {}
  [[nodiscard]] Outcome agree(const Outcome& ours) override;

 private:
  [[nodiscard]] Result<HostDescriptors> share(const RankDescriptors& ours,
                                              const Outcome& ready) override;
  [[nodiscard]] Result<std::optional<Failure>> gather(DescriptorExchange& exchange,
                                                      std::vector<RankDescriptors>& all,
                                                      const Outcome& ready);
  [[nodiscard]] Result<std::optional<Failure>> take(DescriptorExchange& exchange,
                                                    std::vector<RankDescriptors>& all);
  [[nodiscard]] std::optional<int> connect_probes(std::vector<os::Fd>& probes);
  [[nodiscard]] std::string missing() const;
  [[nodiscard]] Result<HostDescriptors> make_host(const RankDescriptors& ours,
                                                  std::vector<RankDescriptors>& all);
  [[nodiscard]] Outcome hand_out(const RankDescriptors& ours, const HostDescriptors& host);
  [[nodiscard]] Result<std::optional<Failure>> await_ready(const Outcome& ours);
  [[nodiscard]] std::size_t tell(const Failure& failure);
  [[nodiscard]] Outcome give_up(const Outcome& why);

  std::vector<os::Fd> connections_;  ///< by local index
};

}  // namespace tutti::transport::shm
