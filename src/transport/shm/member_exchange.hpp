#pragma once

#include <utility>

#include "transport/shm/host_exchange.hpp"

namespace tutti::transport::shm {

/// The part of each other rank: gives its descriptors to the leader and takes those of the host.
class MemberExchange final : public HostExchange {
 public:
  explicit MemberExchange(Options options) : HostExchange(std::move(options)) {}
  [[nodiscard]] Outcome agree(const Outcome& ours) override;

 private:
  [[nodiscard]] Result<HostDescriptors> share(const RankDescriptors& ours,
                                              const Outcome& ready) override;
  [[nodiscard]] Result<os::Fd> meet_leader();
  [[nodiscard]] Result<DescriptorMessage> hear_leader();
  [[nodiscard]] Result<std::vector<os::Fd>> take_descriptors(Word word, std::size_t count);
  [[nodiscard]] Outcome last_words();
  [[nodiscard]] Outcome give_up(const Outcome& why);

  os::Fd to_leader_;
};

}  // namespace tutti::transport::shm
